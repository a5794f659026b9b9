"""Frames of polars."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import polars as pl

from graveler.frames.library import ParquetLibrary
from graveler.frames.rows import PartitionRows, refuse_other_rows

if TYPE_CHECKING:
    import pyarrow as pa


class PolarsLibrary(ParquetLibrary):
    """Eager and lazy frames of polars."""

    name = "polars"
    types = (pl.DataFrame, pl.LazyFrame)

    def write_parquet(self, frame: Any, file: Path) -> None:
        """Write a frame to a local file."""
        if isinstance(frame, pl.LazyFrame):
            frame.sink_parquet(file)
        else:
            frame.write_parquet(file)

    def from_arrow(self, table: "pa.Table", kind: Any) -> Any:
        """Return an Arrow table as a frame, lazy if that is the type."""
        frame = pl.DataFrame(table)
        if kind is pl.LazyFrame:
            return frame.lazy()
        return kind(frame) if kind is not pl.DataFrame and self.handles(kind) else frame

    def columns(self, frame: Any) -> Mapping[str, str]:
        """Return the type of each column."""
        return {name: str(kind) for name, kind in frame.collect_schema().items()}

    def concat(self, frames: Sequence[Any]) -> Any:
        """Return the rows of frames as one, with the columns of all."""
        return pl.concat(frames, how="diagonal_relaxed")  # empty frames have no types

    def split_rows(
        self, frame: Any, column: str, rows: Mapping[str, PartitionRows]
    ) -> Mapping[str, Any]:
        """Return the rows of each partition."""
        kind = frame.collect_schema()[column]
        masks = {key: _mask(column, kind, part) for key, part in rows.items()}
        outside = ~pl.any_horizontal(*masks.values()).fill_null(value=False)
        others = frame.lazy().select(outside.sum()).collect().item()
        if others:
            refuse_other_rows(column, others)
        return {key: frame.filter(mask) for key, mask in masks.items()}


def _mask(column: str, kind: pl.DataType, rows: PartitionRows) -> pl.Expr:
    values = pl.col(column)
    if not isinstance(kind, pl.Datetime):
        return values.cast(pl.String) == rows.key
    start, end = rows.window(column)
    if kind.time_zone is None:
        values = pl.coalesce(  # a time that does not occur is an hour later
            time.dt.replace_time_zone(rows.zone, ambiguous="earliest", non_existent="null")
            for time in (values, values.dt.offset_by("1h"))
        )
    utc = values.dt.convert_time_zone("UTC")
    return (utc >= start) & (utc < end)
