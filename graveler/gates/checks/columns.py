"""Checks of the values of columns: nulls, ranges, uniqueness, references."""

import re
from collections import Counter
from collections.abc import Iterator
from datetime import date, datetime
from decimal import Decimal, InvalidOperation
from math import inf
from typing import Any

from graveler.base.names import read_hour
from graveler.errors import InvalidInputError
from graveler.frames.footers import Column, Files, TableFile, arrow
from graveler.gates.candidate import Candidate
from graveler.gates.checks.base import (
    Rule,
    built_in,
    check_bounds,
    check_share,
    files_of,
    in_utc,
    of_files,
)
from graveler.gates.statistics import counts, footer_of
from graveler.model import Entry
from graveler.reads.partitions import folder_values

_SHOWN = 5
_TIME = re.compile(r"\d{4}-\d\d-\d\d")
_WITH_NAN = frozenset({"FLOAT", "DOUBLE", "Float16"})
"""Types whose bounds in a footer leave out NaN."""


@built_in
def not_null(
    prefix: str = "",
    *columns: str,
    share: float = 0.0,
    table: str = "",
    scope: str = "changes",
    missing: str = "refuse",
    **options: Any,
) -> Rule:
    """No nulls in columns.

    Fields of a CSV file that are empty, ``NA``, ``N/A``, ``n/a``, ``#N/A``, ``#N/A N/A``, ``#NA``,
    ``NULL`` or ``null`` are null, also in quotes. NaN is not null: `in_range` refuses it. Cost: the
    footer of each Parquet file, and the column if the footer has no statistics. CSV files are read
    completely.

    Args:
        columns: Names of columns; ``a.b`` within a struct.
        share: Allowed share of nulls; 0.01 is one in a hundred.
    """
    _check_columns(columns)
    check_share("share", share, 1, below=True)

    def check(candidate: Candidate, entries: list[Entry]) -> Iterator[str]:
        nulls = dict.fromkeys(columns, 0)
        rows = dict.fromkeys(columns, 0)
        for entry in entries:
            for name in columns:
                some, total = _count_nulls(candidate, entry, name)
                nulls[name] += some
                rows[name] += total
        candidate.report(nulls=nulls)
        for name in columns:
            if nulls[name] > share * rows[name]:
                yield f"column {name!r} has {nulls[name]} nulls in {rows[name]} rows"

    return of_files(check, prefix, scope, missing, table=table)


def _count_nulls(files: Files, entry: Entry, name: str) -> tuple[int, int]:
    stats = _column_of(files, entry, name)
    if stats is not None and stats.nulls is not None:
        return stats.nulls, stats.values
    arrays = _arrays()
    column = arrays.table(files, entry, [name]).column(name)
    return column.null_count, len(column)


@built_in
def in_range(
    prefix: str = "",
    column: str = "",
    at_least: float | Decimal | str | date | datetime | None = None,
    at_most: float | Decimal | str | date | datetime | None = None,
    *,
    nan: bool = False,
    table: str = "",
    scope: str = "changes",
    missing: str = "refuse",
    **options: Any,
) -> Rule:
    """Values of a column are between bounds; nulls are ignored.

    Cost: the footer of each Parquet file. The column is read if the footer has no statistics, and,
    unless NaN is allowed, if it is a floating-point column, because footers leave out NaN. CSV
    files are read completely.

    Args:
        column: Name of the column.
        at_least: Smallest value: a number, a text, or a time, which may be ISO 8601 text. A time
            without a zone is in UTC, in a file as in a bound. If the bounds are times, texts in a CSV
            file must be times.
        at_most: Largest value.
        nan: Whether NaN is allowed.
    """
    bounds = f"at_least {at_least!r} and at_most {at_most!r}"
    if not column or (at_least is None and at_most is None):
        raise InvalidInputError("name a column, and at_least or at_most for it")
    check_bounds(*_moments(at_least, at_most))
    if at_least in {None, -inf} and at_most in {None, inf}:
        raise InvalidInputError(f"{bounds}: every value lies between them: give a finite one")
    if at_least == inf or at_most == -inf:
        raise InvalidInputError(f"{bounds}: no finite value lies between them: give a finite one")
    text = isinstance(at_least, str) or isinstance(at_most, str)
    times = all(_TIME.match(str(bound)) for bound in (at_least, at_most) if bound is not None)

    def check(candidate: Candidate, entries: list[Entry]) -> Iterator[str]:
        for entry in entries:
            if any(problems(candidate, entry, exact=False)):  # a table may know wider bounds only
                yield from problems(candidate, entry, exact=True)

    def problems(candidate: Candidate, entry: Entry, *, exact: bool) -> Iterator[str]:
        found = column_bounds(
            candidate, entry, column, nan=nan, text=text, times=times, exact=exact
        )
        return _outside(f"{entry.path!r}: column {column!r}", found, (at_least, at_most), nan=nan)

    return of_files(check, prefix, scope, missing, table=table)


@built_in
def accepted_values(
    prefix: str = "",
    column: str = "",
    values: list | None = None,  # type: ignore[type-arg]  # settings store it as JSON
    *,
    nulls: bool = True,
    table: str = "",
    scope: str = "changes",
    missing: str = "refuse",
    **options: Any,
) -> Rule:
    """A column has no other values than these.

    Cost: the column of each file is read.

    Args:
        column: Name of the column.
        values: The accepted values, all texts or all numbers.
        nulls: Whether nulls are accepted.
    """
    _check_columns((column,))
    values = values or []
    text = all(isinstance(value, str) for value in values)
    if not values or not (text or all(isinstance(value, (int, float)) for value in values)):
        raise InvalidInputError(f"values {values!r}: give texts, or numbers")
    accepted = {*values, None} if nulls else {*values}

    def check(candidate: Candidate, entries: list[Entry]) -> Iterator[str]:
        for entry in entries:
            table = _arrays().table(candidate, entry, [column], text=text)
            found = Counter(table.column(column).to_pylist())
            if wrong := [(value, n) for value, n in found.most_common() if value not in accepted]:
                rows = sum(number for _, number in wrong)
                shown = ", ".join(f"{value!r} ({number})" for value, number in wrong[:_SHOWN])
                yield f"{entry.path!r}: column {column!r} has {rows} rows with other values: {shown}"

    return of_files(check, prefix, scope, missing, table=table)


@built_in
def unique(
    prefix: str = "",
    *columns: str,
    table: str = "",
    scope: str = "all",
    missing: str = "refuse",
    **options: Any,
) -> Rule:
    """No two rows have the same values in the columns; as in SQL, a row with a null repeats no other.

    Columns that differ in type between files are compared as text. A column of a CSV file is also
    text if a value is not a number, has leading zeros, or has 16 digits or more.

    Cost: the columns of all files are read and held in memory together.

    Args:
        columns: Names of the columns that together are unique.
        scope: ``all``, or ``changes`` if different files cannot repeat values.
    """
    _check_columns(columns)

    def check(candidate: Candidate, entries: list[Entry]) -> str | None:
        arrays = _arrays()
        rows = arrays.rows_of(candidate, entries, columns)
        names, repeated = rows.column_names, arrays.repeated(rows)
        candidate.report(rows=rows.num_rows, repeated=repeated.num_rows)
        if not repeated.num_rows:
            return None
        row = repeated.slice(0, 1).to_pylist()[0]
        values = ", ".join(
            f"{name}={row[number]!r}" for name, number in zip(columns, names, strict=True)
        )
        return (
            f"{repeated.num_rows} values of {', '.join(columns)} occur more than once "
            f"({values}: {row['count_all']} times)"
        )

    return of_files(check, prefix, scope, missing, table=table)


@built_in
def refers_to(
    prefix: str,
    column: str,
    other: str,
    other_column: str = "",
    *,
    scope: str = "changes",
    missing: str = "refuse",
    **options: Any,
) -> Rule:
    """Every value of a column exists in another column; nulls are ignored.

    Columns that differ in type are compared as text, as in `unique`. If files of the other column
    are replaced or removed, all files below `prefix` are judged.

    Cost: both columns are read, and their distinct values are held in memory.

    Args:
        column: Name of the column.
        other: Prefix of the files that the column refers to.
        other_column: Column of those files; the same name by default.
        scope: ``changes`` or ``all``, for the files below `prefix`.
    """
    if not (column and other):
        raise InvalidInputError("name a column, and the other prefix that it refers to")
    target = other_column or column

    def check(candidate: Candidate, entries: list[Entry]) -> str | None:
        arrays = _arrays()
        parts = arrays.distinct(candidate, entries, column)
        others = (
            files_of(candidate, other, "all") if any(len(part.values) for part in parts) else ()
        )
        both = arrays.aligned([*parts, *arrays.distinct(candidate, others, target)], column)
        values = arrays.values_of(both[: len(parts)])
        unknown = values - arrays.values_of(both[len(parts) :])
        candidate.report(values=len(values), lost=len(unknown))
        if not unknown:
            return None
        shown = ", ".join(repr(value) for value in sorted(unknown, key=repr)[:5])
        return (
            f"{len(unknown)} values of {column!r} below {prefix!r} are not in {target!r} "
            f"below {other!r}: {shown}"
        )

    def lost(candidate: Candidate) -> bool:
        return any(change.before and counts(change.before) for change in candidate.changes(other))

    return of_files(check, prefix, scope, missing, reads="content", also=(other,), whole=lost)


def _arrays() -> Any:
    arrow()
    from graveler.gates.checks import arrays

    return arrays


def _check_columns(columns: tuple[str, ...]) -> None:
    if not columns:
        raise InvalidInputError("name at least one column")
    if "" in columns:
        raise InvalidInputError("column '': give the name of a column")
    if twice := next((name for name in columns if columns.count(name) > 1), ""):
        raise InvalidInputError(f"column {twice!r} is named twice: name it once")


def _column_of(files: Files, entry: Entry, name: str) -> Column | None:
    """Return the footer's statistics of a column; None if the data must be read."""
    if isinstance(entry, TableFile):
        return entry.column(name)
    footer = footer_of(files, entry)
    if footer is None or name in dict(folder_values(entry.path)):
        return None
    column = footer.columns.get(name)
    if column is not None and column.repeated:
        raise InvalidInputError(
            f"column {name!r} lies within a list or a map: name one that has a value for each row"
        )
    if column is None and name not in footer.fields:
        known = ", ".join(footer.fields)
        raise InvalidInputError(f"{entry.path!r} has no column {name!r}: it has {known}")
    return column


def column_bounds(
    files: Files,
    entry: Entry,
    name: str,
    *,
    nan: bool,
    text: bool = False,
    times: bool = False,
    exact: bool = False,
) -> tuple[Any, Any, int]:
    """Return the least and greatest value of a column in a file, and the number of NaN values.

    Args:
        nan: Whether NaN is ignored, so that footers suffice for floating-point columns.
        text: Whether the column of a CSV file is text unless it has dates or times.
        times: Whether every text in the column of a CSV file must be a time.
        exact: Whether the file of a table is read: its statistics may be cut, or wider than the values.
    """
    stats = _column_of(files, entry, name)
    told = not (exact and isinstance(entry, TableFile))
    if told and stats is not None and (nan or stats.type not in _WITH_NAN):
        bounded = stats.least is not None and stats.greatest is not None
        if bounded or (stats.nulls is not None and stats.nulls == stats.values):
            return stats.least, stats.greatest, 0
    arrays = _arrays()
    bounds: tuple[Any, Any, int] = arrays.read_bounds(
        files, entry, name, text=text, times=times and stats is None
    )
    return bounds


def _outside(
    column: str, found: tuple[Any, Any, int], limits: tuple[Any, Any], *, nan: bool
) -> Iterator[str]:
    """Yield how the bounds of a column leave the limits."""
    (least, greatest, nans), (at_least, at_most) = found, limits
    if nans and not nan:
        yield f"{column} has {nans} values that are NaN"
    if _compare(least, at_least, column) < 0:
        yield f"{column} has {least}, less than {at_least}"
    if _compare(greatest, at_most, column) > 0:
        yield f"{column} has {greatest}, more than {at_most}"


def _moments(*bounds: Any) -> tuple[Any, ...]:
    """Return the bounds as times if all are times, else unchanged."""
    times = [read_hour(bound) if isinstance(bound, str) else None for bound in bounds]
    return tuple(bounds if None in times else times)


def _compare(value: Any, limit: Any, column: str) -> int:
    """Return -1, 0 or 1: the value is less than, equal to, or greater than the bound."""
    if value is None or limit is None:
        return 0
    left, right = value, limit
    try:
        if isinstance(limit, str) and isinstance(value, date):
            left, right = in_utc(value), in_utc(datetime.fromisoformat(limit))
        elif isinstance(value, Decimal) and limit not in {inf, -inf}:
            right = Decimal(str(limit))  # 0.1 is the number that is written so
        return int(left > right) - int(left < right)
    except (TypeError, ValueError, InvalidOperation) as error:
        raise InvalidInputError(
            f"{column} has {type(value).__name__} {value!r}, which cannot be compared "
            f"with {limit!r}: give a bound of its type, times as ISO 8601"
        ) from error
