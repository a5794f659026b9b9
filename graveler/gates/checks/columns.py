"""Values of columns: nulls, uniqueness, ranges."""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date, datetime
from typing import Any, ClassVar

from graveler.errors import CorruptionError, InvalidInputError
from graveler.gates.candidate import Candidate
from graveler.gates.checks.base import check_bounds, check_share, listed, texts
from graveler.gates.checks.scope import Scoped
from graveler.gates.checks.tables import footer_of, has_column, table
from graveler.gates.footers import Column, Files
from graveler.model import Entry
from graveler.names import read_hour


def _names(columns: Any) -> tuple[str, ...]:
    names = texts(columns)
    if not names:
        raise InvalidInputError("name at least one column")
    return names


def _column_of(files: Files, entry: Entry, name: str) -> Column | None:
    """Return the footer's statistics of a column; None if the data must be read.

    Raises:
        InvalidInputError: The file has no such column.
    """
    footer = footer_of(files, entry)
    if footer is None:
        return None
    if not has_column(footer, name):
        there = ", ".join(footer.fields)
        raise InvalidInputError(f"{entry.path!r} has no column {name!r}: it has {there}")
    return footer.columns.get(name)


@dataclass(frozen=True)
class NotNull(Scoped):
    """No nulls in columns: from Parquet footers, or from the data if these have no statistics."""

    kind: ClassVar[str] = "not_null"

    columns: tuple[str, ...] = ()
    share: float = 0.0

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "columns", _names(self.columns))
        check_share(self.kind, "share", self.share, 1)

    def judge(self, candidate: Candidate, entries: list[Entry]) -> str | None:
        """Return what is wrong with the files, of which there is at least one, or None."""
        nulls = dict.fromkeys(self.columns, 0)
        rows = dict.fromkeys(self.columns, 0)
        for entry in entries:
            for name in self.columns:
                some, all_ = self._count(candidate, entry, name)
                nulls[name] += some
                rows[name] += all_
        candidate.report(nulls=nulls)
        return listed(
            f"column {name!r} has {nulls[name]} nulls in {rows[name]} rows"
            for name in self.columns
            if nulls[name] > self.share * rows[name]
        )

    def _count(self, files: Files, entry: Entry, name: str) -> tuple[int, int]:
        said = _column_of(files, entry, name)
        if said is not None and said.nulls is not None:
            return said.nulls, said.values
        column = table(files, entry, [name]).column(name)
        return column.null_count, len(column)


@dataclass(frozen=True)
class InRange(Scoped):
    """Values of a column are between bounds: from Parquet footers, where these suffice.

    Footers leave out NaN, so floating-point columns are read unless NaN is allowed.
    """

    kind: ClassVar[str] = "in_range"

    column: str = ""
    at_least: Any = None
    at_most: Any = None
    nan: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.column or (self.at_least is None and self.at_most is None):
            raise InvalidInputError(
                f"check {self.kind}: name a column, and at_least or at_most for it"
            )
        for bound in ("at_least", "at_most"):
            value = getattr(self, bound)
            if isinstance(value, (date, datetime)):
                object.__setattr__(self, bound, value.isoformat())
            if isinstance(value, float) and math.isnan(value):
                raise InvalidInputError(f"check {self.kind}: {bound} {value!r}: NaN is no bound")
        check_bounds(self.kind, *_moments(self.at_least, self.at_most))

    def judge(self, candidate: Candidate, entries: list[Entry]) -> str | None:
        """Return what is wrong with the files, of which there is at least one, or None."""
        return listed(self._problems(candidate, entries))

    def _problems(self, candidate: Candidate, entries: list[Entry]) -> Iterator[str]:
        for entry in entries:
            least, greatest, nans = self.bounds(candidate, entry)
            if nans and not self.nan:
                yield f"{entry.path!r}: column {self.column!r} has {nans} values that are NaN"
            for value, limit, low in (
                (least, self.at_least, True),
                (greatest, self.at_most, False),
            ):
                if value is None or limit is None:
                    continue
                there, bound = _comparable(value, limit, self.column)
                if (there < bound) if low else (there > bound):
                    side = "less" if low else "more"
                    yield f"{entry.path!r}: column {self.column!r} has {value}, {side} than {limit}"

    def bounds(self, files: Files, entry: Entry) -> tuple[Any, Any, int]:
        """Return the least and greatest value of the column in a file, and the number of NaN values."""
        said = _column_of(files, entry, self.column)
        floating = said is None or said.type in {"FLOAT", "DOUBLE"}
        known = said is not None and (
            (said.least is not None and said.greatest is not None)
            or (said.nulls is not None and said.nulls == said.values)
        )
        if said is not None and known and (not floating or self.nan):
            return said.least, said.greatest, 0
        import pyarrow as pa  # noqa: PLC0415 - table() has asked for it
        import pyarrow.compute as pc  # noqa: PLC0415

        values = table(files, entry, [self.column]).column(self.column).drop_null()
        nans = 0
        if pa.types.is_floating(values.type):
            numbers = values.filter(pc.invert(pc.is_nan(values)))
            nans, values = len(values) - len(numbers), numbers
        if not len(values):
            return None, None, nans
        bounds = pc.min_max(values).as_py()
        return bounds["min"], bounds["max"], nans


def _moments(*bounds: Any) -> tuple[Any, ...]:
    """Return the bounds as times if all are times, else unchanged."""
    times = [read_hour(bound) if isinstance(bound, str) else None for bound in bounds]
    return tuple(bounds if None in times else times)


def _comparable(value: Any, limit: Any, column: str) -> tuple[Any, Any]:
    """Return a value and a bound that can be compared; a bound of a time is ISO 8601 text."""
    try:
        if isinstance(limit, str) and isinstance(value, datetime):
            bound = datetime.fromisoformat(limit)
            if bound.tzinfo is None or value.tzinfo is None:  # those without a zone are UTC
                return value.replace(tzinfo=None), bound.replace(tzinfo=None)
            return value, bound
        if isinstance(limit, str) and isinstance(value, date):
            return value, date.fromisoformat(limit)
        if isinstance(limit, float) and math.isnan(limit):
            raise InvalidInputError(f"column {column!r}: NaN is no bound")
        value < limit  # noqa: B015 - whether they can be compared
    except (TypeError, ValueError) as error:
        raise InvalidInputError(
            f"column {column!r} has {type(value).__name__} {value!r}, which cannot be compared "
            f"with {limit!r}: give a bound of its type, times as ISO 8601"
        ) from error
    return value, limit


@dataclass(frozen=True)
class Unique(Scoped):
    """No two rows with the same values in columns; the columns are read completely."""

    kind: ClassVar[str] = "unique"

    scope: str = "all"
    columns: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "columns", _names(self.columns))

    def judge(self, candidate: Candidate, entries: list[Entry]) -> str | None:
        """Return what is wrong with the files, of which there is at least one, or None."""
        tables = [table(candidate, entry, self.columns) for entry in entries]
        import pyarrow as pa  # noqa: PLC0415 - table() has asked for it

        try:
            together = pa.concat_tables(tables, promote_options="permissive")
        except (pa.ArrowInvalid, pa.ArrowTypeError) as error:
            raise CorruptionError(
                f"columns {', '.join(self.columns)} differ in type between files: {error}"
            ) from error
        names = [str(number) for number in range(len(self.columns))]
        counted = together.rename_columns(names).group_by(names).aggregate([([], "count_all")])
        many = counted.filter(pa.compute.greater(counted.column("count_all"), 1))
        candidate.report(rows=together.num_rows, repeated=many.num_rows)
        if not many.num_rows:
            return None
        row = many.slice(0, 1).to_pylist()[0]
        values = ", ".join(
            f"{name}={row[number]!r}" for name, number in zip(self.columns, names, strict=True)
        )
        return (
            f"{many.num_rows} values of {', '.join(self.columns)} are there more than once "
            f"({values}: {row['count_all']} times)"
        )
