"""Files to read whose bytes come from elsewhere, part by part."""

import io
from abc import abstractmethod
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer


class SeekableFile(io.RawIOBase):
    """A file of known size, to read, which can seek. A subclass gets its bytes.

    Wrap it in :class:`io.BufferedReader`. Otherwise each read is a request.
    """

    def __init__(self, size: int) -> None:
        super().__init__()
        self._size = size
        self._position = 0

    def readable(self) -> bool:
        """Return True."""
        return True

    def seekable(self) -> bool:
        """Return True."""
        return True

    def seek(self, offset: int, origin: int = io.SEEK_SET, /) -> int:
        """Move to `offset` from the start, the current position or the end."""
        origins = {io.SEEK_SET: 0, io.SEEK_CUR: self._position, io.SEEK_END: self._size}
        if origin not in origins or origins[origin] + offset < 0:
            raise ValueError(f"cannot seek to {offset} from {origin}: it is before the start")
        self._position = origins[origin] + offset
        return self._position

    def readinto(self, buffer: "WriteableBuffer", /) -> int:
        """Fill the buffer, or a part of it, from the current position."""
        target = memoryview(buffer).cast("B")
        piece = self._next(len(target))
        target[: len(piece)] = piece
        return len(piece)

    @abstractmethod
    def _next(self, most: int, /) -> bytes | memoryview:
        """Return at most so many bytes from the current position, and move behind them."""
