"""Built-in checks: functions that each return a gate.

All take ``prefix`` first, the folder that they judge, and as named options the fields of a gate:
``name``, ``severity``, ``timeout``, ``isolated``, ``memory``. With ``scope="changes"`` a check
looks at the files that a run adds or replaces, with ``scope="all"`` at all that would be there.
A prefix with nothing below it is refused, as it is most often mistyped; ``missing="allow"`` lets it
pass. Arguments by which a check could never refuse, or never pass, are refused when it is made.
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
    """Files have the columns, and the types, that are expected.

    Cost: a footer for each file; of CSV the first line, whose columns have names but no types.

    Args:
        prefix: Where.
        columns: Types by name, as Arrow writes them (``int64``, ``string``, ``timestamp[us]``);
            "" for any type. Where not given: those of the newest file that is on the target.
        evolution: ``none`` allows the same columns only; ``add`` new ones, too; ``widen`` also
            wider types (int32 to int64, float to double).
        scope: ``changes`` or ``all``.
        missing: Whether to ``refuse`` or to ``allow`` that there is nothing below `prefix`.
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
    """As many rows as expected, all files together.

    Cost: a footer for each Parquet file; CSV is read whole.

    Args:
        prefix: Where.
        at_least: Rows.
        at_most: Rows.
        scope: ``changes`` or ``all``.
        missing: Whether a run that brings nothing there is to ``refuse`` or to ``allow``; give
            ``allow`` where several pipelines publish to one branch that requires this.
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
    """About as many rows as earlier runs brought: their median is what is usual.

    Cost: a footer for each file that the run brings; earlier ones are looked up once and kept.

    Args:
        prefix: Where.
        less: The share by which there may be fewer, from 0 to 1 (0.5 is 50 %); None for any.
        more: The share by which there may be more, from 0 to 10; None for any.
        history: With how many commits to compare.
        enough: With fewer than that there is nothing to compare with, and it passes.
        missing: Whether to ``refuse`` or to ``allow`` that there is nothing below `prefix`.
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

    Cost: a footer for each Parquet file, the column where a footer does not say; CSV is read
    whole, and its empty fields are null.

    Args:
        prefix: Where.
        columns: Which; ``a.b`` within a struct.
        share: The share of nulls that is allowed, 0.01 for one in a hundred.
        scope: ``changes`` or ``all``.
        missing: Whether to ``refuse`` or to ``allow`` that there is nothing below `prefix`.
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
    """No two rows have the same values in columns.

    Cost: exact, so these columns of all the files are read and held in memory together.

    Args:
        prefix: Where.
        columns: Which, together.
        scope: ``all``, or ``changes`` where files cannot repeat one another.
        missing: Whether to ``refuse`` or to ``allow`` that there is nothing below `prefix`.
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
    """Values of a column lie between bounds, nulls left aside.

    Cost: a footer for each Parquet file; the column where a footer does not say, and where it is
    of floating point, of which footers leave out NaN, unless NaN is allowed; CSV is read whole.

    Args:
        prefix: Where.
        column: Which.
        at_least: Numbers, texts; times as such or as ISO 8601.
        at_most: The same.
        nan: Whether NaN is allowed.
        scope: ``changes`` or ``all``.
        missing: Whether to ``refuse`` or to ``allow`` that there is nothing below `prefix`.
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
    """The newest file is new enough, or the newest time in a column is.

    What it says is not kept for a later candidate. Cost: no file is read without `column`.

    Args:
        prefix: Where.
        max_age: At most so old: a timedelta, text (``36h``), or seconds.
        column: Of times or dates; those without a zone are UTC.
        scope: ``changes`` or ``all``.
        missing: Whether to ``refuse`` or to ``allow`` that there is nothing below `prefix`.
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
    """Files are of these formats, by name and by content; ``parquet`` where none is named.

    CSV and JSON are text in UTF-8, and no HTML. Cost: the footer of Parquet, the beginning of CSV
    (1 MiB) and JSON (64 KiB), and no more of them is looked at.

    Args:
        prefix: Where.
        formats: Of ``parquet``, ``csv``, ``json`` (which is JSON lines, too).
        scope: ``changes`` or ``all``.
        missing: Whether to ``refuse`` or to ``allow`` that there is nothing below `prefix`.
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
    """Files are neither empty nor huge, nor too many. Cost: no file is read.

    Args:
        prefix: Where.
        at_least: Bytes.
        at_most: Bytes.
        files_at_most: Files.
        scope: ``changes`` or ``all``.
        missing: Whether to ``refuse`` or to ``allow`` that there is nothing below `prefix`.
        options: Fields of the gate.
    """
    bounds = {"at_least": at_least, "at_most": at_most, "files_at_most": files_at_most}
    return _gate(FileSize, options, prefix=prefix, scope=scope, missing=missing, **bounds)


def only_within(*prefixes: str, **options: Any) -> Gate:
    """A run touches nothing but its partition. Cost: no file is read.

    Args:
        prefixes: Where it may; ``{hour}`` stands for what the run's metadata says under that
            name. A time, such as integrations put, stands for its folder, too:
            ``2013/01/01/05:00``, or as in ``{hour:%Y/%m/%d}``.
        options: Fields of the gate.
    """
    return _gate(OnlyWithin, options, prefixes=prefixes)


def nothing_deleted_outside(*prefixes: str, **options: Any) -> Gate:
    """A run deletes nothing but below prefixes. Cost: no file is read.

    Args:
        prefixes: Where it may, as for `only_within`.
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
    """Every value of a column is there in another one, nulls left aside.

    Cost: both columns are read, and their distinct values held in memory.

    Args:
        prefix: Where.
        column: Which.
        other: Prefix of the files that it refers to.
        other_column: Column of these; the same name where not given.
        scope: ``changes`` or ``all``: of the files below `prefix`.
        missing: Whether to ``refuse`` or to ``allow`` that there is nothing below `prefix`.
        options: Fields of the gate.
    """
    names = {"column": column, "other": other, "other_column": other_column}
    return _gate(RefersTo, options, prefix=prefix, scope=scope, missing=missing, **names)
