"""Arrow tables."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pyarrow.parquet as pq

from graveler.frames.library import ParquetLibrary
from graveler.frames.rows import PartitionRows, refuse_other_rows
from graveler.frames.union import concat_arrow

if TYPE_CHECKING:
    from graveler.frames.source import Source


class ArrowLibrary(ParquetLibrary):
    """Arrow tables, and scanners and readers of record batches, which are lazy."""

    name = "pyarrow"
    types = (pa.Table, pa.RecordBatchReader, ds.Scanner)
    lazy = (pa.RecordBatchReader, ds.Scanner)

    def write_parquet(self, frame: Any, file: Path) -> None:
        """Write a table to a local file; a reader is written batch by batch."""
        if isinstance(frame, pa.Table):
            pq.write_table(frame, file)
            return
        reader = frame.to_reader() if isinstance(frame, ds.Scanner) else frame
        with pq.ParquetWriter(file, reader.schema) as writer:
            for batch in reader:
                writer.write_batch(batch)

    def to_arrow(self, frame: Any) -> pa.Table:
        """Return all rows as a table."""
        if isinstance(frame, pa.Table):
            return frame
        return frame.to_table() if isinstance(frame, ds.Scanner) else frame.read_all()

    def from_arrow(self, table: pa.Table, kind: Any) -> Any:
        """Return the table, or a reader of it if that is the type."""
        return table.to_reader() if kind is pa.RecordBatchReader else table

    def scan(self, source: "Source", kind: Any) -> Any:
        """Return a scanner, or the reader of one if that is the type."""
        scanner = source.scanner()
        return scanner.to_reader() if kind is pa.RecordBatchReader else scanner

    def columns(self, frame: Any) -> Mapping[str, str]:
        """Return the type of each column."""
        schema = frame.projected_schema if isinstance(frame, ds.Scanner) else frame.schema
        return {column.name: str(column.type) for column in schema}

    def concat(self, frames: Sequence[Any]) -> Any:
        """Return the rows of tables as one, with the columns of all."""
        whole = concat_arrow([*map(self.to_arrow, frames)])
        return whole.to_reader() if isinstance(frames[0], pa.RecordBatchReader) else whole

    def split_rows(
        self, frame: Any, column: str, rows: Mapping[str, PartitionRows]
    ) -> Mapping[str, Any]:
        """Return the rows of each partition."""
        table = self.to_arrow(frame)
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
