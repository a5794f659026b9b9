"""The comparison of a table's files with their entries by the executors."""

from collections.abc import Iterator, Sequence
from functools import reduce
from typing import TYPE_CHECKING
from urllib.parse import unquote

from graveler.errors import CorruptionError, InvalidInputError
from graveler.model import Entry
from graveler.reads.files import refusal
from graveler.spark.loading import load, planning
from graveler.spark.ports import read_apart

if TYPE_CHECKING:
    from pyspark.sql import Column, SparkSession


_MOST_BYTES = 2**31 - 1
_BITS = {"sha224": 224, "sha256": 256, "sha384": 384, "sha512": 512}
_Measured = tuple[int, str]


def verify_files(spark: "SparkSession", files: Sequence[tuple[Entry, str]]) -> None:
    """Let Spark read each file completely, and compare its size and checksum.

    The tasks read through Spark's own file systems, as a read of the table does, and do not
    need graveler. A task holds one file in memory at a time.

    Args:
        files: Entries, and the URIs of their files in Spark.
    """
    for entry, uri in files:
        if entry.size > _MOST_BYTES:
            raise InvalidInputError(
                f"{entry.path!r} at {uri} has {entry.size} bytes, and Spark hashes files of up to "
                f"{_MOST_BYTES}: read it without verify=True, and use `graveler fsck --checksums`"
            )
    by_algorithm: dict[str, list[tuple[Entry, str]]] = {}
    for entry, uri in files:
        algorithm = entry.checksum.partition(":")[0].lower()
        by_algorithm.setdefault(algorithm, []).append((entry, uri))
    wrong = [
        error
        for algorithm, group in by_algorithm.items()
        for error in _wrong(group, _found(spark, algorithm, [uri for _, uri in group]))
    ]
    if wrong:
        others = f" (and {len(wrong) - 1} other files)" if len(wrong) > 1 else ""
        raise type(wrong[0])(f"{wrong[0]}{others}")


def _found(spark: "SparkSession", algorithm: str, uris: list[str]) -> dict[str, _Measured]:
    """Return the size and checksum of each file by name."""
    from pyspark.sql.functions import col

    with planning(spark, uris) as planner:
        reader = planner.read.format("binaryFile").option("__globPaths__", "false")
        reader = reader.option("recursiveFileLookup", "true")  # no partition columns
        frames = [load(planner, reader, apart) for apart in read_apart(uris)]
    frame = reduce(lambda left, right: left.union(right), frames)
    rows = frame.select(col("path"), col("length"), _digest(algorithm)).collect()
    return {_plain(path): (length, digest) for path, length, digest in rows}


def _digest(algorithm: str) -> "Column":
    from pyspark.sql.functions import col, lit, md5, sha1, sha2

    content = col("content")
    if algorithm in _BITS:
        return sha2(content, _BITS[algorithm])
    if algorithm == "md5":
        return md5(content)
    return sha1(content) if algorithm == "sha1" else lit("")


def _wrong(
    group: list[tuple[Entry, str]], measured: dict[str, _Measured]
) -> Iterator[CorruptionError]:
    for entry, uri in group:
        size, digest = measured.get(_plain(uri), (0, ""))  # Spark skips empty files
        algorithm, _, wanted = entry.checksum.partition(":")
        if size != entry.size:
            yield refusal(uri, entry, f"{size} bytes", f"{entry.size} bytes")
        elif digest and digest != wanted.lower():
            yield refusal(uri, entry, f"{algorithm}:{digest}", entry.checksum)


def _plain(uri: str) -> str:
    """Return the name of a file in a form that is equal for Spark and Hadoop."""
    scheme, _, rest = unquote(uri).partition(":")
    return f"{scheme}:{rest.lstrip('/')}"
