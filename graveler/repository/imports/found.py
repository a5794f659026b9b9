"""The files of an import, as described by a listing or an inventory."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from graveler.base.globs import compiled


@dataclass(frozen=True, slots=True)
class Found:
    """A file to import.

    Attributes:
        size: Size in bytes.
        version: The version from its store: ``etag:<ETag>`` or ``mtime:<µs>``, or "" if unknown.
        mtime: The time of writing, or None if unknown.
        checksum: ``algorithm:hex`` of the content, or "".
        content_type: Media type, or "".
        where: The file and the row that name it, for errors.
    """

    address: str
    path: str
    size: int
    version: str = ""
    mtime: datetime | None = None
    checksum: str = ""
    content_type: str = ""
    metadata: Mapping[str, str] = field(default_factory=dict)
    where: str = ""


Piece = Callable[[], Iterator[Found]]
"""Yields some of the files of a source. It can be pickled and called by another process."""


def matcher(patterns: Sequence[str]) -> Callable[[str], bool]:
    """Return whether a path below a source is one of the texts, or matches one as a pattern."""
    exact, rules = frozenset(patterns), [compiled(pattern) for pattern in patterns]
    return lambda path: path in exact or any(rule.fullmatch(path) for rule in rules)


@dataclass(frozen=True, slots=True)
class Source:
    """The source of the files of an import.

    Attributes:
        read: Yields the files. Each call reads the source again.
        pieces: Returns pieces that together have all files.
        size: Returns the size of the files of an inventory, or 0 for a listing.
        is_listing: Whether it is a listing of a store, in which no file comes twice.
    """

    name: str
    read: Callable[[], Iterator[Found]]
    pieces: Callable[[], Sequence[Piece]]
    size: Callable[[], int] = int
    is_listing: bool = False
