"""A seekable file over ranged reads."""

import io
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer


READ_AHEAD_BYTES: Final = 1 << 20
"""What a small read fetches: a request costs as much as a megabyte does."""


class RangedFile(io.RawIOBase):
    """Reads an object of known size by a function (start, length) -> bytes.

    Wrap it in :class:`io.BufferedReader`, else each read is a request.
    """

    def __init__(self, size: int, read_range: Callable[[int, int], bytes]) -> None:
        super().__init__()
        self._size = size
        self._read_range = read_range
        self._position = 0

    def readable(self) -> bool:
        """Return True."""
        return True

    def seekable(self) -> bool:
        """Return True."""
        return True

    def seek(self, offset: int, origin: int = io.SEEK_SET, /) -> int:
        """Move to `offset` from the start, from here or from the end."""
        origins = {io.SEEK_SET: 0, io.SEEK_CUR: self._position, io.SEEK_END: self._size}
        if origin not in origins or origins[origin] + offset < 0:
            raise ValueError(f"cannot seek to {offset} from {origin}: it is before the start")
        self._position = origins[origin] + offset
        return self._position

    def readinto(self, buffer: "WriteableBuffer", /) -> int:
        """Fill the buffer from here, by one request."""
        target = memoryview(buffer).cast("B")
        piece = self._next(len(target))
        target[: len(piece)] = piece
        return len(piece)

    def readall(self) -> bytes:
        """Return the rest, by one request."""
        return self._next(self._size)

    def _next(self, length: int) -> bytes:
        length = min(length, self._size - self._position)
        if length <= 0:
            return b""
        piece = self._read_range(self._position, length)
        self._position += len(piece)
        return piece
