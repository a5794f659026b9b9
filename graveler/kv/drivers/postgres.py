"""PostgreSQL through SQLAlchemy and psycopg: many hosts can share a lake."""

# The statements consist of constants.
# ruff: noqa: S608

import re
from collections.abc import Generator
from contextlib import ExitStack
from time import monotonic
from typing import Any, ClassVar

from graveler.base.retries import NO_PROGRESS_S
from graveler.errors import (
    BackendUnavailableError,
    CorruptionError,
    InternalError,
    InvalidInputError,
    MissingDependencyError,
    PermissionDeniedError,
    StorageFullError,
    ThrottledError,
)

try:
    import psycopg
    from sqlalchemy import Engine, event, text
    from sqlalchemy.exc import DBAPIError, DisconnectionError

    from graveler.kv.drivers.sql import Failure, SQLKVStore, Statements
    from graveler.kv.turns import PARTITION as TURNS
except ImportError as error:
    raise MissingDependencyError(
        f'PostgreSQL needs {error.name}: pip install "graveler[postgres]"'
    ) from error


# A write sets these for its own transaction, in the same statement: a pooler gives each transaction
# another session. PostgreSQL keeps a derived table with functions that have effects.
_SETTINGS = "(SELECT set_config('lock_timeout', '{lock:.0f}ms', true){waiting}) AS setting"
# Overrides the settings of the database and the role: a commit is acknowledged once it is on disk.
# A queue of turns may be lost in a crash, which ends those that wait in it, too.
_WAITING = (
    f", set_config('synchronous_commit', CASE WHEN :partition = '{TURNS}' THEN 'off'"
    " WHEN current_setting('synchronous_commit') = 'remote_apply' THEN 'remote_apply'"
    " ELSE 'on' END, true)"
)
_SESSION = "SELECT pg_backend_pid()"
# A write sets the time that it waits for a row. It waits for the table before, for which only the
# session can set a time. The server ends a session that was idle for a minute (PostgreSQL 14 and
# later), so that pools shrink.
_OWN = (
    "SELECT set_config(name, own.value, false) FROM pg_settings JOIN (VALUES"
    " ('lock_timeout', '{lock:.0f}'), ('statement_timeout', '{statement:.0f}'),"
    " ('idle_session_timeout', '60s')) AS own (name, value) USING (name)"
)
_CONNECT: dict[str, Any] = {
    # An idle connection to a lost peer ends after a minute, not after hours.
    "keepalives_idle": 30,
    "keepalives_interval": 10,
    "keepalives_count": 3,
    "application_name": "graveler",
    # In a database without an encoding (SQL_ASCII), texts would be read as bytes.
    "client_encoding": "utf8",
}

_EXISTS = text("SELECT to_regclass('graveler_kv') IS NOT NULL")
_UNSAFE = text(
    "SELECT name || ' is off, not on' FROM pg_settings"
    " WHERE name IN ('fsync', 'full_page_writes') AND setting = 'off' UNION ALL"
    " SELECT 'graveler_kv is unlogged, not logged' FROM pg_class"
    " WHERE oid = to_regclass('graveler_kv') AND relpersistence <> 'p'"
)
# A single table. Measured with 200,000 rows, 16 or 100 hash partitions make a page of a scan 1.6 to
# 5 times slower, and nothing faster.
_CREATE = text(
    'CREATE TABLE IF NOT EXISTS graveler_kv (partition text COLLATE "C" NOT NULL,'
    " key bytea NOT NULL, value bytea NOT NULL, PRIMARY KEY (partition, key))"
)
_SET_MANY = (
    "INSERT INTO graveler_kv SELECT :partition, key, value"
    " FROM unnest(CAST(:keys AS bytea[]), CAST(:values AS bytea[])) AS item (key, value)"
)
_UPSERT = " ON CONFLICT (partition, key) DO UPDATE SET value = excluded.value"

_READ_ONLY = "25006"
_NO_ROOM = Failure(StorageFullError, "free space on the server's disk and repeat")
_DENIED = Failure(PermissionDeniedError, "grant it to the role")
_KINDS = {
    "53100": _NO_ROOM,
    "53300": Failure(ThrottledError, "the server has no connection left", repeat=True),
    "XX001": Failure(CorruptionError, "restore the database from a backup"),
    "XX002": Failure(CorruptionError, "rebuild the index of graveler_kv"),
    "42501": _DENIED,
    "22P05": Failure(InvalidInputError, "use a database with the encoding UTF8"),
    "3F000": Failure(InvalidInputError, "make a schema that is on the role's search_path"),
    _READ_ONLY: Failure(
        InvalidInputError, "give the URL of the server that takes writes", repeat=True
    ),
    # Serialization failure, deadlock, lock timeout: nothing was executed.
    "40001": Failure(BackendUnavailableError, repeat=True),
    "40P01": Failure(BackendUnavailableError, repeat=True),
    "55P03": Failure(BackendUnavailableError, repeat=True),
    # Another process has made the table at the same moment.
    "23505": Failure(BackendUnavailableError, repeat=True),
}
_GONE = Failure(BackendUnavailableError, repeat=True, lost=True)
_TROUBLED = frozenset({"53", "57", "58"})  # resources, the operator, the system
# The server is stopping, crashed or starting, or ends a session that took too long.
_ENDED = frozenset({"57P01", "57P02", "57P03", "25P03", "25P04"})
_CONNECTION = "08"
_REFUSED = Failure(PermissionDeniedError, "correct the user and the password")
_UNLISTED = Failure(PermissionDeniedError, "add host, user and database to pg_hba.conf")
_FULL = _KINDS["53300"]
_NO_DATABASE = Failure(InvalidInputError, "make the database, or name another one")
# For a refused connection libpq gives no SQLSTATE, only the server's message. A refusal in another
# language counts as an unavailable server.
_REFUSALS = (
    (
        re.compile(
            r"FATAL: +(sorry, too many clients|(remaining )?connection slots|too many conn"
            r"|no more connections)"
        ),
        _FULL,
    ),
    (re.compile(r"authentication failed|no password supplied|no such user"), _REFUSED),
    (re.compile(r"FATAL: +permission denied for database"), _DENIED),
    (re.compile(r"FATAL: +no pg_hba.conf entry"), _UNLISTED),
    (re.compile(r'FATAL: +role ".*" (does not exist|is not permitted to log in)'), _REFUSED),
    (re.compile(r'FATAL: +(database ".*" does not exist|no such database)'), _NO_DATABASE),
)


_OPTIONS = frozenset(option.keyword.decode() for option in psycopg.pq.Conninfo.get_defaults())


class _BinaryCursor(psycopg.Cursor[Any]):
    """A cursor that fetches bytes in binary form, not as hex digits."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.format = psycopg.pq.Format.BINARY


class _Connection(psycopg.Connection[Any]):
    """A connection with a timeout for a server that does not answer.

    The server limits only the time that a write waits for a lock. All else needs a limit of the client:
    a long statement, a suspended server, a network that drops all packets.
    """

    answer_s: float = NO_PROGRESS_S

    def wait(self, gen: Any, *arguments: Any, **options: Any) -> Any:
        return super().wait(self._bounded(gen), *arguments, **options)

    def _bounded(self, gen: Any) -> Generator[Any, Any, Any]:
        """Run psycopg's generator. Raise an error if no bytes arrive or leave for too long."""
        last = monotonic()
        try:
            state = next(gen)
            while True:
                ready = yield state
                if ready:
                    last = monotonic()
                elif monotonic() - last > self.answer_s:
                    self.pgconn.finish()
                    raise psycopg.OperationalError(f"no answer for {self.answer_s:g} s")
                state = gen.send(ready)
        except StopIteration as end:
            return end.value


class PostgresKVStore(SQLKVStore):
    """A key-value store in the table ``graveler_kv``, which is created if missing.

    Args:
        url: ``postgresql://user:password@host:port/database``. The query may have parameters of
            libpq, and ``durability=server`` to accept a server that can lose acknowledged writes.
    """

    name = "PostgreSQL"
    scheme = "postgresql"
    driver = "postgresql+psycopg"
    options = _OPTIONS
    engine: ClassVar = {"use_native_hstore": False}  # it would need a transaction block

    def _statements(self) -> Statements:
        lock, waiting = 1000 * self._retrier.try_s, _WAITING if self._durable else ""
        settings = _SETTINGS.format(lock=lock, waiting=waiting)
        self._set_rows = text(f"{_SET_MANY}, {settings}{_UPSERT}")
        return Statements(
            quote="",
            insert=f"INSERT INTO graveler_kv SELECT :partition, :key, :value FROM {settings}",
            upsert=_UPSERT,
            absent=" ON CONFLICT DO NOTHING",
            drop=(
                f"DELETE FROM graveler_kv USING {settings} WHERE partition = :partition AND key IN"
                " (SELECT key FROM graveler_kv WHERE partition = :partition ORDER BY key LIMIT :limit)"
            ),
            settings=settings,
        )

    def _arguments(self) -> dict[str, Any]:
        seconds = max(2, round(self._retrier.try_s))  # the minimum of libpq is 2
        return {**_CONNECT, "connect_timeout": seconds, "cursor_factory": _BinaryCursor}

    def _configure(self, engine: Engine) -> None:
        def connect(_dialect: Any, _record: Any, arguments: Any, options: Any) -> Any:
            made = _Connection.connect(*arguments, autocommit=True, **options)
            made.answer_s = self._retrier.limit_s
            with ExitStack() as failed:
                failed.callback(made.close)
                session = made.execute(_SESSION).fetchone()
                if session == (made.info.backend_pid,):
                    lock, statement = 1000 * self._retrier.try_s, 800 * self._retrier.limit_s
                    made.execute(_OWN.format(lock=lock, statement=statement))
                else:  # a pooler, whose sessions others use, too
                    made.prepare_threshold = None
                failed.pop_all()
            return made

        event.listen(engine, "do_connect", connect)
        event.listen(engine, "checkout", _on_checkout)
        event.listen(engine, "handle_error", _on_error)

    def _prepare(self) -> None:
        unsafe = self._run(lambda c: c.execute(_UNSAFE).all()) if self._durable else ()
        if unsafe:
            raise self._not_durable(row[0] for row in unsafe)
        if not self._run(lambda c: c.execute(_EXISTS).scalar_one()):
            self._run(lambda c: c.execute(_CREATE).rowcount)

    def _write_rows(self, partition: Any, rows: list[tuple[bytes, bytes]]) -> None:
        keys, values = [key for key, _ in rows], [value for _, value in rows]
        self._write(self._set_rows, partition=partition, keys=keys, values=values)

    def _failure(self, error: DBAPIError) -> Failure:
        state = getattr(error.orig, "sqlstate", None) or ""
        if state in _KINDS:
            return _KINDS[state]
        no_word = isinstance(error.orig, psycopg.OperationalError) and not state
        if isinstance(error.orig, psycopg.ProgrammingError) and not state:
            return Failure(InvalidInputError, "an option of the URI is of the wrong kind")
        if no_word and (refusal := _refusal(str(error.orig))):
            return refusal
        if error.connection_invalidated or no_word or state in _ENDED or state[:2] == _CONNECTION:
            return _GONE
        if state[:2] in _TROUBLED:
            return Failure(BackendUnavailableError)
        return Failure(InternalError, f"SQLSTATE {state or 'none'}")


def _refusal(message: str) -> Failure | None:
    return next((failure for pattern, failure in _REFUSALS if pattern.search(message)), None)


def _on_error(context: Any) -> None:
    # After a fail-over, another server takes writes: no kept connection is used again.
    if getattr(context.original_exception, "sqlstate", None) == _READ_ONLY:
        context.is_disconnect = True


def _on_checkout(connection: Any, _record: Any, _proxy: Any) -> None:
    try:
        # the first call reads the server's last message, the second finds the end of the stream
        connection.pgconn.consume_input()
        connection.pgconn.consume_input()
    except psycopg.OperationalError as error:
        raise DisconnectionError from error
