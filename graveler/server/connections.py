"""The limits on connections: how many there are, and how they end."""

import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from threading import Condition

_MOST_CONNECTIONS = 1_000
_MOST_STRANGERS = 200


class Connections:
    """The connections of a server: those that wait for a request, and those with an active request."""

    def __init__(self) -> None:
        self.closing = False
        self._changed = Condition()
        self._open: set[socket.socket] = set()
        self._strangers: dict[socket.socket, None] = {}
        self._idle: dict[socket.socket, None] = {}

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
        """Count a connection whose client has the token; return whether there is room for it.

        If there is none, the connection that has been idle for longest makes room.
        """
        with self._changed:
            self._strangers.pop(connection, None)
            if len(self._open) - len(self._strangers) <= _MOST_CONNECTIONS:
                return True
            idle = next((one for one in self._idle if one not in self._strangers), None)
            if idle is not None:
                del self._idle[idle]
                _shut(idle, socket.SHUT_RD)
            return idle is not None

    @contextmanager
    def waiting(self, connection: socket.socket) -> Iterator[bool]:
        """Note that a connection waits for a request; yield whether it may."""
        with self._changed:
            self._idle[connection] = None
            goes_on = not self.closing
        try:
            yield goes_on
        finally:
            with self._changed:
                self._idle.pop(connection, None)

    def wait(self, seconds: float) -> None:
        """Wait until a connection ends, or for this time."""
        with self._changed:
            self._changed.wait(seconds)

    def close(self, seconds: float | None) -> bool:
        """End each connection when its request ends; return whether all have ended in time."""
        with self._changed:
            self.closing = True
            for connection in self._idle:
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
