"""Assets that are polars frames."""

from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import dagster as dg

from dagster_graveler.io_managers.base import GravelerIOManager, value_type
from dagster_graveler.io_managers.partition_rows import Belongs, refuse_strangers
from graveler.errors import InvalidInputError, ObjectNotFoundError
from graveler.lake import Ref, Run, Step

if TYPE_CHECKING:
    import polars as pl

__all__ = ["GravelerPolarsIOManager"]


class GravelerPolarsIOManager(GravelerIOManager):
    """Keeps assets that are polars frames, lazy or not, one Parquet file each; bytes and text.

    An argument annotated as ``pl.LazyFrame`` gets one. An input of several partitions is one
    frame, or a dictionary by partition key where the argument says so.
    """

    def write(self, step: Step, folder: str, obj: object, context: dg.OutputContext) -> None:
        """Write a frame below `folder`."""
        import polars as pl  # noqa: PLC0415 - heavy: only where it is used

        if not isinstance(obj, pl.DataFrame | pl.LazyFrame):
            super().write(step, folder, obj, context)
            return
        with TemporaryDirectory(prefix="graveler-") as scratch:
            file = Path(scratch) / "data.parquet"
            if isinstance(obj, pl.LazyFrame):
                obj.sink_parquet(file)
            else:
                obj.write_parquet(file)
            step.put(folder + file.name, file, content_type="application/vnd.apache.parquet")

    def read(self, view: Run | Ref, folder: str, context: dg.InputContext) -> Any:
        """Return the frame below `folder`, or bytes or text where the input says so."""
        import polars as pl  # noqa: PLC0415 - heavy: only where it is used

        wanted = value_type(context)
        if wanted in (bytes, str):
            return super().read(view, folder, context)
        frames = []
        for entry in view.entries(folder):
            if entry.path.endswith(".parquet"):
                with view.open(entry) as file:
                    frames.append(pl.read_parquet(file.read()))
        if not frames:
            raise ObjectNotFoundError(f"no Parquet file below {folder!r}: write the asset first")
        frame = frames[0] if len(frames) == 1 else pl.concat(frames, how="vertical_relaxed")
        return frame.lazy() if wanted is pl.LazyFrame else frame

    def combine(self, found: Mapping[str, Any]) -> Any:
        """Return the frames of several partitions as one."""
        import polars as pl  # noqa: PLC0415 - heavy: only where it is used

        if not all(isinstance(part, pl.DataFrame | pl.LazyFrame) for part in found.values()):
            return super().combine(found)
        if not found:
            raise ObjectNotFoundError("no partition of the input is there: make one of them first")
        return pl.concat(list(found.values()), how="vertical_relaxed")  # empty ones have no types

    def split(self, obj: object, column: str, belongs: Mapping[str, Belongs]) -> Mapping[str, Any]:
        """Return the rows of each partition."""
        import polars as pl  # noqa: PLC0415 - heavy: only where it is used

        if not isinstance(obj, pl.DataFrame | pl.LazyFrame):
            return super().split(obj, column, belongs)
        schema = obj.collect_schema()
        if column not in schema:
            raise InvalidInputError(f"no column {column!r} to tell partitions by: {schema.names()}")
        rows = {key: _rows(column, schema[column], which) for key, which in belongs.items()}
        strange = ~pl.any_horizontal(*rows.values()).fill_null(value=False)
        left = obj.lazy().select(strange.sum()).collect().item()
        if left:
            refuse_strangers(column, left)
        return {key: obj.filter(condition) for key, condition in rows.items()}

    def describe(self, obj: object) -> Mapping[str, Any]:
        """Return rows and columns."""
        import polars as pl  # noqa: PLC0415 - heavy: only where it is used

        if not isinstance(obj, pl.DataFrame):
            return {}
        columns = [dg.TableColumn(name, str(kind)) for name, kind in obj.schema.items()]
        return {"dagster/row_count": len(obj), "dagster/column_schema": dg.TableSchema(columns)}


def _rows(column: str, kind: "pl.DataType", which: Belongs) -> "pl.Expr":
    import polars as pl  # noqa: PLC0415 - heavy: only where it is used

    values = pl.col(column)
    if not isinstance(kind, pl.Datetime):
        return values.cast(pl.String) == which.key
    start, end = which.window(column)
    utc = values.dt.replace_time_zone("UTC") if kind.time_zone is None else values
    return (utc >= start) & (utc < end)
