"""The gateway: a server with one thread for each connection."""

import socket
import socketserver
import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http.server import ThreadingHTTPServer
from ipaddress import ip_address
from threading import Condition, Thread
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Self

from graveler.errors import InvalidInputError
from graveler.gateway.handler import Handler
from graveler.gateway.namespace import Namespace
from graveler.gateway.tokens import TokenCheck, check_token, new_token

if TYPE_CHECKING:
    from graveler.lake import Lake

_LOCALHOST: Final = "127.0.0.1"
_MOST_CONNECTIONS: Final = 1_000
_MOST_STRANGERS: Final = 200
_GRACE_SECONDS: Final = 10.0
_POLL_SECONDS: Final = 0.1
_PROBE_SECONDS: Final = 60
"""Time without a packet after which the system checks that the other machine is alive."""


class Connections:
    """The connections of a server: those that wait for a request, and those with an active request.

    Attributes:
        closing: Whether the server stops; a connection then ends after its active request.
    """

    def __init__(self) -> None:
        self.closing = False
        self._changed = Condition()
        self._open: set[socket.socket] = set()
        self._strangers: dict[socket.socket, None] = {}
        self._waiting: set[socket.socket] = set()

    @contextmanager
    def opened(self, connection: socket.socket) -> Iterator[None]:
        """Count a connection for a block. Of too many strangers, the oldest one is ended."""
        with self._changed:
            self._open.add(connection)
            self._strangers[connection] = None
            if len(self._strangers) > _MOST_STRANGERS:
                _shut(next(iter(self._strangers)), socket.SHUT_RDWR)
                del self._strangers[next(iter(self._strangers))]
        try:
            yield
        finally:
            with self._changed:
                self._open.discard(connection)
                self._strangers.pop(connection, None)
                self._changed.notify_all()

    def admit(self, connection: socket.socket) -> bool:
        """Count a connection whose client has the token; return whether there is room for it."""
        with self._changed:
            self._strangers.pop(connection, None)
            return len(self._open) - len(self._strangers) <= _MOST_CONNECTIONS

    @contextmanager
    def waiting(self, connection: socket.socket) -> Iterator[bool]:
        """Note that a connection waits for a request; yield whether it may."""
        with self._changed:
            self._waiting.add(connection)
            goes_on = not self.closing
        try:
            yield goes_on
        finally:
            with self._changed:
                self._waiting.discard(connection)

    def close(self, seconds: float | None) -> bool:
        """End each connection when its request ends; return whether all have ended in time.

        Args:
            seconds: How long to wait for active requests; None for as long as they take.
        """
        with self._changed:
            self.closing = True
            for connection in self._waiting:
                _shut(connection, socket.SHUT_RD)
            for connection in self._strangers:
                _shut(connection, socket.SHUT_RDWR)
            return self._changed.wait_for(lambda: not self._open, seconds)

    def cut(self) -> None:
        """End all connections at once."""
        with self._changed:
            for connection in self._open:
                _shut(connection, socket.SHUT_RDWR)


def _shut(connection: socket.socket, how: int) -> None:
    with suppress(OSError):
        connection.shutdown(how)


class Server(ThreadingHTTPServer):
    """The HTTP server.

    Attributes:
        namespace: The trees.
        check: Compares tokens.
        connections: Its connections.
    """

    daemon_threads = True
    block_on_close = False
    request_queue_size = 128

    def __init__(self, host: str, port: int, namespace: Namespace, check: TokenCheck) -> None:
        self.namespace = namespace
        self.check = check
        self.connections = Connections()
        if ":" in host:
            self.address_family = socket.AF_INET6
        super().__init__((host, port), Handler)

    def server_bind(self) -> None:
        """Bind without asking a name server for the name of the machine."""
        socketserver.TCPServer.server_bind(self)
        self.server_name, self.server_port = self.server_address[:2]  # type: ignore[assignment]

    @property
    def authority(self) -> str:
        """Host and port as in an address."""
        host = str(self.server_address[0])
        return f"[{host}]:{self.server_port}" if ":" in host else f"{host}:{self.server_port}"

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        """Answer a connection in its thread."""
        with suppress(OSError):  # the client is gone already
            request.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
            if hasattr(socket, "TCP_KEEPIDLE"):
                request.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, _PROBE_SECONDS)
        with self.connections.opened(request):
            super().process_request_thread(request, client_address)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Report an unexpected error of a thread."""
        del request, client_address
        error = sys.exception()
        if error is not None and not isinstance(error, ConnectionError):
            self.report(error)

    def report(self, error: BaseException) -> None:
        """Write an unexpected error to the standard error stream."""
        sys.stderr.write("".join(traceback.format_exception(error)))


class Gateway:
    """A lake as a file system for Hadoop clients, while it is open.

    The gateway does not close the lake.

    Args:
        lake: The lake.
        host: Address to listen at; an address that other machines reach needs a token.
        port: Port; 0 for a free one.
        token: The token that clients must send; "" for a new one.
        read_only: Whether all writes are refused.
        commit_on_success: Whether the staged writes below a folder are committed when a job marks
            its success there with a file ``_SUCCESS``.

    Attributes:
        token: The token that clients must send.

    Raises:
        InvalidInputError: The token cannot be sent, or other machines reach the host and no token
            is given, or the gateway cannot listen at the address.
    """

    def __init__(
        self,
        lake: "Lake",
        *,
        host: str = _LOCALHOST,
        port: int = 0,
        token: str = "",
        read_only: bool = False,
        commit_on_success: bool = False,
    ) -> None:
        if not (token or _is_loopback(host)):
            raise InvalidInputError(
                f"host {host!r} is reached by other machines: give a token, which is what keeps "
                "them out"
            )
        self.token = check_token(token) if token else new_token()
        namespace = Namespace(lake, read_only=read_only, commits_on_success=commit_on_success)
        try:
            self._server = Server(host, port, namespace, TokenCheck(self.token))
        except (OSError, OverflowError) as error:
            raise InvalidInputError(f"cannot listen at {host}:{port}: {error}") from error
        self._thread = Thread(
            target=self._server.serve_forever,
            args=(_POLL_SECONDS,),
            name="graveler-gateway",
            daemon=True,
        )
        self._thread.start()

    @property
    def address(self) -> str:
        """The address of the lake, ``webhdfs://host:port/``."""
        return f"webhdfs://{self._server.authority}/"

    def close(self, *, seconds: float | None = None) -> bool:
        """Accept no new requests, and let active requests end; may be called again.

        Args:
            seconds: How long to wait for active requests; None for as long as they take.

        Returns:
            Whether all of them ended.
        """
        if not self._server.connections.closing:
            self._server.shutdown()
            self._server.server_close()
        return self._server.connections.close(seconds)

    def cut(self) -> None:
        """End all active requests at once."""
        self._server.connections.cut()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if not self.close(seconds=_GRACE_SECONDS):
            self.cut()
            self.close(seconds=_GRACE_SECONDS)


def _is_loopback(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
