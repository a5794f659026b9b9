"""The streams of a connection, and the head of a request, read with bounds in time and bytes."""

import io
import re
import socket
from time import monotonic
from typing import TYPE_CHECKING, BinaryIO, Final

from graveler.gateway.bodies import ClientGoneError
from graveler.gateway.failures import ARGUMENT, RemoteError

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer, WriteableBuffer

_HEAD_BYTES: Final = 16 << 10
_MOST_LINES: Final = 100
_CONTROL: Final = re.compile(rb"[\x00-\x1f\x7f]")
_FIELD: Final = re.compile(rb"([!#$%&'*+.^_`|~0-9A-Za-z-]+):[^\x00-\x08\x0a-\x1f\x7f]*")
_BEYOND_ASCII: Final = re.compile(rb"[\x80-\xff]")


class Stream(io.RawIOBase):
    """A connection whose reads and writes end after a pause without progress, or at a deadline."""

    def __init__(self, connection: socket.socket, pause: float) -> None:
        super().__init__()
        self._connection = connection
        self._deadline: float | None = None
        self._pause = pause

    def end_after(self, seconds: float | None) -> None:
        """Let reads end after this time in total; None for as long as bytes come."""
        self._deadline = None if seconds is None else monotonic() + seconds

    def readable(self) -> bool:
        """Return True."""
        return True

    def readinto(self, buffer: "WriteableBuffer", /) -> int:
        """Read some bytes, or raise TimeoutError."""
        left = self._pause if self._deadline is None else self._deadline - monotonic()
        if left <= 0:
            raise TimeoutError
        self._connection.settimeout(left)
        return self._connection.recv_into(buffer)

    def write(self, data: "ReadableBuffer", /) -> int:
        """Write all bytes."""
        rest = memoryview(data).cast("B")
        size = len(rest)
        self._connection.settimeout(self._pause)
        while rest:
            rest = rest[self._connection.send(rest) :]
        return size


def read_head(stream: BinaryIO) -> tuple[bytes, bytes]:
    """Return the request line, percent-encoded as clients should do, and the lines after it."""
    lines: list[bytes] = []
    left = _HEAD_BYTES
    while True:
        line = stream.readline(left + 1)
        left -= len(line)
        if left < 0 or len(lines) > _MOST_LINES:
            raise RemoteError(
                ARGUMENT,
                f"the head has more than {_HEAD_BYTES} bytes or {_MOST_LINES} lines",
                431 if lines else 414,
            )
        if not line.endswith(b"\n"):
            raise ClientGoneError("the connection ended within the head")
        if lines and line in {b"\r\n", b"\n"}:
            break
        lines.append(line.removesuffix(b"\n").removesuffix(b"\r"))
    first, *fields = lines
    if _CONTROL.search(first):
        raise RemoteError(ARGUMENT, "the request line has control characters")
    seen: set[bytes] = set()
    for field in fields:
        found = _FIELD.fullmatch(field)
        name = b"" if found is None else found[1].lower()
        if not name or name in seen:
            raise RemoteError(ARGUMENT, f"a header line is folded, twice or none: {field[:80]!r}")
        seen.add(name)
    first = _BEYOND_ASCII.sub(lambda found: b"%%%02X" % found[0][0], first)
    return first + b"\r\n", b"".join(field + b"\r\n" for field in fields) + b"\r\n"
