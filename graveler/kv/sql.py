"""PostgreSQL, through SQLAlchemy and psycopg: many hosts on one lake.

Each operation is one statement in a transaction of its own: one round trip. A connection
that the server has closed meanwhile is noticed before it is used, so that "outcome
unknown" is left for what it means: the reply to a conditional write was lost.
"""

# What the methods do is said once, at the port.
# ruff: noqa: D102

from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager
from functools import partial
from typing import Any, Final, TypeVar

from graveler.clock import Clock, IdSource, RandomIds, SystemClock
from graveler.errors import (
    BackendUnavailableError,
    CorruptionError,
    GravelerError,
    InternalError,
    InvalidInputError,
    MissingDependencyError,
    OutcomeUnknownError,
    StateError,
    StorageFullError,
    ThrottledError,
)
from graveler.kv.batches import chunks, pages
from graveler.kv.forking import abandon, watch
from graveler.kv.predicates import changed, check_predicate, check_read_predicate
from graveler.kv.store import (
    ABSENT,
    PRESENT,
    KVStore,
    Predicate,
    Stored,
    check_key,
    check_partition,
)

try:
    import psycopg
    from sqlalchemy import Engine, create_engine, event, text
    from sqlalchemy.engine import URL, Connection, make_url
    from sqlalchemy.exc import ArgumentError, DBAPIError, DisconnectionError
    from sqlalchemy.exc import TimeoutError as PoolTimeoutError

    from graveler.kv.server_turns import ServerTurns, SessionLocks
except ImportError as error:
    raise MissingDependencyError(
        f'PostgreSQL needs {error.name}: pip install "graveler[postgres]"'
    ) from error

__all__ = ["PostgresKVStore"]

_T = TypeVar("_T")

_ATTEMPTS: Final = 4
_LONGEST_PAUSE: Final = 0.1
_DROP_AT_ONCE: Final = 10_000
_CREATION_LOCK: Final = 0x67726176656C6572  # "graveler", for pg_advisory_xact_lock
_SESSION: Final = "SET statement_timeout = '60s'"
_CONNECT: Final[dict[str, Any]] = {
    "connect_timeout": 10,
    # A peer that vanished without a word is given up after a minute, not after hours.
    "keepalives_idle": 30,
    "keepalives_interval": 10,
    "keepalives_count": 3,
    "tcp_user_timeout": 60_000,
    "application_name": "graveler",
}

_EXISTS: Final = text("SELECT to_regclass('graveler_kv') IS NOT NULL")
_LOCK: Final = text("SELECT pg_advisory_xact_lock(:lock)")
_CREATE: Final = text(
    'CREATE TABLE IF NOT EXISTS graveler_kv (partition text COLLATE "C" NOT NULL,'
    " key bytea NOT NULL, value bytea NOT NULL, PRIMARY KEY (partition, key))"
)
_GET: Final = text("SELECT value FROM graveler_kv WHERE partition = :partition AND key = :key")
_SET: Final = text(
    "INSERT INTO graveler_kv VALUES (:partition, :key, :value)"
    " ON CONFLICT (partition, key) DO UPDATE SET value = excluded.value"
)
_SET_MANY: Final = text(
    "INSERT INTO graveler_kv SELECT :partition, key, value"
    " FROM unnest(CAST(:keys AS bytea[]), CAST(:values AS bytea[])) AS item (key, value)"
    " ON CONFLICT (partition, key) DO UPDATE SET value = excluded.value"
)
_SET_ABSENT: Final = text(
    "INSERT INTO graveler_kv VALUES (:partition, :key, :value) ON CONFLICT DO NOTHING"
)
_SET_PRESENT: Final = text(
    "UPDATE graveler_kv SET value = :value WHERE partition = :partition AND key = :key"
)
_SET_EQUAL: Final = text(
    "UPDATE graveler_kv SET value = :value"
    " WHERE partition = :partition AND key = :key AND value = :predicate"
)
_DELETE: Final = text("DELETE FROM graveler_kv WHERE partition = :partition AND key = :key")
_DELETE_EQUAL: Final = text(
    "DELETE FROM graveler_kv WHERE partition = :partition AND key = :key AND value = :predicate"
)
_PAGE: Final = text(
    "SELECT key, value FROM graveler_kv WHERE partition = :partition AND key >= :start"
    " ORDER BY key LIMIT :limit"
)
_PARTITION: Final = text(
    "SELECT partition FROM graveler_kv WHERE partition >= :start ORDER BY partition LIMIT 1"
)
_DROP: Final = text(
    "DELETE FROM graveler_kv WHERE partition = :partition AND key IN"
    " (SELECT key FROM graveler_kv WHERE partition = :partition ORDER BY key LIMIT :limit)"
)
_TAKE_TURN: Final = text(
    "SELECT set_config('lock_timeout', :milliseconds, false),"
    " pg_advisory_lock(hashtextextended(:name, CAST('graveler_kv'::regclass AS bigint)))"
)
_GIVE_TURN: Final = text(
    "SELECT pg_advisory_unlock(hashtextextended(:name, CAST('graveler_kv'::regclass AS bigint)))"
)

_ROLLED_BACK: Final = frozenset({"40001", "40P01"})  # serialization failure, deadlock
_KINDS: Final[dict[str, tuple[type[GravelerError], str]]] = {
    "53100": (StorageFullError, "free space on the server's disk and repeat"),
    "XX001": (CorruptionError, "restore the database from a backup"),
    "XX002": (CorruptionError, "rebuild the index of graveler_kv"),
    "42501": (InvalidInputError, "grant it to the role"),
    "25006": (InvalidInputError, "give the URL of the server that takes writes"),
}
_TROUBLED: Final = frozenset({"53", "57", "58"})  # resources, the operator, the system
_NOT_READY: Final = frozenset({"57P01", "57P02", "57P03"})  # stopping, crashed, starting


class _BinaryCursor(psycopg.Cursor[Any]):
    """A cursor that fetches bytes as bytes, not as twice as many hex digits."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.format = psycopg.pq.Format.BINARY


class PostgresKVStore(KVStore):
    """A key-value store in the table ``graveler_kv``, made when missing.

    Args:
        url: ``postgresql://user:password@host:port/database``, with libpq's own parameters
            as its query.
        clock: Where pauses come from.
        ids: Where the jitter of the pauses comes from.

    Raises:
        InvalidInputError: The URL cannot be read, or the role may not make the table.
        BackendUnavailableError: The server does not answer.
    """

    def __init__(
        self, url: str, *, clock: Clock | None = None, ids: IdSource | None = None
    ) -> None:
        try:
            self._url = make_url(url).set(drivername="postgresql+psycopg")
        except (ArgumentError, ValueError) as error:
            # The URL stays out of the message: it may hold a password.
            raise InvalidInputError(
                "cannot read the PostgreSQL URL: give postgresql://user:password@host/database"
            ) from error
        host = self._url.host or self._url.query.get("host", "localhost")
        self._name = f"postgresql://{host}/{self._url.database or ''}"  # for messages: no secrets
        self._clock = clock or SystemClock()
        self._ids = ids or RandomIds(self._clock)
        self._closed = False
        self._engine = _engine(self._url)
        self._turns = ServerTurns(
            partial(_engine, self._url, timeout=0), SessionLocks(_take_turn, _give_turn)
        )
        try:
            self._create_table()
        except BaseException:
            self.close()
            raise
        watch(self)

    def get(self, partition: str, key: bytes) -> Stored | None:
        check_key(partition, key)
        value = self._run(
            lambda c: c.execute(_GET, {"partition": partition, "key": key}).scalar_one_or_none()
        )
        return None if value is None else Stored(value, value)

    def turn(self, name: str, patience: float) -> AbstractContextManager[bool]:
        self._check_open()
        return self._turns.take(name, patience)

    def set(self, partition: str, key: bytes, value: bytes) -> None:
        check_key(partition, key)
        self._write(_SET, partition=partition, key=key, value=value)

    def set_many(self, partition: str, items: Iterable[tuple[bytes, bytes]]) -> None:
        self._check_open()
        for chunk in chunks(partition, items):
            # One statement may touch a row once only; and who locks rows in the same order
            # as everybody else does not end in a deadlock.
            rows = sorted(dict(chunk).items())
            self._write(
                _SET_MANY,
                partition=partition,
                keys=[key for key, _ in rows],
                values=[value for _, value in rows],
            )

    def set_if(self, partition: str, key: bytes, value: bytes, predicate: Predicate) -> None:
        check_key(partition, key)
        check_predicate(predicate)
        parameters = {"partition": partition, "key": key, "value": value}
        if predicate is ABSENT:
            statement = _SET_ABSENT
        elif predicate is PRESENT:
            statement = _SET_PRESENT
        else:
            statement = _SET_EQUAL
            parameters["predicate"] = predicate
        written = self._run(lambda c: c.execute(statement, parameters).rowcount, conditional=True)
        if written != 1:
            raise changed(partition, key, predicate)

    def delete(self, partition: str, key: bytes) -> None:
        check_key(partition, key)
        self._write(_DELETE, partition=partition, key=key)

    def delete_if(self, partition: str, key: bytes, predicate: Predicate) -> None:
        check_key(partition, key)
        check_read_predicate(predicate)
        parameters = {"partition": partition, "key": key, "predicate": predicate}
        deleted = self._run(
            lambda c: c.execute(_DELETE_EQUAL, parameters).rowcount, conditional=True
        )
        if deleted != 1:
            raise changed(partition, key, predicate)

    def drop(self, partition: str) -> None:
        check_partition(partition)
        while self._write(_DROP, partition=partition, limit=_DROP_AT_ONCE) == _DROP_AT_ONCE:
            pass

    def scan(self, partition: str, start: bytes = b"") -> Iterator[tuple[bytes, bytes]]:
        check_partition(partition)
        self._check_open()

        def read(first: bytes, limit: int) -> list[tuple[bytes, bytes]]:
            parameters = {"partition": partition, "start": first, "limit": limit}
            return self._run(
                lambda c: [(row[0], row[1]) for row in c.execute(_PAGE, parameters).all()]
            )

        return pages(read, start)

    def partitions(self, prefix: str) -> Iterator[str]:
        self._check_open()
        start = prefix
        # From name to name by the index, however much lies between two of them.
        while True:
            parameters = {"start": start}
            name = self._run(lambda c: c.execute(_PARTITION, parameters).scalar_one_or_none())  # noqa: B023
            if name is None or not name.startswith(prefix):
                return
            yield name
            start = name + "\x01"  # a name holds no NUL

    def close(self) -> None:
        self._closed = True
        self._engine.dispose()
        self._turns.close()

    def after_fork_in_child(self) -> None:
        """Leave the parent's connections to it."""
        abandon(self._engine)
        self._engine = _engine(self._url)

    def _create_table(self) -> None:
        if self._run(lambda c: c.execute(_EXISTS).scalar_one()):
            return

        def create(connection: Connection) -> None:
            # Two that open an empty database at once: the second waits, then finds the table.
            transactional = connection.execution_options(isolation_level="READ COMMITTED")
            with transactional.begin():
                transactional.execute(_LOCK, {"lock": _CREATION_LOCK})
                transactional.execute(_CREATE)

        self._run(create)

    def _check_open(self) -> None:
        if self._closed:
            raise StateError(f"the store in {self._name} is closed: open it again")

    def _write(self, statement: Any, **parameters: Any) -> int:
        return self._run(lambda c: int(c.execute(statement, parameters).rowcount))

    def _run(self, work: Callable[[Connection], _T], *, conditional: bool = False) -> _T:
        """Do `work`, again where that is harmless and may help."""
        attempt = 1
        while True:
            self._check_open()
            sent = False
            try:
                with self._engine.connect() as connection:
                    sent = True
                    try:
                        return work(connection)
                    finally:
                        if self._closed:
                            # The pool that would have closed it is gone.
                            connection.invalidate()
            except (DBAPIError, PoolTimeoutError) as error:
                unknown = conditional and sent and _lost(error)
                if unknown or attempt == _ATTEMPTS or not _worth_repeating(error):
                    raise self._translated(error, unknown=unknown) from error
            self._clock.sleep(self._ids.jitter() * _LONGEST_PAUSE * attempt)
            attempt += 1

    def _translated(self, error: DBAPIError | PoolTimeoutError, *, unknown: bool) -> GravelerError:
        message = f"{self._name}: {getattr(error, 'orig', None) or error}"
        state = _state(error)
        if isinstance(error, PoolTimeoutError):
            return ThrottledError(f"{message}: use fewer threads")
        if unknown:
            return OutcomeUnknownError(f"{message}: the reply was lost, read back")
        if state in _KINDS:
            kind, way_out = _KINDS[state]
            return kind(f"{message}: {way_out}")
        if _lost(error) or state in _ROLLED_BACK or state[:2] in _TROUBLED:
            return BackendUnavailableError(message)
        return InternalError(f"{message} (SQLSTATE {state or 'none'})")


def _engine(url: URL, *, timeout: int = 30) -> Engine:
    arguments = {name: value for name, value in _CONNECT.items() if name not in url.query}
    engine = create_engine(
        url,
        isolation_level="AUTOCOMMIT",
        pool_size=4,
        max_overflow=12,
        pool_timeout=timeout,
        connect_args={**arguments, "cursor_factory": _BinaryCursor},
    )
    event.listen(engine, "connect", _on_connect)
    event.listen(engine, "checkout", _on_checkout)
    return engine


def _take_turn(connection: Connection, name: str, patience: float) -> bool:
    # No waiting at all would be no bound at all: 0 switches the timeout off.
    milliseconds = str(max(round(patience * 1000), 1))
    connection.execute(_TAKE_TURN, {"name": name, "milliseconds": milliseconds})
    return True


def _give_turn(connection: Connection, name: str) -> None:
    connection.execute(_GIVE_TURN, {"name": name})


def _on_connect(connection: Any, _record: Any) -> None:
    connection.execute(_SESSION)


def _on_checkout(connection: Any, _record: Any, _proxy: Any) -> None:
    try:
        # The first look takes in the server's farewell, the second meets the end.
        connection.pgconn.consume_input()
        connection.pgconn.consume_input()
    except psycopg.OperationalError as error:
        raise DisconnectionError from error


def _state(error: DBAPIError | PoolTimeoutError) -> str:
    return getattr(getattr(error, "orig", None), "sqlstate", None) or ""


def _lost(error: DBAPIError | PoolTimeoutError) -> bool:
    """Tell whether the connection is gone, or never came to be."""
    if not isinstance(error, DBAPIError):
        return False
    no_word = isinstance(error.orig, psycopg.OperationalError) and not _state(error)
    return error.connection_invalidated or no_word or _state(error) in _NOT_READY


def _worth_repeating(error: DBAPIError | PoolTimeoutError) -> bool:
    return _lost(error) or _state(error) in _ROLLED_BACK
