"""Frames of pandas."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from graveler.frames.library import ParquetLibrary
from graveler.frames.rows import PartitionRows, refuse_other_rows

if TYPE_CHECKING:
    from collections.abc import Iterator

_NANOSECONDS = "datetime64[ns]"


class PandasLibrary(ParquetLibrary):
    """Frames of pandas."""

    name = "pandas"
    types = (pd.DataFrame,)

    def write_parquet(self, frame: Any, file: Path) -> None:
        """Write a frame to a local file."""
        pq.write_table(self.to_arrow(frame), file)

    def to_arrow(self, frame: Any) -> pa.Table:
        """Return a frame as an Arrow table.

        Times are stored as microseconds if that is exact, because Spark cannot read nanoseconds.
        """
        table = pa.Table.from_pandas(frame)
        for number, column in _times(table, "ns"):
            try:
                shorter = table.column(number).cast(pa.timestamp("us", column.type.tz))
            except pa.ArrowInvalid:
                continue
            table = table.set_column(number, column.name, shorter)
        return table

    def from_arrow(self, table: pa.Table, kind: Any) -> Any:
        """Return an Arrow table as a frame."""
        described = (table.schema.pandas_metadata or {}).get("columns", [])
        nanoseconds = {
            column["field_name"] for column in described if column["numpy_type"] == _NANOSECONDS
        }
        for number, column in _times(table, "us"):
            if column.name in nanoseconds:
                longer = table.column(number).cast(pa.timestamp("ns", column.type.tz))
                table = table.set_column(number, column.name, longer)
        frame = table.to_pandas()
        return kind(frame) if kind is not pd.DataFrame and self.handles(kind) else frame

    def columns(self, frame: Any) -> Mapping[str, str]:
        """Return the type of each column."""
        return {str(name): str(kind) for name, kind in frame.dtypes.items()}

    def concat(self, frames: Sequence[Any]) -> Any:
        """Return the rows of frames as one, with the columns of all."""
        return pd.concat(frames, ignore_index=True)

    def split_rows(
        self, frame: Any, column: str, rows: Mapping[str, PartitionRows]
    ) -> Mapping[str, Any]:
        """Return the rows of each partition."""
        parts = {key: frame[_mask(frame[column], part)] for key, part in rows.items()}
        others = len(frame) - sum(map(len, parts.values()))
        if others:
            refuse_other_rows(column, others)
        return parts


def _times(table: pa.Table, unit: str) -> "Iterator[tuple[int, pa.Field]]":
    for number, column in enumerate(table.schema):
        if pa.types.is_timestamp(column.type) and column.type.unit == unit:
            yield number, column


def _mask(column: "pd.Series[Any]", rows: PartitionRows) -> "pd.Series[bool]":
    if not pd.api.types.is_datetime64_any_dtype(column):
        return column.astype(str) == rows.key
    start, end = rows.window(str(column.name))
    times = column
    if column.dt.tz is None:
        first = [True] * len(column)  # of a time that occurs twice
        times = column.dt.tz_localize(rows.zone, ambiguous=first, nonexistent="shift_forward")
    return (times >= start) & (times < end)
