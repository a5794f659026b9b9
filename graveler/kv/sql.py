"""What the databases behind SQLAlchemy share: one table, one statement for each operation.

Each operation is one statement in a transaction of its own: one round trip. A connection
that the server has closed meanwhile is noticed before it is used, so that "outcome
unknown" is left for what it means: the reply to a conditional write was lost.
"""

# The port documents the methods.
# ruff: noqa: D102

from abc import abstractmethod
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple, TypeVar

from sqlalchemy import URL, Engine, TextClause
from sqlalchemy.engine import Connection
from sqlalchemy.exc import DBAPIError
from sqlalchemy.exc import TimeoutError as PoolTimeoutError

from graveler.clock import Clock, IdSource, RandomIds, SystemClock
from graveler.errors import (
    GravelerError,
    InvalidInputError,
    OutcomeUnknownError,
    StateError,
    ThrottledError,
)
from graveler.kv.drivers import Driver
from graveler.kv.server_turns import ServerTurns, SessionLocks
from graveler.kv.store import ABSENT, PRESENT, Predicate
from graveler.process import abandon, held_off, watch
from graveler.retries import Retrier

_T = TypeVar("_T")

POOL: Final[dict[str, Any]] = {"pool_size": 4, "max_overflow": 12, "hide_parameters": True}
"""Connections kept, and those beyond that many threads at once may open for a while; and no
values in the messages of errors."""

_TRIES: Final = 4
_FIRST_PAUSE: Final = 0.1
_DROP_AT_ONCE: Final = 10_000
_DURABILITY: Final = "durability"
_AS_CONFIGURED: Final = "server"


def split_durability(url: URL) -> tuple[URL, bool]:
    """Take the option ``durability`` off a URL; return whether the server must be durable.

    Raises:
        InvalidInputError: It is given and not ``server``.
    """
    given = url.query.get(_DURABILITY)
    if given not in {None, _AS_CONFIGURED}:
        raise InvalidInputError(
            f"durability={given!r}: give {_AS_CONFIGURED!r}, or leave it out: then a server that "
            "can lose what it has acknowledged is refused"
        )
    return url.difference_update_query([_DURABILITY]), given is None


def check_options(name: str, url: URL, known: Collection[str]) -> None:
    """Refuse options that a driver does not know.

    Raises:
        InvalidInputError: The query of the URL has others than the known.
    """
    if unknown := sorted(set(url.query) - set(known)):
        raise InvalidInputError(
            f"the URI of {name} has unknown options {unknown}: known are "
            f"{', '.join(sorted({*known, _DURABILITY}))}"
        )


def bad_option(name: str, error: Exception) -> InvalidInputError:
    """Return the error for an option whose value the driver does not take."""
    return InvalidInputError(f"an option of the URI of {name} is of the wrong kind: {error}")


def not_durable(name: str, settings: Iterable[str]) -> InvalidInputError:
    """Return the error for a server that can lose what it has acknowledged.

    Args:
        name: What messages call the store.
        settings: What makes it so, each with what it must be.
    """
    return InvalidInputError(
        f"{name} can lose what it has acknowledged: {'; '.join(settings)}. Change it on the server "
        f"and open the lake again; or take the loss: put {_DURABILITY}={_AS_CONFIGURED} into the "
        "query of the URI"
    )


@dataclass(frozen=True, slots=True)
class Statements:
    """The words of a database for what the store does; parameters as in ``:partition``."""

    get: TextClause
    get_each: TextClause
    set: TextClause
    set_absent: TextClause
    set_present: TextClause
    set_equal: TextClause
    delete: TextClause
    delete_equal: TextClause
    page: TextClause
    partition: TextClause
    drop: TextClause


class Failure(NamedTuple):
    """What an error of the database means.

    Attributes:
        kind: The error for the caller.
        way_out: What the caller can do; follows the message of the database.
        repeat: Whether repeating the statement may help, and is harmless.
        lost: Whether the connection is gone or was never made, so that the outcome of the
            statement is unknown.
    """

    kind: type[GravelerError]
    way_out: str = ""
    repeat: bool = False
    lost: bool = False


class SQLKVStore(Driver):
    """A key-value store in the table ``graveler_kv`` of some database.

    Args:
        name: What messages call it; holds no secrets.
        locks: The server's locks for turns.
        clock: Where pauses come from.
        ids: Where the jitter of the pauses comes from.
        no_progress_s: Seconds without an answer after which a call ends.
    """

    _sql: Statements
    _turns: ServerTurns

    def __init__(
        self,
        name: str,
        locks: SessionLocks,
        *,
        clock: Clock | None,
        ids: IdSource | None,
        no_progress_s: float,
    ) -> None:
        self._name = name
        self._clock = clock or SystemClock()
        self._ids = ids or RandomIds(self._clock)
        self._closed = False
        self._retrier = Retrier(
            self._clock,
            self._ids,
            limit_s=no_progress_s,
            tries=_TRIES,
            first_wait_s=_FIRST_PAUSE,
            whole=True,
        )
        try:
            self._engine = self._new_engine(no_progress_s)
        except (AttributeError, TypeError, ValueError) as error:
            raise bad_option(name, error) from None
        self._turns = ServerTurns(lambda: self._new_engine(0), locks)
        try:
            self._prepare()
        except BaseException:
            self.close()
            raise
        watch(self)

    def _get(self, partition: str, key: bytes) -> bytes | None:
        parameters = {"partition": self._coded(partition), "key": key}
        return self._run(lambda c: c.execute(self._sql.get, parameters).scalar_one_or_none())

    def _get_group(self, partitions: Sequence[str], key: bytes) -> Mapping[str, bytes]:
        parameters = {"partitions": [self._coded(name) for name in partitions], "key": key}
        rows = self._run(lambda c: c.execute(self._sql.get_each, parameters).all())
        return {self._decoded(row[0]): row[1] for row in rows}

    def _set(self, partition: str, key: bytes, value: bytes) -> None:
        self._check_value(key, value)
        self._write(self._sql.set, partition=self._coded(partition), key=key, value=value)

    def _set_chunk(self, partition: str, chunk: list[tuple[bytes, bytes]]) -> None:
        for key, value in chunk:
            self._check_value(key, value)
        # One statement may touch a row only once. Rows are locked in one order, which prevents
        # deadlocks.
        self._write_rows(self._coded(partition), sorted(dict(chunk).items()))

    def _set_if(self, partition: str, key: bytes, value: bytes, predicate: Predicate) -> bool:
        self._check_value(key, value)
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
        start = prefix
        # From name to name by the index, however much lies between two of them.
        while True:
            parameters = {"start": self._coded(start)}
            coded = self._run(
                lambda c: c.execute(self._sql.partition, parameters).scalar_one_or_none()  # noqa: B023
            )
            name = None if coded is None else self._decoded(coded)
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
        self._engine = self._new_engine(self._retrier.limit_s)

    @abstractmethod
    def _new_engine(self, patience: float) -> Engine:
        """Return an engine whose pool lets a thread wait so many seconds for a connection."""

    @abstractmethod
    def _prepare(self) -> None:
        """Make the table where it is missing."""

    @abstractmethod
    def _write_rows(self, partition: Any, rows: list[tuple[bytes, bytes]]) -> None:
        """Write `rows`, of which each key comes once, in as few statements as it takes."""

    @abstractmethod
    def _failure(self, error: DBAPIError) -> Failure:
        """Return what an error of the database means."""

    def _check_value(self, key: bytes, value: bytes) -> None:
        """Refuse a value that the database would not take."""

    def _coded(self, partition: str) -> Any:
        return partition

    def _decoded(self, partition: Any) -> str:
        return str(partition)

    def _rows(self, connection: Connection, statement: TextClause, parameters: Any) -> int:
        """Execute a statement and return how many rows it wrote."""
        return int(connection.execute(statement, parameters).rowcount)

    def _check_open(self) -> None:
        if self._closed:
            raise StateError(f"the store in {self._name} is closed: open it again")

    def _write(self, statement: TextClause, **parameters: Any) -> int:
        return self._run(lambda c: self._rows(c, statement, parameters))

    def _run(self, work: Callable[[Connection], _T], *, conditional: bool = False) -> _T:
        """Do `work`, again where that is harmless and may help."""
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
                            # The pool that would have closed it is gone.
                            connection.invalidate()
            except (AttributeError, TypeError, ValueError) as error:
                if sent or isinstance(error, GravelerError):
                    raise
                raise bad_option(self._name, error) from None
            except PoolTimeoutError as error:
                raise ThrottledError(f"{self._name}: {error}: use fewer threads") from error
            except DBAPIError as error:
                failure = self._failure(error)
                message = f"{self._name}: {error.orig or error}"
                if conditional and sent and failure.lost:
                    attempts.gave_up()
                    raise OutcomeUnknownError(
                        f"{message}: the reply was lost, read back"
                    ) from error
                if not failure.repeat or not attempts.again(error.orig or error):
                    way_out = f": {failure.way_out}" if failure.way_out else ""
                    raise failure.kind(message + way_out) from error
