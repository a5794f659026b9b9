"""Assets that are pandas frames."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, BinaryIO

import pandas as pd

from dagster_graveler.io_managers.base import PartitionRows, refuse_other_rows
from dagster_graveler.io_managers.frames import ParquetIOManager


class GravelerPandasIOManager(ParquetIOManager):
    """Keeps assets that are pandas frames, one Parquet file each; and bytes and text.

    An input of several partitions is one frame, or a dictionary by partition key if the
    argument is annotated so (``dict[str, pd.DataFrame]``). It reads Parquet files of any writer.
    """

    def is_frame(self, obj: object) -> bool:
        """Return whether `obj` is a pandas frame."""
        return isinstance(obj, pd.DataFrame)

    def write_parquet(self, frame: Any, file: Path) -> None:
        """Write a frame to a local file."""
        frame.to_parquet(file)

    def read_parquet(self, file: BinaryIO) -> Any:
        """Return the frame in an open file."""
        return pd.read_parquet(file)

    def columns(self, frame: Any) -> Mapping[str, str]:
        """Return the type of each column."""
        return {str(name): str(kind) for name, kind in frame.dtypes.items()}

    def concat(self, frames: Sequence[Any]) -> Any:
        """Return frames with equal columns as one."""
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


def _mask(column: "pd.Series[Any]", rows: PartitionRows) -> "pd.Series[bool]":
    if not pd.api.types.is_datetime64_any_dtype(column):
        return column.astype(str) == rows.key
    start, end = rows.window(str(column.name))
    times = column.dt.tz_localize("UTC") if column.dt.tz is None else column
    return (times >= start) & (times < end)
