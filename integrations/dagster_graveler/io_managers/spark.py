"""Values that are Spark frames."""

from collections.abc import Mapping, Sequence
from datetime import UTC
from functools import reduce
from typing import TYPE_CHECKING, Any

from pyspark.sql import DataFrame
from pyspark.sql.functions import coalesce, lit
from pyspark.sql.types import TimestampNTZType, TimestampType

from dagster_graveler.io_managers.frames import FrameHandler
from dagster_graveler.io_managers.handlers import (
    TYPE,
    PartitionRows,
    Table,
    refuse_other_rows,
    written,
)
from graveler.lake import Ref, Run, Step
from graveler.spark import read, write

if TYPE_CHECKING:
    from pyspark.sql import Column


class SparkHandler(FrameHandler):
    """Keeps Spark frames, as the files that Spark wrote."""

    name = "spark"

    def handles(self, kind: type) -> bool:
        """Return whether the type is a Spark frame."""
        return issubclass(kind, DataFrame)

    def write(self, step: Step, table: Table, obj: Any) -> None:
        """Write a frame; files in folders below, of other assets, stay."""
        mode = table.mode
        if mode == "overwrite" and not table.partition_by:
            step.delete_many([entry.path for entry in written(step, table)])
            mode = "append"
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
        if table.mode == "overwrite":  # with `partition_by` Spark replaces its own folders only
            step.delete_many(
                [entry.path for entry in written(step, table) if TYPE in entry.metadata]
            )

    def read(self, view: Run | Ref, table: Table, kind: Any) -> Any:
        """Return the frame; Parquet files are read as such, whatever wrote them."""
        first = next(table.entries(view), None)
        parquet = first is not None and first.path.endswith(".parquet")
        file_format = "parquet" if parquet else table.file_format
        options = table.options if file_format == table.file_format else {}
        return read(view, table.folder, format=file_format, options=options)

    def columns(self, obj: Any) -> Mapping[str, str]:
        """Return the type of each column."""
        return dict(obj.dtypes)

    def concat(self, frames: Sequence[Any]) -> Any:
        """Return frames with equal columns as one."""
        return reduce(lambda left, right: left.unionByName(right), frames)

    def split_rows(
        self, frame: Any, column: str, rows: Mapping[str, PartitionRows]
    ) -> Mapping[str, Any]:
        """Return the rows of each partition."""
        masks = {key: _mask(frame, column, part) for key, part in rows.items()}
        inside = reduce(lambda left, right: left | right, masks.values())
        if frame.filter(~coalesce(inside, lit(False))).limit(1).count():
            refuse_other_rows(column)
        return {key: frame.filter(mask) for key, mask in masks.items()}


def _mask(frame: "DataFrame", column: str, rows: PartitionRows) -> "Column":
    kind, values = frame.schema[column].dataType, frame[column]
    if not isinstance(kind, TimestampType | TimestampNTZType):
        return values.cast("string") == rows.key
    start, end = (at.astimezone(UTC) for at in rows.window(column))
    if isinstance(kind, TimestampNTZType):
        start, end = start.replace(tzinfo=None), end.replace(tzinfo=None)
    return (values >= start) & (values < end)
