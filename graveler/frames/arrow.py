"""Arrow tables."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from graveler.frames.library import ParquetLibrary
from graveler.frames.parquet import concat_arrow
from graveler.frames.rows import PartitionRows, refuse_other_rows


class ArrowLibrary(ParquetLibrary):
    """Arrow tables, and readers of record batches."""

    name = "pyarrow"
    types = (pa.Table, pa.RecordBatchReader)

    def write_parquet(self, frame: Any, file: Path) -> None:
        """Write a table to a local file; a reader is written batch by batch."""
        if isinstance(frame, pa.Table):
            pq.write_table(frame, file)
            return
        with pq.ParquetWriter(file, frame.schema) as writer:
            for batch in frame:
                writer.write_batch(batch)

    def from_arrow(self, table: pa.Table, kind: Any) -> Any:
        """Return the table, or a reader of it if that is the type."""
        return table.to_reader() if kind is pa.RecordBatchReader else table

    def columns(self, frame: Any) -> Mapping[str, str]:
        """Return the type of each column."""
        return {column.name: str(column.type) for column in frame.schema}

    def concat(self, frames: Sequence[Any]) -> Any:
        """Return the rows of tables as one, with the columns of all."""
        tables = [
            frame.read_all() if isinstance(frame, pa.RecordBatchReader) else frame
            for frame in frames
        ]
        whole = concat_arrow(tables)
        return whole.to_reader() if isinstance(frames[0], pa.RecordBatchReader) else whole

    def split_rows(
        self, frame: Any, column: str, rows: Mapping[str, PartitionRows]
    ) -> Mapping[str, Any]:
        """Return the rows of each partition."""
        table = frame if isinstance(frame, pa.Table) else frame.read_all()
        parts = {
            key: table.filter(_mask(table[column], column, part)) for key, part in rows.items()
        }
        others = len(table) - sum(map(len, parts.values()))
        if others:
            refuse_other_rows(column, others)
        return parts


def _mask(values: pa.ChunkedArray, column: str, rows: PartitionRows) -> Any:
    if not pa.types.is_timestamp(values.type):
        return pc.equal(pc.cast(values, pa.string()), rows.key)

    if not values.type.tz:
        values = pc.assume_timezone(values, rows.zone, ambiguous="earliest", nonexistent="latest")
    start, end = (pa.scalar(time, values.type) for time in rows.window(column))
    return pc.and_(pc.greater_equal(values, start), pc.less(values, end))
