"""Bodies of requests, read as streams of a known length or in chunks."""

from collections.abc import Callable
from email.message import Message
from typing import BinaryIO, Final, Protocol

from graveler.gateway.failures import ARGUMENT, RemoteError

_LINE_BYTES: Final = 1024
_TRAILER_LINES: Final = 32
_HEX: Final = frozenset(b"0123456789abcdefABCDEF")


class ClientGoneError(ConnectionError):
    """The connection ended before the body did."""


class Pieces(Protocol):
    """Divides a body into pieces."""

    def next(self, left: int) -> int:
        """Return the size of the next piece; 0 at the end. The last one has `left` bytes to read."""


class _Chunks:
    """The sizes of chunks, read from the stream."""

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream
        self._first = True

    def next(self, left: int) -> int:
        if left:
            return left
        if not self._first and self._line():
            raise RemoteError(ARGUMENT, "a chunk of the body is longer than it said")
        self._first = False
        size = self._line().partition(b";")[0].strip()
        if not size or len(size) > 15 or not _HEX.issuperset(size):
            raise RemoteError(ARGUMENT, f"a chunk of the body has no size: {size[:32]!r}")
        if number := int(size, 16):
            return number
        for _ in range(_TRAILER_LINES):
            if not self._line():
                return 0
        raise RemoteError(ARGUMENT, "the body has too many trailers")

    def _line(self) -> bytes:
        line = self._stream.readline(_LINE_BYTES)
        if line.endswith(b"\n"):
            return line.rstrip(b"\r\n")
        if len(line) < _LINE_BYTES:
            raise ClientGoneError("the connection ended within the body")
        raise RemoteError(ARGUMENT, f"a chunk of the body has a line of over {_LINE_BYTES} bytes")


class _Length:
    """One piece of a known size."""

    def __init__(self, size: int) -> None:
        self._size = size

    def next(self, left: int) -> int:
        size, self._size = self._size, 0
        return left or size


class RequestBody:
    """The body of a request, which can be read once.

    Attributes:
        ended: Whether the whole body was read.
    """

    def __init__(self, stream: BinaryIO, pieces: Pieces, begin: Callable[[], None]) -> None:
        self._stream = stream
        self._pieces = pieces
        self._begin = begin
        self._begun = False
        self._left = 0
        self.ended = False

    def read(self, size: int) -> bytes:
        """Return the next `size` bytes; fewer only at the end.

        Raises:
            ClientGoneError: The connection ended.
            RemoteError: The body is not a sequence of chunks.
        """
        if not self._begun:
            self._begun = True
            self._begin()
        pieces: list[bytes] = []
        while size and not self.ended:
            try:
                self._left = self._pieces.next(self._left)
                piece = self._stream.read(min(size, self._left))
            except TimeoutError as error:
                raise ClientGoneError("the client does not send the rest of the body") from error
            if not self._left:
                self.ended = True
                break
            if not piece:
                raise ClientGoneError("the connection ended within the body")
            pieces.append(piece)
            size -= len(piece)
            self._left -= len(piece)
        return pieces[0] if len(pieces) == 1 else b"".join(pieces)


def request_body(
    headers: Message, stream: BinaryIO, begin: Callable[[], None]
) -> RequestBody | None:
    """Return the body of a request; None if it has none.

    Raises:
        RemoteError: The headers contradict each other, or cannot be read.
    """
    codings = headers.get_all("Transfer-Encoding", [])
    lengths = headers.get_all("Content-Length", [])
    if codings:
        if lengths or len(codings) > 1 or codings[0].strip().lower() != "chunked":
            raise RemoteError(
                ARGUMENT, "the body needs either a Content-Length or Transfer-Encoding: chunked"
            )
        return RequestBody(stream, _Chunks(stream), begin)
    if not lengths:
        return None
    length = lengths[0].strip()
    if len(set(lengths)) > 1 or not (length.isascii() and length.isdecimal() and len(length) < 19):
        raise RemoteError(ARGUMENT, f"Content-Length: {lengths!r}: give one whole number")
    return RequestBody(stream, _Length(int(length)), begin) if int(length) else None
