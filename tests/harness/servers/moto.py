"""A real S3 server for tests, in this process, that fails on request.

The server is moto's (``pip install "moto[server]"``). A WSGI layer in front of it counts the requests,
injects wrong replies, and makes conditional writes atomic as on S3. moto checks and writes in two
steps, and ignores If-Match when a multipart upload is completed.
"""

import io
import socket
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, NoReturn, Self

from moto.core.models import DEFAULT_ACCOUNT_ID
from moto.moto_server.werkzeug_app import (
    DomainDispatcherApplication,
    MotoRequestHandler,
    create_backend_app,
)
from moto.s3.models import S3Backend, s3_backends
from werkzeug.serving import make_server

_App = Callable[[dict[str, Any], Callable[..., Any]], Iterable[bytes]]


class Fault(StrEnum):
    """The faults of a request."""

    NOTHING = "all is well"
    INTERNAL_ERROR = "500, and nothing was done"
    SLOW_DOWN = "503, and nothing was done"
    CONFLICT = "409, as for two writes at the same time, and nothing was done"
    OVERTAKEN = "412, and nothing was done"
    DENIED = "403, and nothing was done"
    ERROR_AFTER = "500, although it was done"
    LOST_REQUEST = "the connection breaks before anything is done"
    LOST_REPLY = "the connection breaks after it was done"
    HALF_BODY = "half of the reply comes, then the connection breaks"


_REFUSALS = {
    Fault.INTERNAL_ERROR: ("500 Internal Server Error", "InternalError"),
    Fault.SLOW_DOWN: ("503 Service Unavailable", "SlowDown"),
    Fault.CONFLICT: ("409 Conflict", "ConditionalRequestConflict"),
    Fault.OVERTAKEN: ("412 Precondition Failed", "PreconditionFailed"),
    Fault.DENIED: ("403 Forbidden", "AccessDenied"),
    Fault.ERROR_AFTER: ("500 Internal Server Error", "InternalError"),
}


def moto_s3() -> S3Backend:
    """Return the objects of the server, to read and write them without requests."""
    backend: S3Backend = s3_backends[DEFAULT_ACCOUNT_ID]["aws"]
    return backend


@dataclass(slots=True)
class Faults:
    """A fault for the next requests, and the requests that came while it was set.

    Attributes:
        fault: The fault.
        times: Number of further requests that it hits; None for all.
        concerns: Returns whether it may hit a request such as ``PUT /bucket/key?query``.
        requests: The requests that it may have hit, in order.
    """

    fault: Fault
    times: int | None
    concerns: Callable[[str], bool]
    requests: list[str] = field(default_factory=list)

    def strike(self, request: str) -> Fault | None:
        """Return the fault of this request, or None."""
        if not self.concerns(request):
            return None
        self.requests.append(request)
        if self.times is None:
            return self.fault
        if self.times:
            self.times -= 1
            return self.fault
        return None


class S3Server:
    """The server as a context manager; its stores live as long as the process.

    Attributes:
        endpoint: Its URL.
    """

    def __init__(self) -> None:
        self._moto: _App = DomainDispatcherApplication(create_backend_app)
        self._one_at_a_time = threading.Lock()
        self._faults: Faults | None = None
        self._server = make_server(
            "127.0.0.1", 0, self._answer, threaded=True, request_handler=_QuietHandler
        )
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)
        self.endpoint = f"http://127.0.0.1:{self._server.server_address[1]}"

    @contextmanager
    def failing(
        self,
        fault: Fault,
        *,
        times: int | None = 1,
        concerns: Callable[[str], bool] = lambda _: True,
    ) -> Iterator[Faults]:
        """Let requests fail within the block."""
        self._faults = Faults(fault, times, concerns)
        try:
            yield self._faults
        finally:
            self._faults = None

    @contextmanager
    def watching(self) -> Iterator[list[str]]:
        """Yield a list of the requests that come within the block: ``PUT /bucket/key?query``."""
        with self.failing(Fault.NOTHING) as faults:
            yield faults.requests

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    def _answer(
        self, environ: dict[str, Any], start_response: Callable[..., Any]
    ) -> Iterable[bytes]:
        # read the whole request first, because a client that is still sending sees no reply
        content = environ["wsgi.input"].read(int(environ.get("CONTENT_LENGTH") or 0))
        environ["wsgi.input"] = io.BytesIO(content)
        query = f"?{environ['QUERY_STRING']}" if environ["QUERY_STRING"] else ""
        request = f"{environ['REQUEST_METHOD']} {environ['PATH_INFO']}{query}"
        with self._one_at_a_time:
            fault = self._faults.strike(request) if self._faults else None
            if fault is Fault.LOST_REQUEST:
                _hang_up(environ, fault)
            if fault in _REFUSALS and fault is not Fault.ERROR_AFTER:
                return _refuse(fault, start_response)
            if _overtaken(environ):
                return _refuse(Fault.OVERTAKEN, start_response)
            reply = b"".join(self._moto(environ, start_response))
        if fault is Fault.LOST_REPLY:
            _hang_up(environ, fault)
        if fault is Fault.ERROR_AFTER:
            return _refuse(fault, start_response)
        if fault is Fault.HALF_BODY:
            return [reply[: len(reply) // 2]]
        return [reply]


def _hang_up(environ: dict[str, Any], fault: Fault) -> NoReturn:
    # the server itself would keep the connection for the next request
    environ["werkzeug.socket"].shutdown(socket.SHUT_RDWR)
    raise ConnectionResetError(fault)


def _overtaken(environ: dict[str, Any]) -> bool:
    """Return whether the request completes an upload over a version that it does not name."""
    expected = environ.get("HTTP_IF_MATCH")
    if environ["REQUEST_METHOD"] != "POST" or expected is None:
        return False
    _, bucket, key = environ["PATH_INFO"].split("/", 2)
    stored = moto_s3().get_object(bucket, key)
    return stored is None or stored.etag != expected


def _refuse(fault: Fault, start_response: Callable[..., Any]) -> Iterable[bytes]:
    status, code = _REFUSALS[fault]
    body = f"<Error><Code>{code}</Code><Message>{fault}</Message></Error>".encode()
    headers = [("Content-Type", "application/xml"), ("Content-Length", str(len(body)))]
    start_response(status, headers)
    return [body]


class _QuietHandler(MotoRequestHandler):
    """A handler that does not log requests."""

    def log_request(self, code: int | str = "-", size: int | str = "-") -> None:
        """Do nothing."""
