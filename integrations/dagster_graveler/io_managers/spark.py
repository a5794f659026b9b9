"""Assets that are Spark frames."""

from collections.abc import Mapping, Sequence
from datetime import UTC
from functools import reduce
from typing import TYPE_CHECKING, Any

import dagster as dg
from pydantic import Field

from dagster_graveler.io_managers.base import PartitionRows, refuse_other_rows
from dagster_graveler.io_managers.frames import FrameIOManager
from graveler.lake import Ref, Run, Step

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame


class GravelerSparkIOManager(FrameIOManager):
    """Keeps assets that are Spark frames, as the files that Spark wrote; and bytes and text.

    Attributes:
        file_format: Spark's name of the format.
        mode: ``overwrite``, ``append`` or ``error``. In every mode, a retry or another run of
            the same job and partition replaces what the asset wrote there before. With
            ``append``, an asset with partitions also replaces what other jobs wrote there; an
            asset without partitions adds its rows with each run. ``error`` refuses to write over
            files of another job.
        partition_by: Columns that become ``key=value`` folders.
        options: Spark's options of the format, for writing and reading.
    """

    file_format: str = "parquet"
    mode: str = "overwrite"
    partition_by: list[str] = Field(default_factory=list)
    options: dict[str, str] = Field(default_factory=dict)

    def is_frame(self, obj: object) -> bool:
        """Return whether `obj` is a Spark frame."""
        from pyspark.sql import DataFrame  # noqa: PLC0415 - heavy: only where it is used

        return isinstance(obj, DataFrame)

    def write_frame(self, step: Step, folder: str, frame: Any, context: dg.OutputContext) -> None:
        """Write a frame below `folder`."""
        from graveler.spark import write  # noqa: PLC0415 - heavy: only where it is used

        write(
            step,
            frame,
            folder,
            mode=self.mode,  # type: ignore[arg-type] # Dagster's settings have no literals
            format=self.file_format,
            partition_by=self.partition_by,
            options=self.options,
            owner=_owner(context) if self.mode == "append" else "",
        )

    def read_frame(self, view: Run | Ref, folder: str, context: dg.InputContext) -> Any:
        """Return the frame below `folder`."""
        from graveler.spark import read  # noqa: PLC0415 - heavy: only where it is used

        return read(view, folder, format=self.file_format, options=self.options)

    def columns(self, frame: Any) -> Mapping[str, str]:
        """Return the type of each column."""
        return dict(frame.dtypes)

    def concat(self, frames: Sequence[Any]) -> Any:
        """Return frames with equal columns as one."""
        return reduce(lambda left, right: left.unionByName(right), frames)

    def split_rows(
        self, frame: Any, column: str, rows: Mapping[str, PartitionRows]
    ) -> Mapping[str, Any]:
        """Return the rows of each partition."""
        from pyspark.sql.functions import coalesce, lit  # noqa: PLC0415 - heavy

        masks = {key: _mask(frame, column, part) for key, part in rows.items()}
        inside = reduce(lambda left, right: left | right, masks.values())
        if frame.filter(~coalesce(inside, lit(False))).limit(1).count():
            refuse_other_rows(column)
        return {key: frame.filter(mask) for key, mask in masks.items()}


def _owner(context: dg.OutputContext) -> str:
    """Return the asset that owns the rows of a partition, whichever run writes them, or ""."""
    known = context.has_asset_key and context.has_asset_partitions
    return context.asset_key.to_user_string() if known else ""


def _mask(frame: "DataFrame", column: str, rows: PartitionRows) -> "Column":
    from pyspark.sql.types import TimestampNTZType, TimestampType  # noqa: PLC0415 - heavy

    kind, values = frame.schema[column].dataType, frame[column]
    if not isinstance(kind, TimestampType | TimestampNTZType):
        return values.cast("string") == rows.key
    start, end = (at.astimezone(UTC) for at in rows.window(column))
    if isinstance(kind, TimestampNTZType):
        start, end = start.replace(tzinfo=None), end.replace(tzinfo=None)
    return (values >= start) & (values < end)
