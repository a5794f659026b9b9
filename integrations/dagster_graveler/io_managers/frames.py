"""Frames: several partitions as one frame, and Dagster's metadata of frames."""

from collections.abc import Collection, Mapping, Sequence
from hashlib import sha256
from typing import Any

import dagster as dg

from dagster_graveler.io_managers.handlers import (
    Table,
    TypeHandler,
    nothing_below,
    put,
    written,
)
from graveler.errors import InvalidInputError, ObjectNotFoundError
from graveler.frames.library import PARQUET, TYPE, FrameLibrary, ParquetLibrary
from graveler.frames.parquet import SUFFIX, read_arrow
from graveler.frames.rows import PartitionRows
from graveler.lake import Branch, Ref, Run, Step
from graveler.model import Entry
from graveler.reads.partitions import table_entries
from graveler.spark import read, write

_MARK = 16
_FILE = "data.parquet"
_MOST_FOOTERS = 64
_LINEAGE = "dagster/column_lineage"


class FrameHandler(TypeHandler):
    """Stores frames of a library."""

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


class ParquetHandler(FrameHandler):
    """Stores frames in memory as one Parquet file for each partition."""

    def __init__(self, library: ParquetLibrary) -> None:
        super().__init__(library)
        self._parquet = library

    def write(self, step: Step, table: Table, obj: Any) -> None:
        """Write a frame; in mode ``append``, beside the rows of other owners or runs."""
        name = _FILE
        if table.mode == "append":
            name = f"data-{sha256((table.owner or step.name).encode()).hexdigest()[:_MARK]}{SUFFIX}"
        with self._parquet.parquet(obj) as file:
            put(step, table, name, file, kind=self.name, content_type=PARQUET)

    def read(self, view: Run | Ref, table: Table, kind: Any) -> Any:
        """Return the rows of all Parquet files of the table, from any writer.

        ``key=value`` folders become columns.
        """
        entries = table_entries(view, table.folder, nested=False)
        files = [(relative, entry) for relative, entry in entries if relative.endswith(SUFFIX)]
        if not files:
            raise nothing_below(table.folder, [entry.path for _, entry in entries])
        return self._parquet.from_arrow(read_arrow(view, files), kind)


class SparkHandler(FrameHandler):
    """Stores Spark frames as the files that Spark writes."""

    def write(self, step: Step, table: Table, obj: Any) -> None:
        """Write a frame; files of other assets in folders below it stay."""
        mode = table.mode
        if mode == "overwrite":
            # with `partition_by` Spark replaces only its own folders, not files of other libraries
            step.delete_many(
                [
                    entry.path
                    for entry in written(step, table)
                    if not table.partition_by or TYPE in entry.metadata
                ]
            )
            mode = "overwrite" if table.partition_by else "append"
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

    def read(self, view: Run | Ref, table: Table, kind: Any) -> Any:
        """Return the frame; Parquet files of any writer are read as Parquet."""
        first = next(table.entries(view), None)
        parquet = first is not None and first.path.endswith(SUFFIX)
        file_format = "parquet" if parquet else table.file_format
        options = table.options if file_format == table.file_format else {}
        return read(view, table.folder, format=file_format, options=options, nested=False)


def frame_handler(library: FrameLibrary) -> FrameHandler:
    """Return the handler for the frames of a library."""
    return ParquetHandler(library) if isinstance(library, ParquetLibrary) else SparkHandler(library)


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


def declared_lineage(
    context: dg.OutputContext, columns: Collection[str]
) -> Mapping[str, dg.TableColumnLineage]:
    """Return the column lineage of an asset's definition, for the columns that its frame has.

    Dagster shows only the lineage of materializations. Lineage that the step adds itself stays.
    """
    declared = (context.definition_metadata or {}).get(_LINEAGE)
    if _LINEAGE in context.output_metadata or not isinstance(declared, dg.TableColumnLineage):
        return {}
    deps = declared.deps_by_column
    if missing := sorted(deps.keys() - set(columns)):
        context.log.warning(
            "column lineage of %s names columns that the frame does not have: %s; it has %s",
            context.asset_key.to_user_string(),
            ", ".join(missing),
            ", ".join(columns),
        )
    kept = {column: of for column, of in deps.items() if column in columns}
    return {_LINEAGE: dg.TableColumnLineage(kept)} if kept else {}
