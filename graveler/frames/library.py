"""The interface of a library of frames."""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from graveler.errors import InvalidInputError
from graveler.frames.rows import PartitionRows

if TYPE_CHECKING:
    import pyarrow as pa

TYPE = "graveler.type"
"""Name in a file's metadata: the library whose frame the file holds."""

PARQUET = "application/vnd.apache.parquet"
"""The media type of Parquet files."""

Mode = Literal["append", "overwrite", "error"]

MODES = ("append", "overwrite", "error")
"""The modes of writing frames of any library."""


class FrameLibrary(ABC):
    """The frames of a library."""

    name: ClassVar[str]
    types: ClassVar[tuple[type, ...]]

    def handles(self, kind: type) -> bool:
        """Return whether a type is a frame of the library."""
        return issubclass(kind, self.types)

    @abstractmethod
    def columns(self, frame: Any) -> Mapping[str, str]:
        """Return the type of each column."""

    @abstractmethod
    def concat(self, frames: Sequence[Any]) -> Any:
        """Return the rows of frames as one, with the columns of all."""

    @abstractmethod
    def split_rows(
        self, frame: Any, column: str, rows: Mapping[str, PartitionRows]
    ) -> Mapping[str, Any]:
        """Return the rows of each partition; refuse rows of no partition."""


class ParquetLibrary(FrameLibrary):
    """A library of frames in memory, which are stored as Parquet files."""

    @abstractmethod
    def write_parquet(self, frame: Any, file: Path) -> None:
        """Write a frame to a local file."""

    @abstractmethod
    def from_arrow(self, table: "pa.Table", kind: Any) -> Any:
        """Return an Arrow table as a frame of a type; ``Any`` stands for the usual type."""

    @contextmanager
    def parquet(self, frame: Any) -> Iterator[Path]:
        """Yield a local Parquet file of a frame for a ``with`` block."""
        with TemporaryDirectory(prefix="graveler-") as scratch:
            file = Path(scratch) / "data.parquet"
            try:
                self.write_parquet(frame, file)
            except (
                ValueError,
                TypeError,
                NotImplementedError,
            ) as error:  # the base classes of pyarrow's errors
                raise InvalidInputError(
                    f"this frame of {self.name} cannot be a Parquet file: {error}"
                ) from error
            yield file
