"""SQL dialects: statements, options, errors, and the locks of a server for turns.

A lock belongs to a session of the server and ends with it.
"""

from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import lru_cache
from threading import Lock
from time import monotonic
from typing import NamedTuple

from sqlalchemy import Engine, TextClause, text
from sqlalchemy.engine import Connection
from sqlalchemy.exc import SQLAlchemyError

from graveler.errors import GravelerError
from graveler.kv.turns import Turns
from graveler.process import abandon, held_off, watch


class SessionLocks(NamedTuple):
    """How a kind of server locks a name for a session.

    Attributes:
        lock: Waits for at most the given seconds. Returns whether it has the lock.
        unlock: Releases the lock.
    """

    lock: Callable[[Connection, str, float], bool]
    unlock: Callable[[Connection, str], object]


class ServerTurns:
    """Turns of the threads of all processes that use the server.

    In each process, one thread at a time requests a name from the server. Turns have their own
    connections. Otherwise the holder of a turn could wait for a connection of a thread that waits
    for the turn.

    Args:
        connect: Makes the engine for the first turn. If its pool is exhausted, the block runs
            without the turn.
        locks: The locks of the server.
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
        """Hold the turn at `name` during the block, or run it without after `patience` seconds.

        The block also runs without the turn if the server does not answer.
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
        """Close the connections without a turn. The others close when their turn ends."""
        with self._making:
            self._closed = True
            if self._engine is not None:
                self._engine.dispose()

    def after_fork_in_child(self) -> None:
        """Discard the parent's connections without closing them."""
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
            pass  # turns are optional: without the server's lock the block runs without the turn
        finally:
            if connection is not None and not locked:
                _hang_up(connection)
        return connection if locked else None

    def _unlock(self, engine: Engine, connection: Connection, name: str) -> None:
        if engine is not self._engine:  # in a forked child: the parent unlocks
            abandon(connection)
            return
        unlocked = False
        try:
            self._locks.unlock(connection, name)
            unlocked = True
        except SQLAlchemyError:
            pass  # the end of the session also unlocks
        finally:
            if unlocked and not self._closed:
                connection.close()
            else:
                _hang_up(connection)  # the pool that would close it may be gone


def _hang_up(connection: Connection) -> None:
    with suppress(SQLAlchemyError):
        connection.invalidate()
        connection.close()


# The statements consist of constants.
# ruff: noqa: S608


@dataclass(frozen=True, slots=True)
class Statements:
    """The SQL statements of a dialect. Parameters look like ``:partition``."""

    get: TextClause
    set: TextClause
    set_absent: TextClause
    set_present: TextClause
    set_equal: TextClause
    delete: TextClause
    delete_equal: TextClause
    page: TextClause
    partition: TextClause
    drop: TextClause


def statements(*, quote: str, insert: str, upsert: str, absent: str, drop: str) -> Statements:
    """Return the statements of a dialect.

    Args:
        quote: The quotation mark for column names that are reserved words.
        insert: Writes a row that must not exist.
        upsert: The suffix of `insert` that replaces an existing row.
        absent: The suffix of `insert` that keeps an existing row.
        drop: Removes the first rows of a partition.
    """
    partition, key = f"{quote}partition{quote}", f"{quote}key{quote}"
    where = f" WHERE {partition} = :partition AND {key} = :key"
    update = f"UPDATE graveler_kv SET value = :value{where}"
    delete = f"DELETE FROM graveler_kv{where}"
    return Statements(
        get=text(f"SELECT value FROM graveler_kv{where}"),
        set=text(insert + upsert),
        set_absent=text(insert + absent),
        set_present=text(update),
        set_equal=text(f"{update} AND value = :predicate"),
        delete=text(delete),
        delete_equal=text(f"{delete} AND value = :predicate"),
        page=text(
            f"SELECT {key}, value FROM graveler_kv"
            f" WHERE {partition} = :partition AND {key} >= :start ORDER BY {key} LIMIT :limit"
        ),
        partition=text(
            f"SELECT {partition} FROM graveler_kv WHERE {partition} >= :start"
            f" ORDER BY {partition}, {key} LIMIT 1"
        ),
        drop=text(drop),
    )


@lru_cache(maxsize=256)
def get_many(quote: str, count: int) -> TextClause:
    """Return the statement of a dialect that reads the keys ``p0 k0``, ``p1 k1`` …."""
    partition, key = f"{quote}partition{quote}", f"{quote}key{quote}"
    # Each pair is one index lookup. For a list of pairs some servers scan the whole table.
    pairs = (f"({partition} = :p{number} AND {key} = :k{number})" for number in range(count))
    return text(f"SELECT {partition}, {key}, value FROM graveler_kv WHERE {' OR '.join(pairs)}")


@dataclass(frozen=True, slots=True)
class Dialect:
    """The properties of a kind of database.

    Attributes:
        name: Its name in messages: ``MySQL``.
        scheme: The scheme of its URLs.
        driver: SQLAlchemy's name of the database and the library.
        options: The options that the query of a URL may have.
        quote: The quotation mark for column names that are reserved words.
        sql: Its statements.
        locks: The server's locks for turns.
        needs_database: Whether a URL must name a database.
    """

    name: str
    scheme: str
    driver: str
    options: Collection[str]
    quote: str
    sql: Statements
    locks: SessionLocks
    needs_database: bool = False

    def get_many(self, count: int) -> TextClause:
        """Return the statement that reads `count` keys, the parameters ``p0``, ``k0``, ``p1`` …."""
        return get_many(self.quote, count)


class Failure(NamedTuple):
    """The meaning of an error of the database.

    Attributes:
        kind: The error for the caller.
        way_out: What the caller can do. It is appended to the message of the database.
        repeat: Whether repeating the statement may help, and is harmless.
        lost: Whether the connection is lost or was never made, so that the outcome of the
            statement is unknown.
    """

    kind: type[GravelerError]
    way_out: str = ""
    repeat: bool = False
    lost: bool = False
