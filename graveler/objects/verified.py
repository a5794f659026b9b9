"""Files read by ranges, and bytes verified as they are read.

The bytes are compared with the size and the checksum at the time of storing.
"""

import hashlib
import io
import re
from collections.abc import Callable
from threading import Lock
from typing import TYPE_CHECKING, BinaryIO, Protocol, cast

import xxhash

from graveler.base.bounded import SeekableFile
from graveler.errors import InvalidInputError, PreconditionFailedError

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer


_BUFFER_BYTES = 64 << 10
_WITHOUT_LENGTH = frozenset(
    name for name in hashlib.algorithms_guaranteed if not name.startswith("shake")
)
_XXHASH = frozenset({"xxh32", "xxh64", "xxh128", "xxh3_64", "xxh3_128"})


WRITTEN = ("bytes that were written while it was read", "others")
"""The found and the expected value of a file that another program has changed since it was opened."""


class Hash(Protocol):
    """The common interface of `hashlib` and `xxhash`."""

    def update(self, data: bytes | memoryview, /) -> None:
        """Add bytes."""

    def hexdigest(self) -> str:
        """Return the checksum of the added bytes in hexadecimal digits."""


def new_hash(algorithm: str) -> Hash | None:
    """Return a new hash, or None for an unknown algorithm.

    Args:
        algorithm: A name of `hashlib`, or ``xxh32``, ``xxh64``, ``xxh3_64``, ``xxh128``.
    """
    name = algorithm.lower()
    if name in _XXHASH:
        return cast("Hash", getattr(xxhash, name)())
    if name in _WITHOUT_LENGTH:
        return hashlib.new(name, usedforsecurity=False)
    return None


def check_declared(checksum: str) -> None:
    """Refuse a checksum that no reader can verify."""
    if not checksum:
        return
    algorithm, _, digits = checksum.partition(":")
    known = new_hash(algorithm)
    if known is None:
        raise InvalidInputError(
            f"checksum {checksum!r}: give it as algorithm:hex, with an algorithm of hashlib "
            f"(sha256, md5, …) or one of {', '.join(sorted(_XXHASH))}; or leave it out"
        )
    length = len(known.hexdigest())
    if not re.fullmatch(f"[0-9a-fA-F]{{{length}}}", digits):
        raise InvalidInputError(
            f"checksum {checksum!r}: {algorithm} has {length} hexadecimal digits"
        )


class Verifier:
    """Compares the bytes of a file that is read in order with its size and checksum.

    Bytes that are read again are skipped. A gap ends the comparison, and bytes from the start begin
    it again. Any number of threads may add bytes.

    Args:
        checksum: ``algorithm:hex``. With "" or an unknown algorithm only the size is compared.
        refusal: Makes the error for a found and an expected value: ``13 bytes``, ``sha256:…``.
    """

    def __init__(self, size: int, checksum: str, refusal: Callable[[str, str], Exception]) -> None:
        self._size = size
        self._algorithm, _, self._wanted = checksum.partition(":")
        self.refusal = refusal
        self._lock = Lock()
        self._error: Exception | None = None
        self._hash: Hash | None = None
        self._position = 0
        self._over = False

    def stop(self) -> None:
        """End the comparison: the next bytes are not the following ones."""
        self._over = True

    def feed(self, start: int, piece: bytes | memoryview) -> None:
        """Add the bytes at `start`. An empty piece means that the file ends there."""
        with self._lock:
            if self._error is not None:
                raise self._error
            if start == 0:
                self._hash = new_hash(self._algorithm)
                self._position, self._over = 0, False
            known = self._position - start
            if self._over or known < 0:
                self._over = True
                return
            if self._hash is not None:
                self._hash.update(memoryview(piece)[known:])
            self._position += max(len(piece) - known, 0)
            if self._position >= self._size or not len(piece):
                self._finish()

    def _finish(self) -> None:
        self._over = True
        if self._position != self._size:
            self._error = self.refusal(f"{self._position} bytes", f"{self._size} bytes")
        elif self._hash is not None and self._hash.hexdigest() != self._wanted.lower():
            computed = f"{self._algorithm}:{self._hash.hexdigest()}"
            self._error = self.refusal(computed, f"{self._algorithm}:{self._wanted}")
        if self._error is not None:
            raise self._error


class _VerifiedBytes(io.RawIOBase):
    """A stream whose bytes go through a verifier."""

    def __init__(self, stream: BinaryIO, verifier: Verifier) -> None:
        super().__init__()
        self._stream = cast("io.BufferedIOBase", stream)
        self._verifier = verifier
        self._position = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._position

    def seek(self, offset: int, origin: int = io.SEEK_SET, /) -> int:
        position = self._stream.seek(offset, origin)
        if position not in {0, self._position}:
            self._verifier.stop()
        self._position = position
        return position

    def readinto(self, buffer: "WriteableBuffer", /) -> int:
        target = memoryview(buffer).cast("B")
        try:
            count = self._stream.readinto(target)
        except PreconditionFailedError as error:
            raise self._verifier.refusal(*WRITTEN) from error
        if len(target):
            self._verifier.feed(self._position, target[:count])
        self._position += count
        return count

    def readall(self) -> bytes:
        try:
            content = self._stream.read()
        except PreconditionFailedError as error:
            raise self._verifier.refusal(*WRITTEN) from error
        self._verifier.feed(self._position, content)
        self._position += len(content)
        if content:
            self._verifier.feed(self._position, b"")  # the end of the file
        return content

    def close(self) -> None:
        if not self.closed:
            self._stream.close()
        super().close()


def verified_stream(stream: BinaryIO, verifier: Verifier) -> BinaryIO:
    """Return a stream whose bytes the verifier compares. Closing it closes `stream`.

    The read that gets the last byte of the file raises the refusal. A seek to a place other than
    the start ends the comparison. Reading from the start begins it again.
    """
    return cast("BinaryIO", io.BufferedReader(_VerifiedBytes(stream, verifier), _BUFFER_BYTES))


READ_AHEAD_BYTES = 1 << 20
"""The minimum size of a fetch: a request costs as much as the transfer of a megabyte."""


class RangedFile(SeekableFile):
    """A file that reads an object of known size by a function (start, length) -> bytes."""

    def __init__(self, size: int, read_range: Callable[[int, int], bytes]) -> None:
        super().__init__(size)
        self._read_range = read_range

    def readall(self) -> bytes:
        """Return the rest of the object with one request."""
        return self._next(self._size)

    def _next(self, most: int, /) -> bytes:
        length = min(most, self._size - self._position)
        if length <= 0:
            return b""
        piece = self._read_range(self._position, length)
        self._position += len(piece)
        return piece
