"""The interface of a library of frames."""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from graveler.errors import InvalidInputError
from graveler.frames.formats import FORMATS, PARQUET, write_rows
from graveler.frames.rows import PartitionRows

if TYPE_CHECKING:
    import pyarrow as pa

    from graveler.frames.source import Source

TYPE = "graveler.type"
"""Name in a file's metadata: the library whose frame the file holds."""

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
    """A library of frames in memory, which are stored as one file each.

    Attributes:
        lazy: The types of frames that read when their rows are asked for.
    """

    lazy: ClassVar[tuple[type, ...]] = ()

    @abstractmethod
    def write_parquet(self, frame: Any, file: Path) -> None:
        """Write a frame to a local file."""

    @abstractmethod
    def from_arrow(self, table: "pa.Table", kind: Any) -> Any:
        """Return an Arrow table as a frame of a type; ``Any`` stands for the usual type."""

    @abstractmethod
    def to_arrow(self, frame: Any) -> "pa.Table":
        """Return the rows of a frame as an Arrow table."""

    def scan(self, source: "Source", kind: Any) -> Any:
        """Return a lazy frame of a table's files."""
        raise InvalidInputError(
            f"{self.name} has no lazy frames: scan with polars, duckdb, pyarrow or spark, or `read`"
        )

    @contextmanager
    def file(self, frame: Any, format: str) -> Iterator[Path]:
        """Yield a local file of a frame, of a format, for a ``with`` block."""
        with TemporaryDirectory(prefix="graveler-") as scratch:
            file = Path(scratch) / f"data.{format}"
            try:
                if format == PARQUET:
                    self.write_parquet(frame, file)
                else:
                    write_rows(self.to_arrow(frame), file, format)
            except (
                ValueError,
                TypeError,
                NotImplementedError,
            ) as error:  # the base classes of pyarrow's errors
                raise InvalidInputError(
                    f"this frame of {self.name} cannot be a {FORMATS[format].title} file: {error}"
                ) from error
            yield file
