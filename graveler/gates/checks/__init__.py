"""Built-in checks: functions that each return a gate.

Most take ``prefix`` first, the folder to judge. All take the fields of a gate as options: ``name``,
``severity``, ``timeout``, ``isolated``, ``memory``. With ``scope="changes"`` a check reads the files
that a run adds or replaces, with ``scope="all"`` all files of the candidate. A prefix without files
is refused, because it is most often mistyped; ``missing="allow"`` permits it. Arguments with which
a check could never refuse or never pass raise InvalidInputError.
"""

from collections.abc import Mapping
from dataclasses import fields, replace
from datetime import date, datetime, timedelta
from typing import Any

from graveler.arguments import duration
from graveler.errors import InvalidInputError
from graveler.gates.checks.base import BuiltIn, check_types
from graveler.gates.checks.columns import InRange, NotNull, Unique
from graveler.gates.checks.files import FileFormat, FileSize, Freshness
from graveler.gates.checks.paths import NothingDeletedOutside, OnlyWithin
from graveler.gates.checks.references import RefersTo
from graveler.gates.checks.rows import RowCount, RowCountChange
from graveler.gates.checks.schemas import Schema
from graveler.gates.gate import Gate

__all__ = [
    "file_format",
    "file_size",
    "freshness",
    "in_range",
    "not_null",
    "nothing_deleted_outside",
    "only_within",
    "refers_to",
    "row_count",
    "row_count_change",
    "schema",
    "unique",
]


def _gate(kind: type[BuiltIn], options: Mapping[str, Any], **given: Any) -> Gate:
    """Return the gate of a check.

    Raises:
        InvalidInputError: The check takes no such parameters, or a gate no such options.
    """
    check_types(kind, given)
    known = [field.name for field in fields(Gate) if field.name != "check"]
    if odd := [name for name in options if name not in known]:
        raise InvalidInputError(
            f"check {kind.kind}: {odd[0]!r}: there is no such option; a gate has {', '.join(known)}"
        )
    return replace(kind(**given).gate(), **options)


def schema(
    prefix: str = "",
    columns: Mapping[str, str] | None = None,
    *,
    evolution: str = "add",
    scope: str = "changes",
    missing: str = "refuse",
    **options: Any,
) -> Gate:
    """Files have the expected columns and types.

    Cost: the footer of each Parquet file; the first line of a CSV file, which has no types.

    Args:
        prefix: Start of the paths.
        columns: Types by name, as Arrow writes them (``int64``, ``string``, ``timestamp[us]``);
            "" for any type. By default those of the newest file of the target.
        evolution: ``none`` allows only the same columns; ``add`` also allows new columns;
            ``widen`` also allows wider types (int32 to int64, float to double).
        scope: ``changes`` or ``all``.
        missing: ``refuse`` or ``allow``: what to do if no file is below `prefix`.
        options: Fields of the gate.
    """
    given = {} if columns is None else columns
    return _gate(
        Schema,
        options,
        prefix=prefix,
        scope=scope,
        missing=missing,
        columns=given,
        evolution=evolution,
    )


def row_count(
    prefix: str = "",
    at_least: int | None = 1,
    at_most: int | None = None,
    *,
    scope: str = "changes",
    missing: str = "refuse",
    **options: Any,
) -> Gate:
    """The files together have the expected number of rows.

    Cost: the footer of each Parquet file; CSV files are read completely.

    Args:
        prefix: Start of the paths.
        at_least: Fewest rows.
        at_most: Most rows.
        scope: ``changes`` or ``all``.
        missing: ``refuse`` or ``allow``: what to do if a run brings no file; give ``allow`` if
            several pipelines publish to a branch that requires this check.
        options: Fields of the gate.
    """
    bounds = {"at_least": at_least, "at_most": at_most}
    return _gate(RowCount, options, prefix=prefix, scope=scope, missing=missing, **bounds)


def row_count_change(
    prefix: str = "",
    *,
    less: float | None = 0.5,
    more: float | None = None,
    history: int = 20,
    enough: int = 3,
    missing: str = "refuse",
    **options: Any,
) -> Gate:
    """A run brings about as many rows as the median of earlier runs.

    Cost: the footer of each file that the run brings; those of earlier runs are read once.

    Args:
        prefix: Start of the paths.
        less: Allowed decrease as a share, from 0 to 1 (0.5 is 50 %); None for any.
        more: Allowed increase as a share, from 0 to 10; None for any.
        history: Number of commits to compare with.
        enough: The check passes if there are fewer earlier commits than this.
        missing: ``refuse`` or ``allow``: what to do if no file is below `prefix`.
        options: Fields of the gate.
    """
    shares = {"less": less, "more": more}
    past = {"history": history, "enough": enough}
    return _gate(RowCountChange, options, prefix=prefix, missing=missing, **shares, **past)


def not_null(
    prefix: str,
    *columns: str,
    share: float = 0.0,
    scope: str = "changes",
    missing: str = "refuse",
    **options: Any,
) -> Gate:
    """No nulls in columns.

    Cost: the footer of each Parquet file, and the column if the footer has no statistics; CSV
    files are read completely, and their empty fields are null.

    Args:
        prefix: Start of the paths.
        columns: Names of columns; ``a.b`` within a struct.
        share: Allowed share of nulls; 0.01 is one in a hundred.
        scope: ``changes`` or ``all``.
        missing: ``refuse`` or ``allow``: what to do if no file is below `prefix`.
        options: Fields of the gate.
    """
    return _gate(
        NotNull, options, prefix=prefix, scope=scope, missing=missing, columns=columns, share=share
    )


def unique(
    prefix: str,
    *columns: str,
    scope: str = "all",
    missing: str = "refuse",
    **options: Any,
) -> Gate:
    """No two rows have the same values in the columns.

    Cost: the columns of all files are read and held in memory together.

    Args:
        prefix: Start of the paths.
        columns: Names of the columns that together are unique.
        scope: ``all``, or ``changes`` if different files cannot repeat values.
        missing: ``refuse`` or ``allow``: what to do if no file is below `prefix`.
        options: Fields of the gate.
    """
    return _gate(Unique, options, prefix=prefix, scope=scope, missing=missing, columns=columns)


def in_range(  # noqa: PLR0913 - what there is to say
    prefix: str,
    column: str,
    at_least: float | str | date | datetime | None = None,
    at_most: float | str | date | datetime | None = None,
    *,
    nan: bool = False,
    scope: str = "changes",
    missing: str = "refuse",
    **options: Any,
) -> Gate:
    """Values of a column are between bounds; nulls are ignored.

    Cost: the footer of each Parquet file. The column is read if the footer has no statistics, and,
    unless NaN is allowed, if it is a floating-point column, because footers leave out NaN. CSV
    files are read completely.

    Args:
        prefix: Start of the paths.
        column: Name of the column.
        at_least: Smallest value: a number, a text, or a time, which may be ISO 8601 text.
        at_most: Largest value.
        nan: Whether NaN is allowed.
        scope: ``changes`` or ``all``.
        missing: ``refuse`` or ``allow``: what to do if no file is below `prefix`.
        options: Fields of the gate.
    """
    bounds = {"column": column, "at_least": at_least, "at_most": at_most, "nan": nan}
    return _gate(InRange, options, prefix=prefix, scope=scope, missing=missing, **bounds)


def freshness(
    prefix: str = "",
    max_age: float | str | timedelta = timedelta(days=1),
    *,
    column: str = "",
    scope: str = "all",
    missing: str = "refuse",
    **options: Any,
) -> Gate:
    """The newest file, or the newest time in a column, is recent enough.

    The verdict is not stored. Cost: without `column` no file is read.

    Args:
        prefix: Start of the paths.
        max_age: Largest age: a timedelta, text (``36h``), or seconds.
        column: A column of times or dates; without a time zone they are UTC.
        scope: ``changes`` or ``all``.
        missing: ``refuse`` or ``allow``: what to do if no file is below `prefix`.
        options: Fields of the gate.
    """
    length = duration(max_age, "max_age") if isinstance(max_age, str) else max_age
    seconds = length.total_seconds() if isinstance(length, timedelta) else length
    return _gate(
        Freshness,
        options,
        prefix=prefix,
        scope=scope,
        missing=missing,
        max_age=seconds,
        column=column,
    )


def file_format(
    prefix: str = "",
    *formats: str,
    scope: str = "changes",
    missing: str = "refuse",
    **options: Any,
) -> Gate:
    """Files have these formats, by name and by content; ``parquet`` by default.

    CSV and JSON are text in UTF-8 and not HTML. Cost: the footer of a Parquet file, and the
    beginning of a CSV (1 MiB) or JSON (64 KiB) file; the rest is not read.

    Args:
        prefix: Start of the paths.
        formats: Any of ``parquet``, ``csv`` and ``json`` (which includes JSON lines).
        scope: ``changes`` or ``all``.
        missing: ``refuse`` or ``allow``: what to do if no file is below `prefix`.
        options: Fields of the gate.
    """
    chosen = formats or ("parquet",)
    return _gate(FileFormat, options, prefix=prefix, scope=scope, missing=missing, formats=chosen)


def file_size(
    prefix: str = "",
    at_least: int | None = 1,
    at_most: int | None = None,
    *,
    files_at_most: int | None = None,
    scope: str = "changes",
    missing: str = "refuse",
    **options: Any,
) -> Gate:
    """Files have the expected sizes and number. Cost: no file is read.

    Args:
        prefix: Start of the paths.
        at_least: Smallest size of a file, in bytes.
        at_most: Largest size of a file, in bytes.
        files_at_most: Largest number of files.
        scope: ``changes`` or ``all``.
        missing: ``refuse`` or ``allow``: what to do if no file is below `prefix`.
        options: Fields of the gate.
    """
    bounds = {"at_least": at_least, "at_most": at_most, "files_at_most": files_at_most}
    return _gate(FileSize, options, prefix=prefix, scope=scope, missing=missing, **bounds)


def only_within(*prefixes: str, **options: Any) -> Gate:
    """A run changes only paths below prefixes. Cost: no file is read.

    Args:
        prefixes: The allowed prefixes; ``{hour}`` is replaced by the value of that name in the
            run's metadata. A time, such as the integrations set, also matches its folder,
            ``2013/01/01/05:00``, and takes a format, as in ``{hour:%Y/%m/%d}``.
        options: Fields of the gate.
    """
    return _gate(OnlyWithin, options, prefixes=prefixes)


def nothing_deleted_outside(*prefixes: str, **options: Any) -> Gate:
    """A run deletes only paths below prefixes. Cost: no file is read.

    Args:
        prefixes: The allowed prefixes, as for `only_within`.
        options: Fields of the gate.
    """
    return _gate(NothingDeletedOutside, options, prefixes=prefixes)


def refers_to(
    prefix: str,
    column: str,
    other: str,
    other_column: str = "",
    *,
    scope: str = "changes",
    missing: str = "refuse",
    **options: Any,
) -> Gate:
    """Every value of a column exists in another column; nulls are ignored.

    Cost: both columns are read, and their distinct values are held in memory.

    Args:
        prefix: Start of the paths.
        column: Name of the column.
        other: Prefix of the files that the column refers to.
        other_column: Column of those files; the same name by default.
        scope: ``changes`` or ``all``, for the files below `prefix`.
        missing: ``refuse`` or ``allow``: what to do if no file is below `prefix`.
        options: Fields of the gate.
    """
    names = {"column": column, "other": other, "other_column": other_column}
    return _gate(RefersTo, options, prefix=prefix, scope=scope, missing=missing, **names)
