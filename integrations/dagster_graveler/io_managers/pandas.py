"""Assets that are pandas frames."""

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
    import pandas as pd

__all__ = ["GravelerPandasIOManager"]


class GravelerPandasIOManager(GravelerIOManager):
    """Keeps assets that are pandas frames, one Parquet file each; and bytes and text.

    An input of several partitions is one frame, or a dictionary by partition key where the
    argument says so (``dict[str, pd.DataFrame]``). Whatever wrote the Parquet files, they are read.
    """

    def write(self, step: Step, folder: str, obj: object, context: dg.OutputContext) -> None:
        """Write a frame below `folder`."""
        import pandas as pd  # noqa: PLC0415 - heavy: only where it is used

        if not isinstance(obj, pd.DataFrame):
            super().write(step, folder, obj, context)
            return
        with TemporaryDirectory(prefix="graveler-") as scratch:
            file = Path(scratch) / "data.parquet"
            obj.to_parquet(file)
            step.put(folder + file.name, file, content_type="application/vnd.apache.parquet")

    def read(self, view: Run | Ref, folder: str, context: dg.InputContext) -> Any:
        """Return the frame below `folder`, or bytes or text where the input says so."""
        import pandas as pd  # noqa: PLC0415 - heavy: only where it is used

        if value_type(context) in (bytes, str):
            return super().read(view, folder, context)
        frames = []
        for entry in view.entries(folder):
            if entry.path.endswith(".parquet"):
                with view.open(entry) as file:
                    frames.append(pd.read_parquet(file))
        if not frames:
            raise ObjectNotFoundError(f"no Parquet file below {folder!r}: write the asset first")
        return frames[0] if len(frames) == 1 else pd.concat(frames, ignore_index=True)

    def combine(self, found: Mapping[str, Any]) -> Any:
        """Return the frames of several partitions as one."""
        import pandas as pd  # noqa: PLC0415 - heavy: only where it is used

        if not all(isinstance(part, pd.DataFrame) for part in found.values()):
            return super().combine(found)
        if not found:
            raise ObjectNotFoundError("no partition of the input is there: make one of them first")
        return pd.concat(list(found.values()), ignore_index=True)

    def split(self, obj: object, column: str, belongs: Mapping[str, Belongs]) -> Mapping[str, Any]:
        """Return the rows of each partition."""
        import pandas as pd  # noqa: PLC0415 - heavy: only where it is used

        if not isinstance(obj, pd.DataFrame):
            return super().split(obj, column, belongs)
        if column not in obj:
            raise InvalidInputError(f"no column {column!r} to tell partitions by: {list(obj)}")
        parts = {key: obj[_rows(obj[column], which)] for key, which in belongs.items()}
        left = len(obj) - sum(map(len, parts.values()))
        if left:
            refuse_strangers(column, left)
        return parts

    def describe(self, obj: object) -> Mapping[str, Any]:
        """Return rows and columns."""
        import pandas as pd  # noqa: PLC0415 - heavy: only where it is used

        if not isinstance(obj, pd.DataFrame):
            return {}
        columns = [dg.TableColumn(str(name), str(kind)) for name, kind in obj.dtypes.items()]
        return {
            "dagster/row_count": len(obj),
            "dagster/column_schema": dg.TableSchema(columns),
        }


def _rows(column: "pd.Series[Any]", which: Belongs) -> "pd.Series[bool]":
    import pandas as pd  # noqa: PLC0415 - heavy: only where it is used

    if not pd.api.types.is_datetime64_any_dtype(column):
        return column.astype(str) == which.key
    start, end = which.window(str(column.name))
    times = column.dt.tz_localize("UTC") if column.dt.tz is None else column
    return (times >= start) & (times < end)
