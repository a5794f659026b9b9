"""What an import finds: files with what a listing or an inventory says of them."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime


@dataclass(frozen=True, slots=True)
class Found:
    """A file that is to be imported.

    Attributes:
        address: Its URI.
        path: Its path below the destination.
        size: Bytes.
        version: What its store reports: ``etag:<ETag>`` or ``mtime:<µs>``; "" if it is not known.
        mtime: When it was written, None if it is not known.
        checksum: ``algorithm:hex`` of the content, or "".
        content_type: Media type, or "".
        metadata: The entry's pairs.
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
"""Yields some of the files of a source; it may be pickled, and called by another process."""


@dataclass(frozen=True, slots=True)
class Source:
    """Where an import finds its files.

    Attributes:
        name: For errors.
        read: Yields the files; each call reads the source again.
        pieces: Returns pieces that together have all the files.
        size: Returns the bytes of the files of an inventory, 0 for a listing.
        is_listing: It is a listing of a store: no file is in it twice.
    """

    name: str
    read: Callable[[], Iterator[Found]]
    pieces: Callable[[], Sequence[Piece]]
    size: Callable[[], int] = int
    is_listing: bool = False
