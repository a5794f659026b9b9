"""The bases of the IO managers for frames: several partitions as one frame, and Parquet files."""

from abc import abstractmethod
from collections.abc import Mapping, Sequence, Sized
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, BinaryIO

import dagster as dg

from dagster_graveler.io_managers.base import GravelerIOManager, PartitionRows, value_type
from graveler.errors import InvalidInputError, ObjectNotFoundError
from graveler.lake import Ref, Run, Step


class FrameIOManager(GravelerIOManager):
    """Keeps frames of a library; and bytes and text."""

    @abstractmethod
    def is_frame(self, obj: object) -> bool:
        """Return whether `obj` is a frame of the library."""

    @abstractmethod
    def write_frame(self, step: Step, folder: str, frame: Any, context: dg.OutputContext) -> None:
        """Write a frame below `folder`."""

    @abstractmethod
    def read_frame(self, view: Run | Ref, folder: str, context: dg.InputContext) -> Any:
        """Return the frame below `folder`."""

    @abstractmethod
    def columns(self, frame: Any) -> Mapping[str, str]:
        """Return the type of each column."""

    @abstractmethod
    def concat(self, frames: Sequence[Any]) -> Any:
        """Return frames with equal columns as one."""

    @abstractmethod
    def split_rows(
        self, frame: Any, column: str, rows: Mapping[str, PartitionRows]
    ) -> Mapping[str, Any]:
        """Return the rows of each partition; refuse rows that belong to none."""

    def write(self, step: Step, folder: str, obj: object, context: dg.OutputContext) -> None:
        """Write a value below `folder`."""
        if self.is_frame(obj):
            self.write_frame(step, folder, obj, context)
        else:
            super().write(step, folder, obj, context)

    def read(self, view: Run | Ref, folder: str, context: dg.InputContext) -> Any:
        """Return the frame below `folder`, or bytes or text if the input is annotated so."""
        if value_type(context) in (bytes, str):
            return super().read(view, folder, context)
        return self.read_frame(view, folder, context)

    def combine(self, values: Mapping[str, Any]) -> Any:
        """Return the frames of several partitions as one."""
        if not all(map(self.is_frame, values.values())):
            return super().combine(values)
        if not values:
            raise ObjectNotFoundError(
                "no partition of the input exists: materialize one of them first"
            )
        return self.concat(list(values.values()))

    def split(
        self, obj: object, column: str, rows: Mapping[str, PartitionRows]
    ) -> Mapping[str, Any]:
        """Return the rows of each partition."""
        if not self.is_frame(obj):
            return super().split(obj, column, rows)
        columns = list(self.columns(obj))
        if column not in columns:
            raise InvalidInputError(f"no column {column!r} to split partitions by: {columns}")
        return self.split_rows(obj, column, rows)

    def describe(self, obj: object) -> Mapping[str, Any]:
        """Return the columns, and the number of rows of a frame in memory."""
        if not self.is_frame(obj):
            return {}
        columns = [dg.TableColumn(name, kind) for name, kind in self.columns(obj).items()]
        rows = {"dagster/row_count": len(obj)} if isinstance(obj, Sized) else {}
        return {**rows, "dagster/column_schema": dg.TableSchema(columns)}


class ParquetIOManager(FrameIOManager):
    """Keeps frames in memory, as one Parquet file for each partition; and bytes and text."""

    @abstractmethod
    def write_parquet(self, frame: Any, file: Path) -> None:
        """Write a frame to a local file."""

    @abstractmethod
    def read_parquet(self, file: BinaryIO) -> Any:
        """Return the frame in an open file."""

    def write_frame(self, step: Step, folder: str, frame: Any, context: dg.OutputContext) -> None:
        """Write a frame below `folder`."""
        with TemporaryDirectory(prefix="graveler-") as scratch:
            file = Path(scratch) / "data.parquet"
            self.write_parquet(frame, file)
            step.put(folder + file.name, file, content_type="application/vnd.apache.parquet")

    def read_frame(self, view: Run | Ref, folder: str, context: dg.InputContext) -> Any:
        """Return the rows of all Parquet files below `folder`, whatever wrote them."""
        frames = []
        for entry in view.entries(folder):
            if entry.path.endswith(".parquet"):
                with view.open(entry) as file:
                    frames.append(self.read_parquet(file))
        if not frames:
            raise ObjectNotFoundError(f"no Parquet file below {folder!r}: write the asset first")
        return frames[0] if len(frames) == 1 else self.concat(frames)
