"""One connection: it reads, admits, carries out and answers requests."""

import io
import json
import re
import socket
import sys
from collections.abc import Callable
from contextlib import suppress
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler
from typing import TYPE_CHECKING, Any, BinaryIO, Final, cast
from urllib.parse import parse_qsl, unquote, urlsplit

from graveler.errors import CorruptionError, GravelerError
from graveler.gateway.bodies import ClientGoneError, RequestBody, request_body
from graveler.gateway.failures import ACCESS, ARGUMENT, IO, RemoteError
from graveler.gateway.heads import Stream, read_head
from graveler.gateway.operations import Answer, Request, operation
from graveler.gateway.tokens import GRANT
from graveler.privacy import printable

if TYPE_CHECKING:
    from graveler.gateway.server import Server

_PREFIX: Final = "/webhdfs/v1"
_IDLE_SECONDS: Final = 120.0
_ADMISSION_SECONDS: Final = 10.0
_PROGRESS_SECONDS: Final = 30.0
_DRAIN_SECONDS: Final = 5.0
_DRAINED_BYTES: Final = 1 << 20
_FORM_BYTES: Final = 4096
_BUFFER_BYTES: Final = 64 << 10
_MOST_PARAMETERS: Final = 64
_BROKEN_PERCENT: Final = re.compile(r"%(?![0-9A-Fa-f]{2})")
_OURS: Final = frozenset({"", "none"})


class Handler(BaseHTTPRequestHandler):
    """Answers the requests of one connection, one after the other."""

    protocol_version = "HTTP/1.1"
    default_request_version = (
        "HTTP/1.0"  # for text that is not a request: its answer has a status too
    )
    server_version = "graveler"
    sys_version = ""
    disable_nagle_algorithm = True
    server: "Server"
    _body: RequestBody | None = None
    _admitted = False

    def setup(self) -> None:
        """Open the streams of the connection."""
        super().setup()
        self._stream = Stream(self.connection, _PROGRESS_SECONDS)
        self.rfile = io.BufferedReader(self._stream, _BUFFER_BYTES)
        self.wfile = cast("Any", self._stream)

    def handle_one_request(self) -> None:
        """Wait for a request and answer it; the server learns whether a connection waits."""
        self.close_connection = True
        with suppress(ConnectionError, TimeoutError):
            self._stream.end_after(_IDLE_SECONDS if self._admitted else _ADMISSION_SECONDS)
            with self.server.connections.waiting(self.connection) as goes_on:
                first = goes_on and cast("Any", self.rfile).peek(1)
            if not first:
                return
            if self._admitted:
                self._stream.end_after(_ADMISSION_SECONDS)
            if self._read_request():
                getattr(self, f"do_{self.command}", self._refuse_method)()

    def _read_request(self) -> bool:
        """Read the head of a request; return whether there is one to answer."""
        self.command, self.requestline = "", ""
        self.request_version = self.default_request_version
        stream = self.rfile
        try:
            self.raw_requestline, fields = read_head(cast("BinaryIO", stream))
            self.rfile = io.BufferedReader(io.BytesIO(fields))
            return self.parse_request()
        except RemoteError as error:
            self._send(Answer.of(error))
            return False
        finally:
            self.rfile = stream
            if not self.command:
                self._linger()

    def _refuse_method(self) -> None:
        self.send_error(HTTPStatus.NOT_IMPLEMENTED, f"Unsupported method ({self.command!r})")
        self._linger()

    def do_GET(self) -> None:
        """Answer a GET."""
        self._answer()

    def do_PUT(self) -> None:
        """Answer a PUT."""
        self._answer()

    def do_POST(self) -> None:
        """Answer a POST."""
        self._answer()

    def do_DELETE(self) -> None:
        """Answer a DELETE."""
        self._answer()

    def _answer(self) -> None:
        try:
            answer = self._carry_out()
            if self._body is not None and not self._body.ended:
                self.close_connection = True
            self._send(answer)
            if self.close_connection and self._has_body():
                self._linger()
        except (ConnectionError, TimeoutError):
            self.close_connection = True

    def _has_body(self) -> bool:
        sent = any(name in self.headers for name in ("Content-Length", "Transfer-Encoding"))
        return sent and (self._body is None or not self._body.ended)

    def _linger(self) -> None:
        """Read what the client still sends for a while, so that it can read the answer."""
        self._stream.end_after(_DRAIN_SECONDS)
        left = _DRAINED_BYTES
        with suppress(OSError):
            self.connection.shutdown(socket.SHUT_WR)
            while left > 0 and (piece := cast("Any", self.rfile).read1(_BUFFER_BYTES)):
                left -= len(piece)

    def _carry_out(self) -> Answer:
        try:
            self._body = None
            closes, self.close_connection = self.close_connection, True  # after a wrong length
            self._body = request_body(self.headers, cast("BinaryIO", self.rfile), self._continue)
            self.close_connection = closes
            self._refuse_browsers()
            if (self.command, self.path) == ("POST", GRANT):
                return self._grant()
            request, run = self._read()
            return run(request)
        except RemoteError as error:
            return Answer.of(error)
        except GravelerError as error:
            if isinstance(error, CorruptionError):
                self.log_error("%s", error)
            return Answer.of(RemoteError.of(error))
        except ConnectionError:
            raise
        except Exception as error:  # noqa: BLE001 - the top level of a request
            self.server.report(error)
            told = f"{type(error).__name__} in the gateway: {error}"
            return Answer.of(RemoteError(IO, told, status=HTTPStatus.INTERNAL_SERVER_ERROR))

    def _read(self) -> tuple[Request, Callable[[Request], Answer]]:
        path, query = self._target()
        if not self.server.check.admits(query, self.headers.get("Authorization", "")):
            raise _refused()
        self._admit()
        run = operation(self.command, query.get("op", "").upper())
        namespace = self.server.namespace
        tree, below = namespace.at(path)
        return Request(tree, below, query, self._here(), namespace, self._body), run

    def _grant(self) -> Answer:
        form = b"" if self._body is None else self._body.read(_FORM_BYTES)
        granted = self.server.check.grant(form)
        if granted is None:
            raise _refused()
        self._admit()
        return Answer(granted)

    def _admit(self) -> None:
        """End the limits of what comes before the token."""
        if not self._admitted and not self.server.connections.admit(self.connection):
            raise ClientGoneError("there are too many connections")
        self._admitted = True
        self._stream.end_after(None)

    def handle_expect_100(self) -> bool:
        """Do nothing: the first read of the body answers, because a request may be refused before."""
        return True

    def _continue(self) -> None:
        if self.headers.get("Expect", "").lower() == "100-continue":
            self.wfile.write(b"HTTP/1.1 100 Continue\r\n\r\n")

    def _refuse_browsers(self) -> None:
        """Refuse a request that a browser sends for a page of another site."""
        site = self.headers.get("Sec-Fetch-Site", "")
        if self.headers.get("Origin") is not None or site not in _OURS:
            raise RemoteError(ACCESS, "the gateway does not answer requests of web pages")

    def _target(self) -> tuple[str, dict[str, str]]:
        """Return the path and the parameters.

        Raises:
            RemoteError: They are not text.
        """
        try:
            url = urlsplit(self.path)
            pairs = parse_qsl(
                url.query,
                keep_blank_values=True,
                errors="strict",
                max_num_fields=_MOST_PARAMETERS,
            )
            path = unquote(url.path, errors="strict")
        except ValueError as error:
            raise RemoteError(ARGUMENT, f"the address cannot be read: {error}") from None
        if _BROKEN_PERCENT.search(url.path):
            raise RemoteError(ARGUMENT, "a percent sign in the path is not followed by two digits")
        if path != _PREFIX and not path.startswith(f"{_PREFIX}/"):
            raise RemoteError(
                ARGUMENT, f"the path does not begin with {_PREFIX}: is the client one of WebHDFS?"
            )
        return path[len(_PREFIX) :], {name.lower(): value for name, value in pairs}

    def _here(self) -> str:
        """Return the address of the request, as seen by the client or by its proxy."""
        scheme = "https" if self.headers.get("X-Forwarded-Proto", "") == "https" else "http"
        return f"{scheme}://{self.headers.get('Host') or self.server.authority}{self.path}"

    def _send(self, answer: Answer) -> None:
        body = b"" if answer.document is None else json.dumps(answer.document).encode()
        download = answer.download
        # no Content-Type: Spark's client lacks a class that reads it
        self.send_response(answer.status, answer.reason or None)
        if answer.location:
            self.send_header("Location", answer.location)
        self.send_header("Content-Length", str(len(body) if download is None else download.length))
        self._finish_head(body)
        if download is None:
            return
        try:
            download.send(self.connection, cast("BinaryIO", self.wfile))
        except GravelerError as error:
            self.log_error("%s", error)  # the client sees an early end of the connection
            self.close_connection = True

    def _finish_head(self, body: bytes) -> None:
        """Send the head and the body together, because two packets would wait for each other."""
        if self.server.connections.closing:
            self.close_connection = True
        if self.close_connection:
            self.send_header("Connection", "close")
        buffer = cast("Any", self)._headers_buffer
        buffer.append(b"\r\n" + body)
        self.flush_headers()

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
        """Answer text that is not a request; http.server calls this."""
        del explain
        self.close_connection = True
        told = message or self.responses[HTTPStatus(code)][0]
        self._send(Answer.of(RemoteError(ARGUMENT, told, status=code)))

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - named by http.server
        """Write errors to the standard error stream."""
        sys.stderr.write(printable(f"graveler gateway: {format % args}") + "\n")

    def log_request(self, code: int | str = "-", size: int | str = "-") -> None:
        """Write nothing: addresses hold the token."""


def _refused() -> RemoteError:
    return RemoteError(
        ACCESS,
        "the token is missing or wrong: give it as the user's name (HADOOP_USER_NAME, user.name=) or "
        "as Authorization: Bearer",
        status=HTTPStatus.UNAUTHORIZED,
    )
