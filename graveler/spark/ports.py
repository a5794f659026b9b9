"""Shared by reading and writing: the protocols of trees, and the names of files in Spark."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, Final, Protocol

from graveler.committed.units import log_of
from graveler.errors import InvalidInputError, ObjectNotFoundError
from graveler.model import Entry
from graveler.reads.partitions import is_hidden, is_in_table
from graveler.spark.formats import refuse_delta

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from graveler.reads.stores import Stores


class View(Protocol):
    """Something to read from: a ref, a branch, a run, a step, a gate's candidate."""

    @property
    def repository(self) -> "Stores":
        """The stores of the repository."""

    def entries(self, prefix: str = "") -> Iterator[Entry]:
        """Yield the entries below `prefix`, in byte order of their paths."""

    def stat(self, path: str) -> Entry:
        """Return the entry at `path`, or raise ObjectNotFoundError."""

    def open(self, path: Entry) -> BinaryIO:
        """Return a readable, seekable stream of an entry's file; the caller closes it."""

    def uri(self, entry: Entry) -> str:
        """Return the physical URI of an entry's file."""


class Target(View, Protocol):
    """Something to write to: a branch, a run, a step."""

    @property
    def _unrecorded(self) -> View:
        """A view whose reads are not inputs of a run, for reads that only serve a write."""

    def put(
        self,
        path: str,
        body: Path,
        *,
        content_type: str = "",
        metadata: Mapping[str, str] | None = None,
    ) -> Entry:
        """Store a file and stage its entry."""

    def new_address(self) -> str:
        """Return a new key prefix in the repository's storage, to write files below."""

    def _link_written(self, entries: Iterable[Entry]) -> int:
        """Stage entries of files that were just written below an address and listed."""

    def delete_many(self, paths: Iterable[str]) -> int:
        """Stage the removal of paths."""


Files = Sequence[tuple[str, Entry]]
"""Entries of a table, each with its path relative to the table."""

_SCHEMES: Final = {"file": "file", "s3": "s3a", "s3a": "s3a", "gs": "gs", "hdfs": "hdfs"}
_PATTERN: Final = re.compile(r"[{}\[\]*?\\]")


def spark_uri(uri: str) -> str:
    """Return `uri` as Spark's file systems name it.

    Raises:
        InvalidInputError: Spark has no file system for it.
    """
    scheme, _, rest = uri.partition("://")
    if scheme not in _SCHEMES:
        raise InvalidInputError(
            f"Spark cannot reach {uri!r}: it reads and writes {', '.join(sorted(_SCHEMES))}; "
            "keep what Spark works on in such a storage"
        )
    return f"{_SCHEMES[scheme]}://{rest}"


def is_remote(spark: "SparkSession") -> bool:
    """Return whether the session is a client of Spark Connect."""
    return type(spark).__module__.startswith("pyspark.sql.connect.")


def is_pattern(uri: str) -> bool:
    """Return whether Spark would read the address as a pattern."""
    return _PATTERN.search(uri) is not None


def read_apart(uris: Sequence[str]) -> list[tuple[str, ...]]:
    """Return files in groups, so that Spark reads each file once; a path like a pattern is alone.

    Spark reads all paths again for each path that looks like a pattern, although it expands none. A
    partition's value may have a ``}``, which Spark does not escape in a path.
    """
    alone: list[tuple[str, ...]] = [(uri,) for uri in uris if is_pattern(uri)]
    others = tuple(uri for uri in uris if not is_pattern(uri))
    return [others, *alone] if others else alone


def plain_paths(spark: "SparkSession", uris: Sequence[str]) -> list[str]:
    """Return addresses for a reader of Spark with the option ``__globPaths__`` (false).

    A server of Spark Connect changes the names of options to lower case and then does not recognize this
    option. For it, the characters of patterns are escaped.
    """
    return [_PATTERN.sub(r"\\\g<0>", uri) for uri in uris] if is_remote(spark) else list(uris)


def table_entries(view: View, path: str, *, nested: bool) -> list[tuple[str, Entry]]:
    """Return the entries of a table's files in one version, by their paths below the table.

    A path without a slash at its end names a file if there is one, else a folder.

    Raises:
        InvalidInputError: It is a Delta table, or one is below it.
    """
    if path and not path.endswith("/"):
        with suppress(ObjectNotFoundError):
            return [(path.rpartition("/")[2], view.stat(path))]
        path = f"{path}/"
    files: list[tuple[str, Entry]] = []
    for entry in view.entries(path):
        name = entry.path.removeprefix(path)
        if not is_hidden(name):
            if nested or is_in_table(name):
                files.append((name, entry))
        elif log_of(name.encode()) is not None:
            refuse_delta(f"{path}{name.rpartition('_delta_log/')[0]}")
    return files
