"""Assets that are polars frames."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, BinaryIO

import dagster as dg
import polars as pl

from dagster_graveler.io_managers.base import PartitionRows, refuse_other_rows, value_type
from dagster_graveler.io_managers.frames import ParquetIOManager
from graveler.lake import Ref, Run


class GravelerPolarsIOManager(ParquetIOManager):
    """Keeps assets that are polars frames, lazy or not, one Parquet file each; bytes and text.

    An argument annotated as ``pl.LazyFrame`` gets one. An input of several partitions is one
    frame, or a dictionary by partition key if the argument is annotated so.
    """

    def is_frame(self, obj: object) -> bool:
        """Return whether `obj` is a polars frame."""
        return isinstance(obj, pl.DataFrame | pl.LazyFrame)

    def write_parquet(self, frame: Any, file: Path) -> None:
        """Write a frame to a local file."""
        if isinstance(frame, pl.LazyFrame):
            frame.sink_parquet(file)
        else:
            frame.write_parquet(file)

    def read_parquet(self, file: BinaryIO) -> Any:
        """Return the frame in an open file."""
        return pl.read_parquet(file.read())

    def read_frame(self, view: Run | Ref, folder: str, context: dg.InputContext) -> Any:
        """Return the rows of all Parquet files below `folder`, lazy if annotated so."""
        frame = super().read_frame(view, folder, context)
        return frame.lazy() if value_type(context) is pl.LazyFrame else frame

    def columns(self, frame: Any) -> Mapping[str, str]:
        """Return the type of each column."""
        return {name: str(kind) for name, kind in frame.collect_schema().items()}

    def concat(self, frames: Sequence[Any]) -> Any:
        """Return frames with equal columns as one."""
        return pl.concat(frames, how="vertical_relaxed")  # empty frames have no types

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
    utc = values.dt.replace_time_zone("UTC") if kind.time_zone is None else values
    return (utc >= start) & (utc < end)
