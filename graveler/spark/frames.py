"""Frames of Spark."""

from collections.abc import Mapping, Sequence
from functools import reduce
from typing import TYPE_CHECKING, Any

from pyspark.sql import DataFrame
from pyspark.sql.functions import coalesce, convert_timezone, lit
from pyspark.sql.types import TimestampNTZType, TimestampType

from graveler.base.arguments import PathText
from graveler.frames.library import TableLibrary
from graveler.frames.rows import PartitionRows, refuse_other_rows
from graveler.model import Entry
from graveler.reads.ports import Target, View
from graveler.spark.reader import read
from graveler.spark.writer import write

if TYPE_CHECKING:
    from pyspark.sql import Column


class SparkLibrary(TableLibrary):
    """Frames of Spark; Spark itself reads and writes their files."""

    name = "spark"

    def handles(self, kind: type) -> bool:
        """Return whether the type is a Spark frame."""
        return issubclass(kind, DataFrame)

    def read(self, view: View, path: PathText, **options: Any) -> DataFrame:
        """Return the table at a path, as `graveler.spark.read` does."""
        return read(view, path, **options)

    def write(self, target: Target, frame: Any, path: str, **options: Any) -> list[Entry]:
        """Write a frame as `graveler.spark.write` does."""
        return write(target, frame, path, **options)

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
