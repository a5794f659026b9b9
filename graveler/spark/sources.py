"""The sources of imports as frames: tasks list folders and read the files of inventories."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from graveler.base.background import batches
from graveler.repository.imports.found import Found, Piece
from graveler.repository.imports.tasks import FAULTS, Fault

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

_FOUND = (
    "path string, address string, size long, version string, mtime timestamp, checksum string, "
    "content_type string, metadata map<string,string>, fault string"
)
_NAMES = tuple(field.split()[0] for field in _FOUND.split(", "))
_BATCH = 5_000


@dataclass(frozen=True, slots=True)
class PieceTask:
    """Reads pieces of a source by their numbers; a task of another process calls it."""

    pieces: Sequence[Piece]

    def __call__(self, numbers: "Iterator[pa.RecordBatch]") -> "Iterator[pa.RecordBatch]":
        """Return the files of the pieces of these numbers."""
        for batch in numbers:
            for number in batch.column(0).to_pylist():
                try:
                    for chunk in batches(self.pieces[number](), _BATCH):
                        yield _batch_of(chunk)
                except FAULTS as error:
                    yield _batch_of([Found("", "", 0)], Fault.of(error).encode().decode())


def _batch_of(files: Sequence[Found], fault: str | None = None) -> "pa.RecordBatch":
    import pyarrow as pa

    kinds: dict[str, Any] = {
        "size": pa.int64(),
        "mtime": pa.timestamp("us", "UTC"),
        "metadata": pa.map_(pa.string(), pa.string()),
    }

    def values(name: str) -> list[Any]:
        if name == "metadata":
            return [list(file.metadata.items()) for file in files]
        if name == "fault":
            return [fault] * len(files)
        return [getattr(file, name) for file in files]

    arrays = [pa.array(values(name), kinds.get(name, pa.string())) for name in _NAMES]
    return pa.RecordBatch.from_arrays(arrays, list(_NAMES))


@contextmanager
def frame_of(spark: "SparkSession", pieces: Sequence[Piece]) -> "Iterator[DataFrame]":
    """Yield the files of all pieces as a frame for `import_frame`.

    A task reads each piece once. The rows stay on the disks of the executors during the block.
    """
    from pyspark import StorageLevel

    numbers = spark.range(0, len(pieces), 1, len(pieces))
    frame = numbers.mapInArrow(PieceTask(pieces), _FOUND).persist(StorageLevel.DISK_ONLY)
    try:
        for row in frame.where("fault is not null").select("fault").take(1):
            raise Fault.read(row[0]).error()
        yield frame
    finally:
        frame.unpersist()
