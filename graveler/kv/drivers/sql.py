"""Shared parts of the SQL drivers: one table, one statement for each operation.

Each operation is one statement in its own transaction: one round trip. A connection that the server
has closed is detected before it is used. So an unknown outcome always means that the reply to a
conditional write was lost.
"""

# `KVStore` documents the methods. The statements consist of constants.
# ruff: noqa: D102, S608

from abc import abstractmethod
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any, ClassVar, NamedTuple, TypeVar

from sqlalchemy import URL, Engine, TextClause, create_engine, text
from sqlalchemy.engine import Connection, make_url
from sqlalchemy.exc import ArgumentError, DBAPIError, SQLAlchemyError
from sqlalchemy.exc import TimeoutError as PoolTimeoutError

from graveler.base.clock import Clock, IdSource, RandomIds, SystemClock
from graveler.base.forks import abandon, held_off, watch
from graveler.base.retries import NO_PROGRESS_S, Retrier
from graveler.errors import (
    BackendUnavailableError,
    GravelerError,
    InvalidInputError,
    OutcomeUnknownError,
    StateError,
    ThrottledError,
)
from graveler.kv.driver import Driver, partition_names
from graveler.kv.store import ABSENT, PRESENT, Predicate
from graveler.kv.turns import QueueTurns

_T = TypeVar("_T")

# The number of kept connections, the number of additional ones for many threads, and no values in
# messages of errors.
_POOL: dict[str, Any] = {"pool_size": 4, "max_overflow": 12, "hide_parameters": True}


class Failure(NamedTuple):
    """The meaning of an error of the database.

    Attributes:
        hint: What the caller can do. It is appended to the message of the database.
        repeat: Whether repeating the statement may help, and is harmless.
        lost: Whether the connection is lost or was never made, so that the outcome of the
            statement is unknown.
    """

    kind: type[GravelerError]
    hint: str = ""
    repeat: bool = False
    lost: bool = False


class Statements:
    """The SQL statements of a database. Parameters look like ``:partition``.

    Args:
        settings: A derived table that sets what holds for the transaction of a write.
    """

    def __init__(
        self, *, quote: str, insert: str, upsert: str, absent: str, drop: str, settings: str = ""
    ) -> None:
        partition, key = f"{quote}partition{quote}", f"{quote}key{quote}"
        where = f" WHERE {partition} = :partition AND {key} = :key"
        update = f"UPDATE graveler_kv SET value = :value{settings and ' FROM ' + settings}{where}"
        delete = f"DELETE FROM graveler_kv{settings and ' USING ' + settings}{where}"
        self.get = text(f"SELECT value FROM graveler_kv{where}")
        self.set = text(insert + upsert)
        self.set_absent = text(insert + absent)
        self.set_present = text(update)
        self.set_equal = text(f"{update} AND value = :predicate")
        self.delete = text(delete)
        self.delete_equal = text(f"{delete} AND value = :predicate")
        self.page = text(
            f"SELECT {key}, value FROM graveler_kv"
            f" WHERE {partition} = :partition AND {key} >= :start ORDER BY {key} LIMIT :limit"
        )
        self.partition = text(
            f"SELECT {partition} FROM graveler_kv WHERE {partition} >= :start"
            f" ORDER BY {partition}, {key} LIMIT 1"
        )
        self.drop = text(drop)


@lru_cache(maxsize=256)
def _get_many(quote: str, count: int) -> TextClause:
    """Return the statement that reads `count` keys, the parameters ``p0``, ``k0``, ``p1`` …."""
    partition, key = f"{quote}partition{quote}", f"{quote}key{quote}"
    # Each pair is one index lookup. For a list of pairs some servers scan the whole table.
    pairs = (f"({partition} = :p{number} AND {key} = :k{number})" for number in range(count))
    return text(f"SELECT {partition}, {key}, value FROM graveler_kv WHERE {' OR '.join(pairs)}")


_BROKEN = Failure(BackendUnavailableError, "check the server", repeat=True, lost=True)
"""A connection that the library gives up, or a statement that it could not finish."""
_FIRST_PAUSE = 0.1
_DROP_AT_ONCE = 10_000
_DURABILITY = "durability"
_AS_CONFIGURED = "server"


class SQLKVStore(Driver):
    """A key-value store in the table ``graveler_kv`` of a database."""

    name: str
    scheme: str
    driver: str
    options: Collection[str]
    quote = ""
    needs_database = False
    engine: ClassVar[Mapping[str, Any]] = {}

    def __init__(
        self,
        url: str,
        *,
        clock: Clock | None = None,
        ids: IdSource | None = None,
        no_progress_s: float = NO_PROGRESS_S,
    ) -> None:
        self._url = self._read_url(url)
        host = self._url.host or self._url.query.get("host", "localhost")
        self._name = f"{self.scheme}://{host}/{self._url.database or ''}"
        self._durable = self._read_options()
        self._clock = clock or SystemClock()
        self._ids = ids or RandomIds(self._clock)
        self._closed = False
        self._retrier = Retrier(
            self._clock,
            self._ids,
            limit_s=no_progress_s,
            first_wait_s=_FIRST_PAUSE,
            whole=True,
        )
        self._sql = self._statements()
        try:
            self._engine = self._new_engine()
        except (AttributeError, TypeError, ValueError) as error:
            raise self._bad_option(error) from None
        self._turns = QueueTurns(self, self._clock, self._ids)
        try:
            self._prepare()
        except BaseException:
            self.close()
            raise
        watch(self)

    def _get(self, partition: str, key: bytes) -> bytes | None:
        parameters = {"partition": self._coded(partition), "key": key}
        return self._run(lambda c: c.execute(self._sql.get, parameters).scalar_one_or_none())

    def _get_many(self, keys: Sequence[tuple[str, bytes]]) -> Mapping[tuple[str, bytes], bytes]:
        # a single statement reads one snapshot at every isolation level
        parameters: dict[str, Any] = {}
        for number, (partition, key) in enumerate(keys):
            parameters[f"p{number}"], parameters[f"k{number}"] = self._coded(partition), key
        statement = _get_many(self.quote, len(keys))
        rows = self._run(lambda c: c.execute(statement, parameters).all())
        return {(self._decoded(row[0]), bytes(row[1])): row[2] for row in rows}

    def _set(self, partition: str, key: bytes, value: bytes) -> None:
        self._write(self._sql.set, partition=self._coded(partition), key=key, value=value)

    def _set_chunk(self, partition: str, chunk: list[tuple[bytes, bytes]]) -> None:
        # A statement may touch a row only once. All writers lock rows in the same order, which
        # prevents deadlocks.
        self._write_rows(self._coded(partition), sorted(dict(chunk).items()))

    def _set_if(self, partition: str, key: bytes, value: bytes, predicate: Predicate) -> bool:
        parameters = {"partition": self._coded(partition), "key": key, "value": value}
        if predicate is ABSENT:
            statement = self._sql.set_absent
        elif predicate is PRESENT:
            statement = self._sql.set_present
        else:
            statement = self._sql.set_equal
            parameters["predicate"] = predicate
        return self._run(lambda c: self._rows(c, statement, parameters), conditional=True) == 1

    def _delete(self, partition: str, key: bytes) -> None:
        self._write(self._sql.delete, partition=self._coded(partition), key=key)

    def _delete_chunk(self, partition: str, chunk: list[bytes]) -> None:
        coded = self._coded(partition)
        rows = [{"partition": coded, "key": key} for key in sorted(chunk)]  # as in _set_chunk
        self._run(lambda c: self._rows(c, self._sql.delete, rows))

    def _delete_if(self, partition: str, key: bytes, value: bytes) -> bool:
        parameters = {"partition": self._coded(partition), "key": key, "predicate": value}
        statement = self._sql.delete_equal
        return self._run(lambda c: self._rows(c, statement, parameters), conditional=True) == 1

    def _drop(self, partition: str) -> None:
        parameters = {"partition": self._coded(partition), "limit": _DROP_AT_ONCE}
        while self._write(self._sql.drop, **parameters) == _DROP_AT_ONCE:
            pass

    def _page(self, partition: str, start: bytes, limit: int) -> list[tuple[bytes, bytes]]:
        parameters = {"partition": self._coded(partition), "start": start, "limit": limit}
        return self._run(
            lambda c: [(row[0], row[1]) for row in c.execute(self._sql.page, parameters).all()]
        )

    def partitions(self, prefix: str) -> Iterator[str]:
        self._check_open()

        def first(start: str) -> str | None:
            parameters = {"start": self._coded(start)}
            coded = self._run(
                lambda c: c.execute(self._sql.partition, parameters).scalar_one_or_none()
            )
            return None if coded is None else self._decoded(coded)

        return partition_names(prefix, first)

    def close(self) -> None:
        self._closed = True
        self._engine.dispose()

    def after_fork_in_child(self) -> None:
        """Discard the parent's connections without closing them."""
        abandon(self._engine)
        self._engine = self._new_engine()

    def _read_url(self, given: str) -> URL:
        try:
            url = make_url(given).set(drivername=self.driver)
        except (ArgumentError, ValueError):
            # the message does not show the URL, which may contain a password
            raise InvalidInputError(
                f"cannot read the {self.name} URL: give {self.scheme}://user:password@host/database"
            ) from None
        if self.needs_database and not url.database:
            raise InvalidInputError(
                f"the {self.name} URL names no database: give {self.scheme}://host/database"
            )
        return url

    def _read_options(self) -> bool:
        """Check the options of the URL. Return whether the server must be durable."""
        durability = self._url.query.get(_DURABILITY)
        if durability not in {None, _AS_CONFIGURED}:
            raise InvalidInputError(
                f"durability={durability!r}: give {_AS_CONFIGURED!r}, or leave it out: then a "
                "server that can lose what it has acknowledged is refused"
            )
        known = {*self.options, _DURABILITY}
        if unknown := sorted(set(self._url.query) - known):
            raise InvalidInputError(
                f"the URI of {self._name} has unknown options {unknown}: known are "
                f"{', '.join(sorted(known))}"
            )
        self._url = self._url.difference_update_query([_DURABILITY])
        return durability is None

    def _bad_option(self, error: Exception) -> InvalidInputError:
        return InvalidInputError(
            f"an option of the URI of {self._name} is of the wrong kind: {error}"
        )

    def _not_durable(self, settings: Iterable[str]) -> InvalidInputError:
        """Return the error for these settings, each with its required value."""
        return InvalidInputError(
            f"{self._name} can lose what it has acknowledged: {'; '.join(settings)}. Change it on "
            f"the server and open the lake again; or take the loss: put {_DURABILITY}="
            f"{_AS_CONFIGURED} into the query of the URI"
        )

    def _new_engine(self) -> Engine:
        arguments = self._arguments()
        engine = create_engine(
            self._url,
            isolation_level="AUTOCOMMIT",
            pool_timeout=self._retrier.limit_s,
            connect_args={k: v for k, v in arguments.items() if k not in self._url.query},
            **_POOL,
            **self.engine,
        )
        self._configure(engine)
        return engine

    @abstractmethod
    def _statements(self) -> Statements:
        """Return the statements."""

    @abstractmethod
    def _arguments(self) -> dict[str, Any]:
        """Return the arguments of a new connection. Options of the URL take precedence."""

    @abstractmethod
    def _configure(self, engine: Engine) -> None:
        """Set timeouts for the engine's connections, and a check before each use."""

    @abstractmethod
    def _prepare(self) -> None:
        """Create the table if it is missing."""

    @abstractmethod
    def _write_rows(self, partition: Any, rows: list[tuple[bytes, bytes]]) -> None:
        """Write `rows` in as few statements as possible. Each key comes once."""

    @abstractmethod
    def _failure(self, error: DBAPIError) -> Failure:
        """Return the meaning of an error of the database."""

    def _coded(self, partition: str) -> Any:
        return partition

    def _decoded(self, partition: Any) -> str:
        return str(partition)

    def _rows(self, connection: Connection, statement: TextClause, parameters: Any) -> int:
        """Execute a statement and return the number of rows that it wrote."""
        return int(connection.execute(statement, parameters).rowcount)

    def _check_open(self) -> None:
        if self._closed:
            raise StateError(f"the store in {self._name} is closed: open it again")

    def _write(self, statement: TextClause, **parameters: Any) -> int:
        return self._run(lambda c: self._rows(c, statement, parameters))

    def _run(self, work: Callable[[Connection], _T], *, conditional: bool = False) -> _T:
        """Do `work`. Repeat it if that is harmless and may help."""
        attempts = self._retrier.attempts(self._name)
        while True:
            self._check_open()
            sent = False
            try:
                with held_off, self._engine.connect() as connection:
                    sent = True
                    try:
                        done = work(connection)
                        attempts.succeeded()
                        return done
                    finally:
                        if self._closed:
                            # the pool that would close it is gone
                            connection.invalidate()
            except (AttributeError, TypeError, ValueError) as error:
                if sent or isinstance(error, GravelerError):
                    raise
                raise self._bad_option(error) from None
            except PoolTimeoutError as error:
                raise ThrottledError(f"{self._name}: {error}: use fewer threads") from error
            except SQLAlchemyError as error:
                failure = self._failure(error) if isinstance(error, DBAPIError) else _BROKEN
                cause = getattr(error, "orig", None) or error
                message = f"{self._name}: {cause}"
                if conditional and sent and failure.lost:
                    attempts.gave_up()
                    raise OutcomeUnknownError(
                        f"{message}: the reply was lost, read back"
                    ) from error
                if not failure.repeat or not attempts.again(cause):
                    hint = f": {failure.hint}" if failure.hint else ""
                    raise failure.kind(message + hint) from error
