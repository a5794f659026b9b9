"""Turns by locks of a database server that belong to a session, and die with it."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from threading import Lock
from time import monotonic
from typing import NamedTuple

from sqlalchemy import Engine
from sqlalchemy.engine import Connection
from sqlalchemy.exc import SQLAlchemyError

from graveler.kv.turns import Turns
from graveler.process import abandon, held_off, watch


class SessionLocks(NamedTuple):
    """How a kind of server locks a name for a session.

    Attributes:
        lock: Waits for at most so many seconds; returns whether it has the lock.
        unlock: Releases it.
    """

    lock: Callable[[Connection, str, float], bool]
    unlock: Callable[[Connection, str], object]


class ServerTurns:
    """Turns of the threads of all processes that use the server.

    Each process sends one thread at a time for each name. Turns have connections of their own,
    so that a thread that has the turn does not wait for a connection of one that waits for it.

    Args:
        connect: Makes the engine for the first turn. If its pool is exhausted, the block runs
            without the turn.
        locks: What the server has.
    """

    def __init__(self, connect: Callable[[], Engine], locks: SessionLocks) -> None:
        self._connect = connect
        self._locks = locks
        self._threads = Turns()
        self._making = Lock()
        self._engine: Engine | None = None
        self._closed = False
        watch(self)

    @contextmanager
    def take(self, name: str, patience: float) -> Iterator[bool]:
        """Hold the turn at `name` during the block, or go without after `patience` seconds.

        Goes without, too, where the server does not answer.
        """
        deadline = monotonic() + patience
        with self._threads.take(name, patience) as first:
            engine = self._engine_made()
            connection = self._lock(engine, name, deadline) if first else None
            try:
                yield connection is not None
            finally:
                if connection is not None:
                    self._unlock(engine, connection, name)

    def close(self) -> None:
        """Close the connections that hold no turn; the others when it is given back."""
        with self._making:
            self._closed = True
            if self._engine is not None:
                self._engine.dispose()

    def after_fork_in_child(self) -> None:
        """Leave the parent's connections to it."""
        if self._engine is not None:
            abandon(self._engine)
        self._engine = None
        self._making = Lock()

    def _engine_made(self) -> Engine:
        with self._making:
            if self._engine is None:
                self._engine = self._connect()
            return self._engine

    def _lock(self, engine: Engine, name: str, deadline: float) -> Connection | None:
        connection = None
        locked = False
        try:
            with held_off:
                connection = engine.connect()
            locked = self._locks.lock(connection, name, max(deadline - monotonic(), 0.0))
        except SQLAlchemyError:
            pass  # a turn is a favour: what the server does not grant is done without
        finally:
            if connection is not None and not locked:
                _hang_up(connection)
        return connection if locked else None

    def _unlock(self, engine: Engine, connection: Connection, name: str) -> None:
        if engine is not self._engine:  # this is a fork: the parent will unlock
            abandon(connection)
            return
        unlocked = False
        try:
            self._locks.unlock(connection, name)
            unlocked = True
        except SQLAlchemyError:
            pass  # the end of the session unlocks as well
        finally:
            if unlocked and not self._closed:
                connection.close()
            else:
                _hang_up(connection)  # the pool that would have closed it may be gone


def _hang_up(connection: Connection) -> None:
    with suppress(SQLAlchemyError):
        connection.invalidate()
        connection.close()
