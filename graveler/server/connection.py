"""One connection: h11 reads its requests, within bounds of bytes and time, and frames the answers."""

import re
import socket
import ssl
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from errno import EHOSTDOWN, EHOSTUNREACH, ENETDOWN, ENETUNREACH
from http import HTTPStatus
from time import monotonic
from typing import Any, TypeVar, cast
from urllib.parse import urlsplit

from graveler.errors import GravelerError, MissingDependencyError
from graveler.server.application import Application, refusal, report
from graveler.server.connections import Connections
from graveler.server.messages import Answer, ClientGoneError, HttpError, Request

try:
    import h11
except ImportError as error:
    told = f'the server needs h11 ({error}): pip install "graveler[server]"'
    raise MissingDependencyError(told) from error

_HEAD_BYTES = 16 << 10
_MOST_LINES = 100
_LINE_BYTES = 4 << 10
_CHUNK = re.compile(rb"([0-9A-Fa-f]{1,15})[ \t]*(?:;[\t\x20-\x7e\x80-\xff]*)?")
_TRAILER = re.compile(rb"[!#$%&'*+.^_`|~0-9A-Za-z-]+:[\t\x20-\x7e\x80-\xff]*")
_PIECE_BYTES = 96 << 10
_IDLE_SECONDS = 120.0
_ADMISSION_SECONDS = 10.0
_PROGRESS_SECONDS = 30.0
_DRAIN_SECONDS = 5.0
_DRAINED_BYTES = 1 << 20
_PROBE_SECONDS = 60
"""Time without a packet after which the system checks that the other machine is alive."""
_END = re.compile(rb"\n\r?\n")
# what two programs may read in two ways, and h11 accepts: control characters, lines that do not end
# with CRLF, folded lines, a list of lengths
_DEFECT = re.compile(
    rb"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]|\r(?!\n)|(?<!\r)\n|\n[ \t]|(?i:\ncontent-length:[^\r]*,)"
)
_BEYOND_ASCII = re.compile(rb"[\x80-\xff]")
_UNREACHABLE = frozenset({EHOSTDOWN, EHOSTUNREACH, ENETDOWN, ENETUNREACH})
"""What the network says of a client that is gone, and what is no ConnectionError in Python."""
_T = TypeVar("_T", bytes, int)
_HOST = re.compile(r"(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]+)(:[0-9]{1,5})?")


class Connection:
    """Answers the requests of one connection, one after the other."""

    def __init__(
        self,
        connection: socket.socket,
        application: Application,
        connections: Connections,
        authority: str,
    ) -> None:
        self._socket = connection
        self._application = application
        self._connections = connections
        self._authority = authority
        self._admitted = False
        self._received = b""
        self._at = 0  # up to here it is read
        self._left = 0
        self._chunked = False

    def serve(self) -> None:
        """Answer requests until the client or the server ends the connection."""
        with self._connections.opened(self._socket), _until_gone():
            self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
            if hasattr(socket, "TCP_KEEPIDLE"):
                self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, _PROBE_SECONDS)
            while self._exchange():
                pass

    def _exchange(self) -> bool:
        """Answer a request; return whether another one may follow."""
        self._http = h11.Connection(h11.SERVER, max_incomplete_event_size=_HEAD_BYTES)
        self._received, self._at = self._received[self._at :], 0
        self._end_after(_IDLE_SECONDS if self._admitted else _ADMISSION_SECONDS)
        with self._connections.waiting(self._socket) as goes_on:
            if goes_on and not self._received:
                self._received = self._receive()
            if not (goes_on and self._received):
                return False
        if self._admitted:
            self._end_after(_ADMISSION_SECONDS)
        head = None
        try:
            head = self._head()
            request = self._request(head)
        except HttpError as error:
            self._send(refusal(error), head, closes=True)
            self._linger()
            return False
        answer = self._application.answer(request, self._admit)
        unread = bool(self._left or self._chunked)
        closes = unread or self._closes(head)
        if not self._send(answer, head, closes=closes):
            return False
        if unread:
            self._linger()
        return not closes

    def _head(self) -> h11.Request:
        """Read the head of a request; its request line is percent-encoded as clients should do."""
        while (end := _END.search(self._received)) is None or end.end() > _HEAD_BYTES:
            if len(self._received) > _HEAD_BYTES:
                whole = b"\n" in self._received[:_HEAD_BYTES]
                raise HttpError(431 if whole else 414, f"the head has over {_HEAD_BYTES} bytes")
            piece = self._receive()
            if not piece:
                raise ClientGoneError("the connection ended within the head")
            self._received += piece
        head, self._received = self._received[: end.end()], self._received[end.end() :]
        if defect := _DEFECT.search(head):
            raise HttpError(400, f"the head has a defect at byte {defect.start()}")
        line, ending, fields = head.partition(b"\r\n")
        lines = fields.count(b"\n") - 1
        if lines > _MOST_LINES:
            raise HttpError(431, f"the head has more than {_MOST_LINES} lines")
        line = _BEYOND_ASCII.sub(lambda found: b"%%%02X" % found[0][0], line)
        self._http.receive_data(line + ending + fields)
        try:
            request = cast("h11.Request", self._http.next_event())
        except h11.RemoteProtocolError as error:
            raise HttpError(error.error_status_hint, str(error).partition(":")[0]) from None
        if len(dict(request.headers)) < lines:  # h11 takes two equal lengths as one
            raise HttpError(400, "two lines of the head have the same name")
        return request

    def _request(self, head: h11.Request) -> Request:
        headers = {name.decode(): value.decode("latin-1") for name, value in head.headers}
        target = head.target.decode()
        if head.http_version not in {b"1.0", b"1.1"}:
            raise HttpError(505, f"HTTP/{head.http_version.decode()}: send HTTP/1.1")
        if not target.startswith("/") or "#" in target:
            raise HttpError(400, f"{target[:80]!r} is not a path")
        host = headers.get("host", "")
        if not host:
            headers["host"] = self._authority
        elif not _is_authority(host):
            raise HttpError(400, f"Host: {host[:80]!r} is not a name and a port")
        if "transfer-encoding" in headers and (
            "content-length" in headers or head.http_version == b"1.0"
        ):
            raise HttpError(
                400, "the body needs a Content-Length or, in version 1.1, chunks, and not both"
            )
        self._left = int(headers.get("content-length", 0))
        self._chunked = "transfer-encoding" in headers
        body = _Body(self) if self._left or self._chunked else None
        return Request(head.method.decode(), target, headers, body)

    def _closes(self, head: h11.Request) -> bool:
        wish = dict(head.headers).get(b"connection", b"").lower()
        old = head.http_version == b"1.0"
        return old or b"close" in wish or self._connections.closing

    def _admit(self) -> None:
        """End the limits of what comes before the token."""
        if not self._admitted and not self._connections.admit(self._socket):
            raise ClientGoneError("there are too many connections")
        self._admitted = True
        self._end_after(None)

    def read_into(self, view: memoryview) -> int:
        """Fill memory with the next bytes of the body, which do not pass through h11; return how many."""
        if self._chunked and not self._left:
            self._begin_chunk()
        view = view[: self._left]
        if not view:
            return 0
        if count := min(len(view), len(self._received) - self._at):
            view[:count] = self._received[self._at : self._at + count]
            self._at += count
        else:
            count = self._more(self._socket.recv_into, view)
        self._left -= count
        if self._chunked and not self._left and self._line():
            raise HttpError(400, "a chunk of the body is longer than its size")
        return count

    def _begin_chunk(self) -> None:
        line = self._line()
        size = _CHUNK.fullmatch(line)
        if size is None:
            raise HttpError(400, f"{line[:20]!r} is not the size of a chunk")
        self._left = int(size[1], 16)
        if self._left:
            return
        for _ in range(_MOST_LINES):
            if not (line := self._line()):
                self._chunked = False
                return
            if not _TRAILER.fullmatch(line):
                break
        raise HttpError(400, f"the body does not end with at most {_MOST_LINES} header lines")

    def _line(self) -> bytes:
        while (end := self._received.find(b"\r\n", self._at, self._at + _LINE_BYTES)) < 0:
            left = self._received[self._at :]
            if len(left) >= _LINE_BYTES:
                raise HttpError(400, f"a line between the chunks has over {_LINE_BYTES} bytes")
            self._received, self._at = left + self._more(self._socket.recv, _PIECE_BYTES), 0
        line, self._at = self._received[self._at : end], end + 2
        return line

    def _more(self, receive: Callable[[Any], _T], what: Any) -> _T:
        try:
            if self._http.they_are_waiting_for_100_continue:
                begin = h11.InformationalResponse(status_code=100, headers=[], reason=b"Continue")
                self._write(self._http.send(begin) or b"")
            self._await()
            received = receive(what)
        except OSError as error:  # of the network, for which stores would look at themselves
            raise ClientGoneError("the client does not send the rest of the body") from error
        if not received:
            raise ClientGoneError("the connection ended within the body")
        return received

    def _send(self, answer: Answer, head: h11.Request | None, *, closes: bool) -> bool:
        """Send an answer; return whether all of it was sent."""
        download, pieces = answer.download, answer.pieces
        length = len(answer.content) if download is None else download.length
        chunked = pieces is not None and head is not None and head.http_version == b"1.1"
        framing = ("Transfer-Encoding", "chunked") if chunked else ("Content-Length", str(length))
        headers = [*answer.headers.items(), *([framing] if chunked or pieces is None else [])]
        if closes:
            headers.append(("Connection", "close"))
        reason = answer.reason or HTTPStatus(answer.status).phrase
        first = h11.Response(status_code=answer.status, headers=headers, reason=reason.encode())
        bodiless = head is not None and head.method == b"HEAD"
        content = b"" if bodiless else answer.content
        # in one packet, because two would wait for each other; a long content is not copied
        small = content[:_PIECE_BYTES]
        self._write((self._http.send(first) or b"") + small)
        self._write(memoryview(content)[len(small) :])
        try:
            if download is not None and bodiless:
                download.close()
            elif download is not None:
                download.send(self._socket, self._write)
            for piece in pieces or ():
                self._write(b"%x\r\n%b\r\n" % (len(piece), piece) if chunked else piece)
            if chunked:
                self._write(b"0\r\n\r\n")
        except GravelerError as error:
            report(error)  # the client sees an early end of the connection
            return False
        return True

    def _linger(self) -> None:
        """Read what the client still sends for a while, so that it can read the answer."""
        self._end_after(_DRAIN_SECONDS)
        left = _DRAINED_BYTES
        with suppress(OSError):
            self._socket.shutdown(socket.SHUT_WR)
            while left > 0 and (piece := self._receive()):
                left -= len(piece)

    def _end_after(self, seconds: float | None) -> None:
        """Let reads end after this time in total; None for as long as bytes come."""
        self._deadline = None if seconds is None else monotonic() + seconds

    def _receive(self) -> bytes:
        self._await()
        return self._socket.recv(_PIECE_BYTES)

    def _await(self) -> None:
        """Let the next read end in time."""
        left = _PROGRESS_SECONDS if self._deadline is None else self._deadline - monotonic()
        if left <= 0:
            raise TimeoutError
        self._socket.settimeout(left)

    def _write(self, data: bytes | memoryview) -> None:
        """Send all bytes, or raise TimeoutError after a pause in which the client took none."""
        rest = memoryview(data)
        self._socket.settimeout(_PROGRESS_SECONDS)
        while rest:
            rest = rest[self._socket.send(rest) :]


def _is_authority(host: str) -> bool:
    """Return whether a host is a name and a port, so that every surface can read both."""
    try:
        return bool(_HOST.fullmatch(host)) and (urlsplit(f"//{host}").port or 0) >= 0
    except ValueError:
        return False


@contextmanager
def _until_gone() -> Iterator[None]:
    """End a block when its client is gone, or a file cannot be read."""
    try:
        yield
    except (ConnectionError, TimeoutError, ssl.SSLError):
        pass
    except OSError as error:
        if error.errno not in _UNREACHABLE:
            report(error)  # of the disk


class _Body:
    def __init__(self, connection: Connection) -> None:
        self.readinto = connection.read_into

    def read(self, size: int, /) -> bytes:
        piece = memoryview(bytearray(min(size, _PIECE_BYTES)))
        return bytes(piece[: self.readinto(piece)])
