"""Frames: one or several partitions as one frame, and the number of their rows."""

from collections.abc import Mapping, Sequence
from hashlib import sha256
from typing import Any

from dagster_graveler.io_managers.handlers import Table, TypeHandler, put, written
from graveler.errors import InvalidInputError, ObjectNotFoundError
from graveler.frames import read, write
from graveler.frames.formats import FORMATS, PARQUET, SUFFIX
from graveler.frames.libraries import SPARK
from graveler.frames.library import TYPE, FrameLibrary, ParquetLibrary
from graveler.frames.rows import PartitionRows
from graveler.lake import Branch, Ref, Run, Step
from graveler.model import Entry

_MARK = 16
_FILE = "data.parquet"
_MOST_FOOTERS = 64


class FrameHandler(TypeHandler):
    """Stores frames of a library: one Parquet file for each partition, or the files of Spark."""

    def __init__(self, library: FrameLibrary) -> None:
        self.name = library.name  # type: ignore[misc]  # of the class, where handlers are written by hand
        self._library = library

    def handles(self, kind: type) -> bool:
        """Return whether the type is a frame of the library."""
        return self._library.handles(kind)

    def columns(self, obj: Any) -> Mapping[str, str]:
        """Return the type of each column."""
        return self._library.columns(obj)

    def combine(self, values: Mapping[str, Any]) -> Any:
        """Return the frames of several partitions as one."""
        if not values:
            raise ObjectNotFoundError(
                "no partition of the input exists: materialize one of them first"
            )
        return self._library.concat(list(values.values()))

    def split(self, obj: Any, column: str, rows: Mapping[str, PartitionRows]) -> Mapping[str, Any]:
        """Return the rows of each partition."""
        columns = list(self.columns(obj))
        if column not in columns:
            raise InvalidInputError(f"no column {column!r} to split partitions by: {columns}")
        return self._library.split_rows(obj, column, rows)

    def write(self, step: Step, table: Table, obj: Any) -> None:
        """Write a frame; in mode ``append``, beside the rows of other owners or runs."""
        if not isinstance(self._library, ParquetLibrary):
            _write_with_spark(step, table, obj)
            return
        name = _FILE
        if table.mode == "append":
            name = f"data-{sha256((table.owner or step.name).encode()).hexdigest()[:_MARK]}{SUFFIX}"
        with self._library.file(obj, PARQUET) as file:
            kind = FORMATS[PARQUET].media_type
            put(step, table, name, file, kind=self.name, content_type=kind)

    def read(self, view: Run | Ref, table: Table, kind: Any) -> Any:
        """Return the frame; Parquet files of any writer are read, whatever the table's format is."""
        options: dict[str, Any] = {"format": PARQUET}
        if self.name == SPARK:
            first = next(table.entries(view), None)
            if first is None or not first.path.endswith(SUFFIX) or table.file_format == "parquet":
                options = {"format": table.file_format, "options": table.options}
        return read(view, table.folder, self.name if kind is Any else kind, nested=False, **options)


def _write_with_spark(step: Step, table: Table, obj: Any) -> None:
    """Write a frame; files of other assets in folders below it stay."""
    mode = table.mode
    if mode == "overwrite" and not table.partition_by:
        mode = "append"
    if table.mode == "overwrite":
        # with `partition_by` Spark replaces only its own folders, not files of other libraries
        step.delete_many(
            [
                entry.path
                for entry in written(step, table)
                if not table.partition_by or TYPE in entry.metadata
            ]
        )
    write(
        step,
        obj,
        table.folder,
        mode=mode,  # type: ignore[arg-type] # Dagster's settings have no literals
        format=table.file_format,
        partition_by=table.partition_by,
        options=table.options,
        owner=table.owner if table.mode == "append" else "",
    )


def count_rows(view: Branch, entries: Sequence[Entry]) -> int | None:
    """Return the number of rows from the footers; None if files are not Parquet or too many."""
    if not entries or len(entries) > _MOST_FOOTERS:
        return None
    if not all(entry.path.endswith(SUFFIX) for entry in entries):
        return None
    import pyarrow.parquet as pq

    rows = 0
    for entry in entries:
        with view.open(entry) as file:
            rows += pq.ParquetFile(file).metadata.num_rows
    return rows
