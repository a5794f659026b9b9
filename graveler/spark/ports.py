"""What reading and writing share: the trees they need, and how Spark names files."""

import re
from collections.abc import Iterable, Iterator
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Final, Protocol

from graveler.errors import InvalidInputError
from graveler.model import Entry

if TYPE_CHECKING:
    from graveler.reads.stores import Stores


class View(Protocol):
    """Something to read from: a ref, a branch, a run, a step, a gate's candidate."""

    repository: "Stores"

    def entries(self, prefix: str = "") -> Iterator[Entry]:
        """Yield the entries below `prefix`, in byte order of their paths."""

    def stat(self, path: str) -> Entry:
        """Return the entry at `path`, or raise ObjectNotFoundError."""

    def uri(self, entry: Entry) -> str:
        """Return the physical URI of an entry's file."""


class Target(View, Protocol):
    """Something to write to: a branch, a run, a step."""

    def new_address(self) -> str:
        """Return a fresh key prefix in the repository's storage, to write files below."""

    def _link_written(self, entries: Iterable[Entry]) -> int:
        """Stage entries of files that were just written below an address, and listed."""

    def delete_many(self, paths: Iterable[str]) -> int:
        """Stage the removal of paths."""


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


def is_pattern(uri: str) -> bool:
    """Return whether Spark would read the address as a pattern."""
    return _PATTERN.search(uri) is not None


def is_hidden(relative: str) -> bool:
    """Return whether Spark skips the file: ``_SUCCESS``, ``_temporary/…``, ``.part.crc``."""
    return any(
        part.startswith(".") or (part.startswith("_") and "=" not in part)
        for part in PurePosixPath(relative).parts
    )
