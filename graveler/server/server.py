"""The server: a listener with a thread for each connection, and how its connections end."""

import socket
import ssl
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from ipaddress import ip_address
from socketserver import BaseRequestHandler, ThreadingTCPServer
from threading import Thread
from typing import Any, Self

from graveler.base.arguments import count, flag, instance, text
from graveler.config import environment
from graveler.errors import InvalidInputError
from graveler.iam.access import Access
from graveler.iceberg.engines import RestCatalog
from graveler.lake import Lake
from graveler.lake.shared import lake_at, location_of
from graveler.reads.view import Ref
from graveler.repository.branch import Branch
from graveler.server.application import Application
from graveler.server.connection import Connection
from graveler.server.connections import Connections
from graveler.server.iceberg import Iceberg
from graveler.server.tokens import TOKEN_VARIABLE, TokenCheck, check_token, new_token
from graveler.server.webhdfs import WebHdfs

LOCALHOST = "127.0.0.1"
_GRACE_SECONDS = 8.0
_CUT_SECONDS = 1.0
_POLL_SECONDS = 0.1
_HANDSHAKE_SECONDS = 10.0


class Listener(ThreadingTCPServer):
    """Accepts connections and answers each one in its thread."""

    allow_reuse_address = True
    daemon_threads = True
    block_on_close = False
    request_queue_size = 128

    def __init__(
        self, host: str, port: int, application: Application, tls: ssl.SSLContext | None
    ) -> None:
        self.application = application
        self._tls = tls
        self.connections = Connections()
        if ":" in host:
            self.address_family = socket.AF_INET6
        super().__init__((host, port), BaseRequestHandler)

    def get_request(self) -> tuple[Any, Any]:
        """Accept a connection. Without a descriptor for it, wait a moment: it stays in the queue."""
        try:
            return super().get_request()
        except OSError:
            self.connections.wait(_POLL_SECONDS)
            raise

    def finish_request(self, request: Any, client_address: Any) -> None:
        """Answer the requests of a connection."""
        del client_address
        if self._tls is None:
            self._answer(request)
            return
        request.settimeout(_HANDSHAKE_SECONDS)
        with (
            suppress(OSError),
            self._tls.wrap_socket(
                request, server_side=True, do_handshake_on_connect=False
            ) as wrapped,
        ):
            with self.connections.opened(wrapped):
                wrapped.do_handshake()
            self._answer(wrapped)

    def _answer(self, connection: socket.socket) -> None:
        Connection(connection, self.application, self.connections, self.authority).serve()

    @property
    def authority(self) -> str:
        """Host and port as in an address."""
        host, port = self.server_address[:2]
        return f"[{host!s}]:{port}" if ":" in str(host) else f"{host!s}:{port}"


class Service:
    """An application that is served, while the service is open.

    Args:
        tls: The certificate, for connections with TLS; None for connections without.

    Raises:
        InvalidInputError: The service cannot listen at the address.
    """

    def __init__(
        self, application: Application, host: str, port: int, tls: ssl.SSLContext | None = None
    ) -> None:
        try:
            self._listener = Listener(host, port, application, tls)
        except (OSError, OverflowError) as error:
            raise InvalidInputError(
                f"cannot listen at {host}:{port}: {error}; choose another address or port"
            ) from error
        self._thread = Thread(
            target=self._listener.serve_forever,
            args=(_POLL_SECONDS,),
            name="graveler-server",
            daemon=True,
        )
        self._thread.start()

    @property
    def authority(self) -> str:
        """Host and port as in an address."""
        return self._listener.authority

    def close(self, *, seconds: float | None = _GRACE_SECONDS) -> bool:
        """Accept no new requests, and let active requests end; may be called again.

        Args:
            seconds: How long to wait for active requests; None for as long as they take.

        Returns:
            Whether all of them ended.
        """
        if not self._listener.connections.closing:
            self._listener.shutdown()
            self._listener.server_close()
        return self._listener.connections.close(seconds)

    def cut(self) -> None:
        """End all active requests at once, and wait a moment for their threads."""
        self._listener.connections.cut()
        self.close(seconds=_CUT_SECONDS)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if not self.close():
            self.cut()


class Server(Service):
    """A lake that is served, while the server is open.

    The server does not close the lake.

    Args:
        lake: The lake.
        host: Address to listen at; an address that other machines reach needs a token.
        port: Port; 0 for a free one.
        token: The token that clients must send while the lake has no users; "" for a new one.
        read_only: Whether all writes are refused.
        commit_on_success: Whether the staged writes below a folder are committed when a job marks
            its success there with a file ``_SUCCESS``.

    Attributes:
        token: The token that clients must send while the lake has no users.

    Raises:
        InvalidInputError: An argument is of the wrong kind, the token cannot be sent, or other machines reach the host and no token
            is given, or the server cannot listen at the address.
    """

    def __init__(
        self,
        lake: Lake,
        *,
        host: str = LOCALHOST,
        port: int = 0,
        token: str = "",
        read_only: bool = False,
        commit_on_success: bool = False,
    ) -> None:
        instance(lake, "lake", Lake, "a lake")
        access = lake.iam.access
        self.token = chosen_token(token, text(host, "host", empty=True), access)
        tree = WebHdfs(
            lake,
            read_only=flag(read_only, "read_only"),
            commits_on_success=flag(commit_on_success, "commit_on_success"),
        )
        tables = Iceberg(lake, read_only=read_only)
        count(port, "port")
        check = TokenCheck(self.token, access)
        super().__init__(Application(check, [tree, tables]), host, port)

    @property
    def address(self) -> str:
        """The address of the lake, ``webhdfs://host:port/``."""
        return f"webhdfs://{self.authority}/"

    @property
    def iceberg(self) -> str:
        """The address of Iceberg's catalogs, ``http://host:port/iceberg``; the warehouse names the ref."""
        return f"http://{self.authority}{Iceberg.prefix}"


@contextmanager
def rest_catalog(view: Branch | Ref, *, uri: str = "", token: str = "") -> Iterator[RestCatalog]:
    """Give engines the catalog of a ref over REST, for a ``with`` block.

    ::

        with rest_catalog(run) as catalog:
            spark = session(config=catalog.spark("lake"))
            load_catalog("lake", **catalog.pyiceberg()).load_table("db.flights")

    Without the address of a server, one runs for this machine until the end of the block. It does not
    commit or join: that is for the owner of the run or the step.

    Args:
        view: A branch, also that of a run or a step, to which engines then write as the run, or a ref.
        uri: The address of a server's catalogs, as `Server.iceberg`; by default ``GRAVELER_ICEBERG``.
        token: Its token, or that of a user, which is needed if the lake has users; by default
            ``GRAVELER_GATEWAY_TOKEN``.

    Raises:
        InvalidInputError: A token is needed.
    """
    uri, token = uri or environment("GRAVELER_ICEBERG"), token or environment(TOKEN_VARIABLE)
    if uri:
        yield RestCatalog.of(view, uri, token)
        return
    lake = lake_at(location_of(view.repository.location))
    if lake.iam.access.has_users() and not token:
        raise InvalidInputError(
            "the lake has users: give a token of one of them (`graveler token create USER`)"
        )
    with Server(lake) as server:
        yield RestCatalog.of(
            view, server.iceberg, token if lake.iam.access.has_users() else server.token
        )


def chosen_token(given: str, host: str, access: Access) -> str:
    """Return the token of a server of a lake: the given one, or a new one if that is safe."""
    if not (given or is_loopback(host) or access.has_users()):
        raise InvalidInputError(
            f"host {host!r} is reached by other machines: give a token, which is what keeps "
            "them out, or make users: `graveler user create NAME`"
        )
    return check_token(given) if given else new_token()


def is_loopback(host: str) -> bool:
    """Return whether only this machine reaches an address."""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
