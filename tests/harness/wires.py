"""The connection between a store and its server, which a test can break."""

import socket
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from threading import Thread


def free_port() -> int:
    """Return a free port of this machine."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


class Wire:
    """A wire to the server that can be cut, at once or when the next reply comes, or double replies."""

    def __init__(self, server: Path | tuple[str, int]) -> None:
        self._server = server
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._ends: list[socket.socket] = []
        self._threads: list[Thread] = []
        self.port = self._listener.getsockname()[1]
        self.replies_to_lose = self.replies_to_double = 0
        self._start(self._accept)

    def cut(self) -> None:
        # close alone would not wake the accepting thread
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for end in self._ends:
            self._hang_up(end)

    def close(self) -> None:
        self.cut()
        for thread in self._threads:
            thread.join(timeout=60)
        for end in self._ends:
            end.close()

    def _start(self, work: Callable[..., None], *arguments: object) -> None:
        thread = Thread(target=work, args=arguments)
        self._threads.append(thread)
        thread.start()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                if isinstance(self._server, Path):
                    server = socket.socket(socket.AF_UNIX)
                    server.connect(str(self._server))
                else:
                    server = socket.create_connection(self._server)
                self._ends += [client, server]
                self._start(self._requests, client, server)
                self._start(self._replies, server, client)

    def _requests(self, client: socket.socket, server: socket.socket) -> None:
        with suppress(OSError):
            while request := client.recv(65536):
                server.sendall(request)
        self._hang_up(server)

    def _replies(self, server: socket.socket, client: socket.socket) -> None:
        with suppress(OSError):
            while reply := server.recv(65536):
                if self.replies_to_lose:
                    self.replies_to_lose -= 1
                    break
                if self.replies_to_double:
                    self.replies_to_double -= 1
                    reply *= 2
                client.sendall(reply)
        self._hang_up(client)
        self._hang_up(server)

    @staticmethod
    def _hang_up(end: socket.socket) -> None:
        with suppress(OSError):
            end.shutdown(socket.SHUT_RDWR)
