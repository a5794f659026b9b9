"""HTTP to Keep servers: kept connections, limits of silence, and bodies without copies."""

import io
import re
import ssl
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import cached_property
from hashlib import md5
from http.client import HTTPConnection, HTTPException, HTTPMessage, HTTPResponse, HTTPSConnection
from time import monotonic
from typing import NamedTuple

from graveler.base.clock import Clock
from graveler.base.forks import held_off, watch
from graveler.errors import (
    BackendUnavailableError,
    GravelerError,
    InvalidInputError,
    PermissionDeniedError,
)
from graveler.keep.locators import BLOCK_BYTES

_PIECE_BYTES = 256 << 10
_TEXT_BYTES = 64 << 10
_SLOWEST = 32 << 10
"""Bytes of a body in a second, below which a server counts as silent."""
_SLOWEST_DISK = 4 << 20
"""Bytes that a server writes or verifies in a second before it answers."""
_CONNECT_S = 2.0
_URL = re.compile(r"(https?|keep\+tls)://(?:\[([0-9a-fA-F:.]+)\]|([\w.-]+))(?::([0-9]{1,5}))?/?")
_LAST_PORT = 65_535
_WITH_BODY = frozenset({"PUT", "POST"})
_DOWN = timedelta(seconds=10)

Content = bytes | bytearray | memoryview


@dataclass(frozen=True, slots=True)
class Server:
    """A server of blocks.

    Attributes:
        uuid: Its id, which decides which blocks it gets: ``zzzzz-bi6l4-`` and 15 of a-z and 0-9.
        url: ``http://host:port``, ``https://host:port`` or ``keep+tls://host:port``.
        read_only: Whether it stores no more blocks.
        classes: The storage classes of its volumes; none if they are not known.
    """

    uuid: str
    url: str
    read_only: bool = False
    classes: frozenset[str] = frozenset()

    def __post_init__(self) -> None:
        _place(self.url)


def _place(url: str) -> tuple[str, str, int | None]:
    """Return the scheme, the host and the port of an address."""
    match = _URL.fullmatch(url)
    if match is None or int(match[4] or 0) > _LAST_PORT:
        raise InvalidInputError(
            f"{url!r} is not the address of a Keep server: give http://host:port or https://host:port"
        )
    return match[1], match[2] or match[3], int(match[4]) if match[4] else None


@dataclass(frozen=True, slots=True)
class Request:
    """A request. It may be sent more than once.

    Attributes:
        most: The most bytes of an answer, if they are more than 64 KiB.
    """

    method: str
    path: str
    headers: Mapping[str, str] = field(default_factory=dict)
    body: Content = b""
    most: int = 0

    def pieces(self) -> Iterator[memoryview]:
        """Yield the body. Each piece has its own limit of silence."""
        view = memoryview(self.body)
        for start in range(0, len(view), _PIECE_BYTES):
            yield view[start : start + _PIECE_BYTES]


class Answer(NamedTuple):
    """The answer of a server.

    Attributes:
        headers: By name, in any case.
        digest: The MD5 of the body.
    """

    status: int
    headers: HTTPMessage
    body: bytes
    digest: str

    @property
    def text(self) -> str:
        """The status and the first line of the body."""
        return f"{self.status} {self.body[:400].decode('utf-8', 'replace').partition(chr(10))[0]}"


class Transport:
    """Requests to servers. Threads share it. A forked child gets its own connections.

    Args:
        token: What each request shows; "" for none.
        silence_s: Seconds without progress after which a request fails.
        tls_ca: The certificates that sign those of the servers, as PEM; "" for those of the machine.
    """

    def __init__(self, token: str, *, clock: Clock, silence_s: float, tls_ca: str = "") -> None:
        if not (token.isascii() and token.isprintable() and " " not in token):
            raise InvalidInputError("a token has printable characters of ASCII, and no spaces")
        self._headers = {"Authorization": f"Bearer {token}"} if token else {}
        self._clock = clock
        self._silence_s = silence_s
        self._tls_ca = tls_ca
        self._down: dict[str, datetime] = {}
        self._idle: dict[str, list[HTTPConnection]] = {}
        watch(self)
        if tls_ca:
            _ = self._context

    def after_fork_in_child(self) -> None:
        """Close the child's copies of the connections, which ends none of them."""
        self.close()

    def close(self) -> None:
        """Close the connections. Later requests open new ones."""
        idle, self._idle = self._idle, {}
        _close_all(idle)

    def is_down(self, server: Server) -> bool:
        """Return whether a server was silent a moment ago."""
        until = self._down.get(server.url)
        return until is not None and self._clock.now() < until

    def send(self, server: Server, request: Request) -> Answer:
        """Return the answer of a server.

        Raises:
            BackendUnavailableError: There was no complete answer.
            PermissionDeniedError: The certificate of the server is not trusted.
        """
        with self._failures(server, request):
            answer = self._sent(server, request)
        self._down.pop(server.url, None)
        return answer

    @contextmanager
    def stream(self, server: Server, request: Request) -> Iterator[tuple[Answer, Iterator[bytes]]]:
        """Yield an answer without its body, and the body as it comes. Errors are those of `send`."""
        with self._failures(server, request), closing(self._connected(server)) as connection:
            self._is_sent(connection, request)
            response = connection.getresponse()
            pieces = self._pieces(response, request.most)
            yield Answer(response.status, response.headers, b"", ""), pieces

    @contextmanager
    def _failures(self, server: Server, request: Request) -> Iterator[None]:
        """Turn the errors of a request into graveler's."""
        what = f"{request.method} {server.url}{request.path.partition('+')[0]}"
        try:
            yield
        except GravelerError:
            raise  # some of graveler's errors are OSErrors
        except ssl.SSLCertVerificationError as error:
            raise PermissionDeniedError(
                f"{what}: {error.verify_message}: renew it if its time is over, else give the certificates "
                "that sign it (`graveler keep trust SYSTEM FILE`)"
            ) from error
        except (OSError, HTTPException) as error:
            if isinstance(error, TimeoutError):
                self._down[server.url] = self._clock.now() + _DOWN
            reason = str(error) or type(error).__name__
            raise BackendUnavailableError(
                f"{what}: {reason}; check the server and the network, and repeat"
            ) from error

    def _sent(self, server: Server, request: Request) -> Answer:
        # a server closes idle connections when it likes, and all requests may be repeated
        with suppress(IndexError, ConnectionError, ssl.SSLError):
            idle = self._idle.setdefault(server.url, [])
            return self._exchanged(server, idle.pop(), request)
        return self._exchanged(server, self._connected(server), request)

    def _connected(self, server: Server) -> HTTPConnection:
        scheme, host, port = _place(server.url)
        patience_s = min(_CONNECT_S, self._silence_s)
        if scheme == "http":
            connection = HTTPConnection(host, port, timeout=patience_s)
            connection.connect()
        else:
            connection = HTTPSConnection(host, port, timeout=patience_s, context=self._context)
            with held_off:  # OpenSSL has locks of its own
                connection.connect()
        connection.sock.settimeout(self._silence_s)
        return connection

    @cached_property
    def _context(self) -> ssl.SSLContext:
        return trusting(self._tls_ca)

    def _exchanged(self, server: Server, connection: HTTPConnection, request: Request) -> Answer:
        is_kept, idle = False, self._idle
        try:
            is_sent = self._is_sent(connection, request)
            # a server writes or verifies a whole block before it answers
            block = min(BLOCK_BYTES, max(len(request.body), request.most))
            socket = connection.sock  # the connection forgets it if the server will close it
            socket.settimeout(self._silence_s + block / _SLOWEST_DISK)
            response = connection.getresponse()
            socket.settimeout(self._silence_s)
            body, digest = self._body(response, request.most)
            is_kept = is_sent and not response.will_close
            response.close()
            return Answer(response.status, response.headers, body, digest)
        finally:
            if is_kept:
                idle.setdefault(server.url, []).append(connection)
                if idle is not self._idle:  # closed meanwhile
                    _close_all(idle)
            else:
                connection.close()

    def _is_sent(self, connection: HTTPConnection, request: Request) -> bool:
        """Send a request. Return False if the server did not take all of it."""
        headers = {**self._headers, **request.headers}
        pieces = None
        if request.method in _WITH_BODY:
            headers["Content-Length"] = f"{len(request.body)}"
            pieces = request.pieces()
        try:
            connection.request(request.method, request.path, pieces, headers)
        except ConnectionError:  # the answer may have come before
            return False
        return True

    def _body(self, response: HTTPResponse, most: int) -> tuple[bytes, str]:
        """Return a body and its MD5, which is computed while the server sends more."""
        content, digest = io.BytesIO(), md5(usedforsecurity=False)
        for piece in self._pieces(response, max(most, _TEXT_BYTES)):
            content.write(piece)
            digest.update(piece)
        return content.getvalue(), digest.hexdigest()

    def _pieces(self, response: HTTPResponse, most: int) -> Iterator[bytes]:
        """Yield a body, of at most so many bytes, as it comes."""
        size = response.length
        if size is not None and size > most:
            raise HTTPException(f"the answer has {size} bytes, which is more than {most}")
        end = monotonic() + self._silence_s + (most if size is None else size) / _SLOWEST
        left = most + 1 if size is None else size
        # `read1` of Python 3.11 does not count what it returns
        while left and (piece := response.read1(min(left, _PIECE_BYTES))):
            left -= len(piece)
            yield piece
            if left and monotonic() > end:
                raise TimeoutError(f"less than {_SLOWEST} bytes a second")
        if size is None and not left:
            raise HTTPException(f"the answer has more than {most} bytes")
        if size is not None and left:
            raise HTTPException(f"the answer ends {left} bytes early")


def trusting(tls_ca: str) -> ssl.SSLContext:
    """Return what verifies servers by certificates as PEM, or by those of the machine."""
    try:
        with held_off:  # OpenSSL has locks of its own
            return ssl.create_default_context(cadata=tls_ca or None)
    except (OSError, TypeError) as error:
        raise InvalidInputError(
            f"tls_ca {tls_ca[:40]!r}… has no certificates as PEM: {error}"
        ) from error


def _close_all(idle: dict[str, list[HTTPConnection]]) -> None:
    for connections in list(idle.values()):
        with suppress(IndexError):
            while True:
                connections.pop().close()
