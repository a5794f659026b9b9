"""Assets that are Spark frames."""

from collections.abc import Mapping
from datetime import UTC
from functools import reduce
from typing import TYPE_CHECKING, Any

import dagster as dg
from pydantic import Field

from dagster_graveler.io_managers.base import GravelerIOManager, value_type
from dagster_graveler.io_managers.partition_rows import Belongs, refuse_strangers
from graveler.errors import InvalidInputError, ObjectNotFoundError
from graveler.lake import Ref, Run, Step

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

__all__ = ["GravelerSparkIOManager"]


class GravelerSparkIOManager(GravelerIOManager):
    """Keeps assets that are Spark frames, as the files that Spark wrote; and bytes and text.

    Attributes:
        file_format: Spark's name of the format.
        mode: ``overwrite``, ``append`` or ``error``. Whatever the mode, a retry or another run
            of the same job and partition replaces what the asset wrote there before. An
            appending asset with partitions replaces it whichever job had written it; one
            without adds its rows with each run. ``error`` refuses what another job has written.
        partition_by: Columns that become ``key=value`` folders.
        options: Spark's options of the format, for writing and reading.
    """

    file_format: str = "parquet"
    mode: str = "overwrite"
    partition_by: list[str] = Field(default_factory=list)
    options: dict[str, str] = Field(default_factory=dict)

    def write(self, step: Step, folder: str, obj: object, context: dg.OutputContext) -> None:
        """Write a frame below `folder`."""
        from pyspark.sql import DataFrame  # noqa: PLC0415 - heavy: only where it is used

        from graveler.spark import write  # noqa: PLC0415

        if not isinstance(obj, DataFrame):
            super().write(step, folder, obj, context)
            return
        write(
            step,
            obj,
            folder,
            mode=self.mode,  # type: ignore[arg-type] # Dagster's settings know no literals
            format=self.file_format,
            partition_by=self.partition_by,
            options=self.options,
            owner=_owner(context) if self.mode == "append" else "",
        )

    def read(self, view: Run | Ref, folder: str, context: dg.InputContext) -> Any:
        """Return the frame below `folder`, or bytes or text where the input says so."""
        from graveler.spark import read  # noqa: PLC0415 - heavy: only where it is used

        if value_type(context) in (bytes, str):
            return super().read(view, folder, context)
        return read(view, folder, format=self.file_format, options=self.options)

    def combine(self, found: Mapping[str, Any]) -> Any:
        """Return the frames of several partitions as one."""
        from pyspark.sql import DataFrame  # noqa: PLC0415 - heavy: only where it is used

        if not all(isinstance(part, DataFrame) for part in found.values()):
            return super().combine(found)
        if not found:
            raise ObjectNotFoundError("no partition of the input is there: make one of them first")
        return reduce(lambda left, right: left.unionByName(right), found.values())

    def split(self, obj: object, column: str, belongs: Mapping[str, Belongs]) -> Mapping[str, Any]:
        """Return the rows of each partition."""
        from pyspark.sql import DataFrame  # noqa: PLC0415 - heavy: only where it is used
        from pyspark.sql.functions import coalesce, lit  # noqa: PLC0415

        if not isinstance(obj, DataFrame):
            return super().split(obj, column, belongs)
        if column not in obj.columns:
            raise InvalidInputError(f"no column {column!r} to tell partitions by: {obj.columns}")
        rows = {key: _rows(obj, column, which) for key, which in belongs.items()}
        any_of = reduce(lambda left, right: left | right, rows.values())
        if obj.filter(~coalesce(any_of, lit(False))).limit(1).count():
            refuse_strangers(column)
        return {key: obj.filter(condition) for key, condition in rows.items()}

    def describe(self, obj: object) -> Mapping[str, Any]:
        """Return the columns; rows are not counted, which would run the job again."""
        from pyspark.sql import DataFrame  # noqa: PLC0415 - heavy: only where it is used

        if not isinstance(obj, DataFrame):
            return {}
        columns = [dg.TableColumn(name, kind) for name, kind in obj.dtypes]
        return {"dagster/column_schema": dg.TableSchema(columns)}


def _owner(context: dg.OutputContext) -> str:
    """Return the asset whose rows of a partition are the same, whichever run writes them."""
    known = context.has_asset_key and context.has_asset_partitions
    return context.asset_key.to_user_string() if known else ""


def _rows(frame: "DataFrame", column: str, which: Belongs) -> "Column":
    from pyspark.sql.types import TimestampNTZType, TimestampType  # noqa: PLC0415 - heavy

    kind, values = frame.schema[column].dataType, frame[column]
    if not isinstance(kind, TimestampType | TimestampNTZType):
        return values.cast("string") == which.key
    start, end = (at.astimezone(UTC) for at in which.window(column))
    if isinstance(kind, TimestampNTZType):
        start, end = start.replace(tzinfo=None), end.replace(tzinfo=None)
    return (values >= start) & (values < end)
