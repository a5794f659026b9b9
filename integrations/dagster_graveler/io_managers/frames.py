"""Frames: several partitions as one frame, and frames in memory as Parquet files."""

import re
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import unquote

from dagster_graveler.io_managers.handlers import (
    PartitionRows,
    Table,
    TypeHandler,
    nothing_below,
    put,
)
from graveler.errors import InvalidInputError, ObjectNotFoundError
from graveler.lake import Branch, Ref, Run, Step
from graveler.model import Entry

if TYPE_CHECKING:
    import pyarrow as pa

_FILE: Final = "data.parquet"
_MOST_FOOTERS: Final = 64
_NUMBER: Final = re.compile(r"-?(0|[1-9][0-9]{0,17})")
_NULL: Final = "__HIVE_DEFAULT_PARTITION__"


class FrameHandler(TypeHandler):
    """Keeps frames of a library."""

    @abstractmethod
    def concat(self, frames: Sequence[Any]) -> Any:
        """Return frames with equal columns as one."""

    @abstractmethod
    def split_rows(
        self, frame: Any, column: str, rows: Mapping[str, PartitionRows]
    ) -> Mapping[str, Any]:
        """Return the rows of each partition; refuse rows that belong to none."""

    def combine(self, values: Mapping[str, Any]) -> Any:
        """Return the frames of several partitions as one."""
        if not values:
            raise ObjectNotFoundError(
                "no partition of the input exists: materialize one of them first"
            )
        return self.concat(list(values.values()))

    def split(self, obj: Any, column: str, rows: Mapping[str, PartitionRows]) -> Mapping[str, Any]:
        """Return the rows of each partition."""
        columns = list(self.columns(obj))
        if column not in columns:
            raise InvalidInputError(f"no column {column!r} to split partitions by: {columns}")
        return self.split_rows(obj, column, rows)


class ParquetHandler(FrameHandler):
    """Keeps frames in memory, as one Parquet file for each partition."""

    @abstractmethod
    def write_parquet(self, frame: Any, file: Path) -> None:
        """Write a frame to a local file."""

    @abstractmethod
    def from_arrow(self, table: "pa.Table", kind: Any) -> Any:
        """Return an Arrow table as a frame of the annotated type."""

    def write(self, step: Step, table: Table, obj: Any) -> None:
        """Write a frame."""
        with TemporaryDirectory(prefix="graveler-") as scratch:
            file = Path(scratch) / _FILE
            self.write_parquet(obj, file)
            kind = "application/vnd.apache.parquet"
            put(step, table, _FILE, file, kind=self.name, content_type=kind)

    def read(self, view: Run | Ref, table: Table, kind: Any) -> Any:
        """Return the rows of all Parquet files of the table, whatever wrote them.

        ``key=value`` folders become columns.
        """
        return self.from_arrow(read_arrow(view, table), kind)


def read_arrow(view: Run | Ref, table: Table) -> "pa.Table":
    """Return the rows of all Parquet files of a table."""
    import pyarrow as pa  # noqa: PLC0415 - heavy: only where it is used
    import pyarrow.parquet as pq  # noqa: PLC0415

    files = [entry for entry in table.entries(view) if not _is_hidden(entry)]
    tables = []
    for entry in files:
        if entry.path.endswith(".parquet"):
            with view.open(entry) as file:
                whole = pa.BufferReader(file.read())  # a whole read compares the checksum
            rows = pq.ParquetFile(whole, coerce_int96_timestamp_unit="us").read()
            tables.append((rows, _values(entry.path.removeprefix(table.folder))))
    if not tables:
        raise nothing_below(table.folder, [entry.path for entry in files])
    numbers = _number_columns([values for _, values in tables])
    parts = [_with_columns(rows, values, numbers) for rows, values in tables]
    return parts[0] if len(parts) == 1 else concat_arrow(parts)


def concat_arrow(tables: "Sequence[pa.Table]") -> "pa.Table":
    """Return tables as one, with the wider type where two differ."""
    import pyarrow as pa  # noqa: PLC0415 - heavy: only where it is used

    return pa.concat_tables(tables, promote_options="permissive")


def count_rows(view: Branch, entries: Sequence[Entry]) -> int | None:
    """Return the number of rows by the footers; None if files are not Parquet, or too many."""
    if not entries or len(entries) > _MOST_FOOTERS:
        return None
    if not all(entry.path.endswith(".parquet") for entry in entries):
        return None
    import pyarrow.parquet as pq  # noqa: PLC0415 - heavy: only where it is used

    rows = 0
    for entry in entries:
        with view.open(entry) as file:
            rows += pq.ParquetFile(file).metadata.num_rows
    return rows


def _is_hidden(entry: Entry) -> bool:
    return entry.path.rpartition("/")[2].startswith(("_", "."))


def _values(path: str) -> Mapping[str, str | None]:
    """Return the values in the ``key=value`` folders of a path."""
    pairs = (folder.partition("=") for folder in path.split("/")[:-1])
    return {unquote(name): None if value == _NULL else unquote(value) for name, _, value in pairs}


def _number_columns(paths: Sequence[Mapping[str, str | None]]) -> frozenset[str]:
    """Return the columns of which every value is a whole number."""
    return frozenset(
        name
        for name in paths[0]
        if all((value := values.get(name)) is None or _NUMBER.fullmatch(value) for values in paths)
    )


def _with_columns(
    rows: "pa.Table", values: Mapping[str, str | None], numbers: frozenset[str]
) -> "pa.Table":
    import pyarrow as pa  # noqa: PLC0415 - heavy: only where it is used

    for name, value in values.items():
        kind = pa.int64() if name in numbers else pa.string()
        typed = int(value) if value is not None and name in numbers else value
        rows = rows.append_column(name, pa.repeat(pa.scalar(typed, kind), len(rows)))
    return rows
