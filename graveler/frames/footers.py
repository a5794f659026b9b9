"""Footers of Parquet files, read without the data."""

import csv
import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any, BinaryIO, Protocol

from graveler.errors import CorruptionError, MissingDependencyError
from graveler.model import Entry
from graveler.objects.verified import RangedFile


class Files(Protocol):
    """The files of a tree, by path."""

    def get(self, path: str) -> bytes:
        """Return the bytes of the file at `path`."""

    def open(self, path: str) -> BinaryIO:
        """Return a readable, seekable stream of the file at `path`; the caller closes it."""

    def read_range(self, path: str, start: int, length: int) -> bytes:
        """Return at most `length` bytes of the file at `path`, from `start` on."""


@dataclass(frozen=True, slots=True)
class Column:
    """The statistics of one leaf column in a footer."""

    type: str
    nulls: int | None
    least: Any
    greatest: Any
    values: int
    repeated: bool = False


@dataclass(frozen=True, slots=True)
class Footer:
    """The content of the footer of a Parquet file."""

    rows: int
    schema: tuple[tuple[str, str], ...]
    nullable: Mapping[str, bool]
    columns: Mapping[str, Column]

    @property
    def fields(self) -> Mapping[str, str]:
        """The types by name."""
        return dict(self.schema)


@dataclass(frozen=True, slots=True, eq=False)
class TableFile(Entry):
    """A data file of a table of the catalog: its footer is what the table's statistics tell.

    Attributes:
        source: The rows of the table.
        task: The file with its delete files.
    """

    source: Any = None
    task: Any = None

    def footer(self) -> Footer:
        """Return how many rows are left, and the columns of the table; `column` has the statistics."""
        kinds = tuple((field.name, str(field.type)) for field in self.source.schema)
        return Footer(self.source.count([self.task]), kinds, {}, {})

    def column(self, name: str) -> Column:
        """Return the statistics of a column; those of a file with deleted rows tell nothing."""
        file, source = self.task.file, self.source
        if (field := source.fields.get(name)) is None or self.task.delete_files:
            return Column("", None, None, None, file.record_count)
        nulls, nans = (
            (counts or {}).get(field.field_id)
            for counts in (file.null_value_counts, file.nan_value_counts)
        )
        kind = "without NaN" if nans == 0 else str(field.field_type).upper()
        least, greatest = (
            source.bound(field, each) for each in (file.lower_bounds, file.upper_bounds)
        )
        return Column(kind, nulls, least, greatest, file.record_count)

    def read(self, columns: Sequence[str]) -> Any:
        """Return columns without the deleted rows, as an Arrow table."""
        names = self.source.schema.names
        tops = dict.fromkeys(name if name in names else name.partition(".")[0] for name in columns)
        some = [name for name in tops if name in names]
        return self.source.rows([self.task], some or names[:1])


def arrow() -> Any:
    """Return ``pyarrow.parquet``, or raise MissingDependencyError."""
    try:
        import pyarrow.parquet
    except ImportError as error:
        raise MissingDependencyError(
            "this check reads columns, which needs pyarrow: install graveler[gates]"
        ) from error
    return pyarrow.parquet


@contextmanager
def reading(entry: Entry, form: str = "Parquet") -> Iterator[None]:
    """Raise CorruptionError if the block cannot read an entry's file."""
    try:
        yield
    except (
        OSError,
        EOFError,
        ValueError,
        OverflowError,
        KeyError,  # a time zone that is none
        RuntimeError,
        csv.Error,
        zlib.error,
    ) as error:
        message = str(error).partition("\n")[0]
        raise CorruptionError(
            f"{entry.path!r} cannot be read as {form}: {message[:200]}"
        ) from error


def open_parquet(files: Files, entry: Entry, **options: Any) -> Any:
    """Return a ``pyarrow.parquet.ParquetFile`` that reads ranges of an entry's file."""
    parquet = arrow()
    with reading(entry):
        return parquet.ParquetFile(
            RangedFile(entry.size, partial(files.read_range, entry.path)), **options
        )


def read_footer(files: Files, entry: Entry, *, most: int | None = None) -> Footer:
    """Return the footer of an entry's Parquet file; no data is read.

    Args:
        most: Leave out the statistics if more than so many parts of columns have them.
    """
    if isinstance(entry, TableFile):
        return entry.footer()
    file = open_parquet(files, entry)
    with reading(entry):
        metadata, schema = file.metadata, file.schema_arrow
        columns: dict[str, Column] = {}
        parts = metadata.num_row_groups * metadata.num_columns
        for group in range(0 if most is not None and parts > most else metadata.num_row_groups):
            for number in range(metadata.num_columns):
                leaf = file.schema.column(number)
                chunk = metadata.row_group(group).column(number)
                columns[leaf.path] = merged(columns.get(leaf.path), _column(leaf, chunk))
        return Footer(
            rows=metadata.num_rows,
            schema=tuple((field.name, str(field.type)) for field in schema),
            nullable={field.name: bool(field.nullable) for field in schema},
            columns=columns,
        )


def _column(leaf: Any, chunk: Any) -> Column:
    stats = chunk.statistics if chunk.is_stats_set else None
    least, greatest = _bounds(stats) if stats is not None and stats.has_min_max else (None, None)
    nulls = stats.null_count if stats is not None and stats.has_null_count else None
    logical = str(leaf.logical_type)
    return Column(
        type=leaf.physical_type if logical == "None" else logical,
        nulls=nulls if chunk.num_values else 0,
        least=least,
        greatest=greatest,
        values=chunk.num_values,
        repeated=leaf.max_repetition_level > 0,
    )


def _bounds(stats: Any) -> tuple[Any, Any]:
    """Return the least and the greatest value; None if Python has no such time."""
    try:
        return stats.min, stats.max
    except (OverflowError, KeyError):
        return None, None


def merged(earlier: Column | None, column: Column) -> Column:
    """Return the combined statistics of two parts of a column."""
    if earlier is None:
        return column
    nulls = None
    if earlier.nulls is not None and column.nulls is not None:
        nulls = earlier.nulls + column.nulls
    return Column(
        type=column.type,
        nulls=nulls,
        least=_bound(min, earlier, column, "least"),
        greatest=_bound(max, earlier, column, "greatest"),
        values=earlier.values + column.values,
        repeated=column.repeated,
    )


def _bound(choose: Any, first: Column, second: Column, which: str) -> Any:
    """Return the bound of both parts; None if one part has values but no bound."""
    known = []
    for column in (first, second):
        value = getattr(column, which)
        if value is not None:
            known.append(value)
        elif column.nulls is None or column.nulls < column.values:
            return None
    try:
        return choose(known) if known else None
    except TypeError:
        return None
