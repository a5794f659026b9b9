"""Frames of Spark."""

from collections.abc import Mapping, Sequence
from functools import reduce
from typing import TYPE_CHECKING, Any

from pyspark.sql import DataFrame
from pyspark.sql.functions import coalesce, convert_timezone, lit
from pyspark.sql.types import TimestampNTZType, TimestampType

from graveler.frames.library import FrameLibrary
from graveler.frames.rows import PartitionRows, refuse_other_rows

if TYPE_CHECKING:
    from pyspark.sql import Column


class SparkLibrary(FrameLibrary):
    """Frames of Spark; Spark itself reads and writes their files."""

    name = "spark"
    types = (DataFrame,)

    def columns(self, frame: Any) -> Mapping[str, str]:
        """Return the type of each column."""
        return dict(frame.dtypes)

    def concat(self, frames: Sequence[Any]) -> Any:
        """Return the rows of frames as one, with the columns of all."""
        return reduce(lambda left, right: left.unionByName(right, allowMissingColumns=True), frames)

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
    start, end = rows.window(column)
    if isinstance(kind, TimestampNTZType):
        values = convert_timezone(lit(rows.zone), lit("UTC"), values)
        start, end = start.replace(tzinfo=None), end.replace(tzinfo=None)
    return (values >= start) & (values < end)
