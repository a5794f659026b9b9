"""Keep servers in memory, on real sockets, whose answers a test chooses."""

import json
import re
import socket
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Event, Thread

from graveler.keep.transport import Server

WRONG, SHORT, HANG_UP, LOST, DRIP, OTHER, WHOLE = (
    *("wrong", "short", "hang up", "lost", "drip", "other", "whole"),
)


class StubServer(ThreadingHTTPServer):
    """A server. Each request takes the next fault: a status, a name above, or None for none."""

    def __init__(self, number: int, classes: str | None = None) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.server = Server(f"zzzzz-bi6l4-{number:015x}", f"http://127.0.0.1:{self.server_port}")
        self.classes = classes
        self.replicas: str | None = "1"
        self.going_on = Event()
        self.connections: list[socket.socket] = []
        self.reset()
        self.thread = Thread(target=self.serve_forever, args=(0.01,))
        self.thread.start()

    def reset(self) -> None:
        self.blocks: dict[str, bytes] = {}
        self.touched: set[str] = set()
        self.faults: deque[int | str | None] = deque()
        self.requests: list[tuple[str, str, dict[str, str]]] = []

    def process_request(self, request, client_address):
        self.connections.append(request)
        super().process_request(request, client_address)

    def handle_error(self, request, client_address):
        """Be silent: clients hang up here."""

    def hang_up(self) -> None:
        """Close all connections, as a server that restarts."""
        for connection in self.connections:
            with suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
        self.connections.clear()

    def kill(self) -> None:
        self.going_on.set()
        self.shutdown()
        self.server_close()
        self.hang_up()
        self.thread.join()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    server: StubServer

    def do_PUT(self) -> None:
        content = self.rfile.read(int(self.headers["Content-Length"]))
        digest = self.path[1:]
        fault = self._fault()
        if isinstance(fault, int):
            return self._answer(fault, b"refused\n")
        if fault in {None, LOST, OTHER}:
            self.server.blocks[digest] = content
        if fault not in {None, OTHER}:
            return self._hang_up()
        headers = {
            "X-Keep-Replicas-Stored": self.server.replicas,
            "X-Keep-Storage-Classes-Confirmed": self.server.classes,
        }
        stored = digest if fault is None else "0" * 32
        return self._answer(
            200, f"{stored}+{len(content)}+A{'a' * 40}@7fffffff\n".encode(), headers
        )

    def do_GET(self) -> None:
        fault = self._fault()
        digest = self.path[1:33]
        if isinstance(fault, int):
            return self._answer(fault, b"refused\n")
        if fault in {HANG_UP, LOST}:
            return self._hang_up()
        if digest not in self.server.blocks:
            return self._answer(404, b"not found\n")
        content = self.server.blocks[digest]
        wanted = re.fullmatch(r"bytes=(\d+)-(\d+)", self.headers.get("Range", ""))
        if wanted and fault != WHOLE:
            first, last = int(wanted[1]), int(wanted[2])
            place = {"Content-Range": f"bytes {first}-{last}/{len(content)}"}
            last -= fault == OTHER
            return self._answer(206, content[first : last + 1], place, fault)
        return self._answer(200, content, {}, fault)

    def do_HEAD(self) -> None:
        self.do_GET()

    def do_POST(self) -> None:
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        fault = self._fault()
        if isinstance(fault, int):
            return self._answer(fault, b"refused\n")
        if fault is not None:
            return self._hang_up() if fault != WRONG else self._answer(200, b"[]")
        if asked["touch"]:
            self.server.touched.update(asked["blocks"])
        missing = [digest for digest in asked["blocks"] if digest not in self.server.blocks]
        return self._answer(200, json.dumps({"missing": missing}).encode())

    def _fault(self) -> int | str | None:
        self.server.requests.append((self.command, self.path, dict(self.headers)))
        return self.server.faults.popleft() if self.server.faults else None

    def _hang_up(self) -> None:
        self.close_connection = True

    def _answer(self, status, body, headers=(), fault=None) -> None:
        self.send_response(status)
        for name, value in dict(headers).items():
            if value is not None:
                self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if fault == WRONG:
            body = bytes(len(body))
        if fault in {SHORT, DRIP}:
            self._hang_up()
            body = body[: len(body) // 2]
        if self.command != "HEAD":
            self.wfile.write(body)
        if fault == DRIP:
            self.server.going_on.wait()

    def log_message(self, *_: object) -> None:
        """Be silent."""


@contextmanager
def stub_servers(count: int) -> Iterator[list[StubServer]]:
    """Yield servers, which are killed at the end."""
    servers = [StubServer(number) for number in range(count)]
    try:
        yield servers
    finally:
        for server in servers:
            server.kill()
