"""MySQL and MariaDB through SQLAlchemy and PyMySQL."""

import select
from collections.abc import Mapping
from contextlib import suppress
from inspect import signature
from ssl import SSLWantReadError
from typing import Any

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
    from pymysql.connections import Connection as PyMySQLConnection
    from pymysql.constants import CR, ER
    from pymysql.err import InternalError as Mangled  # without a number: replies out of order
    from sqlalchemy import Engine, TextClause, event, text
    from sqlalchemy.engine import Connection
    from sqlalchemy.exc import DBAPIError, DisconnectionError, IntegrityError

    from graveler.kv.drivers.sql import Failure, SQLKVStore, Statements
    from graveler.kv.store import MAX_VALUE_BYTES
except ImportError as error:
    missing = (error.name or "").partition(".")[0]
    raise MissingDependencyError(f'MySQL needs {missing}: pip install "graveler[mysql]"') from error


_CONNECT: dict[str, Any] = {
    "charset": "utf8mb4",
    "binary_prefix": True,  # otherwise the server reads a value as text, and warns
    "program_name": "graveler",
}
_SESSION = (
    "SET SESSION sql_mode = 'STRICT_ALL_TABLES,NO_ENGINE_SUBSTITUTION'",
    # No locks on the gaps between rows, so writers of neighbouring rows do not block each other.
    "SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED",
    "SET SESSION innodb_lock_wait_timeout = {lock:.0f}",
    "SET SESSION lock_wait_timeout = {lock:.0f}",
    "SET SESSION sql_select_limit = 18446744073709551615",
    "SET SESSION wait_timeout = 60",  # the server ends an idle session, so that pools shrink
)
_BOUND_MARIADB = "SET SESSION max_statement_time = {statement:g}"
_BOUND_MYSQL = "SET SESSION max_execution_time = {milliseconds:.0f}"  # reads; writes: locks

# The rows are stored in key order, so a scan reads adjacent rows. The key's 2,048 bytes are within
# the 3,072 bytes that InnoDB indexes. VARBINARY compares all bytes.
_CREATE = text(
    "CREATE TABLE IF NOT EXISTS graveler_kv (`partition` VARBINARY(1024) NOT NULL,"
    " `key` VARBINARY(1024) NOT NULL, value LONGBLOB NOT NULL, PRIMARY KEY (`partition`, `key`))"
    " ENGINE = InnoDB ROW_FORMAT = DYNAMIC"
)
_EXISTS = text(
    "SELECT COUNT(*) FROM information_schema.tables"
    " WHERE table_schema = DATABASE() AND table_name = 'graveler_kv'"
)
_OBJECTS = {"auth_plugin_map", "conv", "cursorclass", "defer_connect", "ssl"}  # not text
_OPTIONS = frozenset(signature(PyMySQLConnection).parameters) - _OBJECTS | {
    f"ssl_{name}" for name in ("ca", "key", "cert", "capath", "cipher", "check_hostname")
}
# Quoting doubles the size at worst, and a condition also sends the old value.
_LEAST_PACKET = 4 * (MAX_VALUE_BYTES + 4096)
_PACKET = text("SELECT @@max_allowed_packet")
_SAFE: Mapping[str, frozenset[str]] = {
    "innodb_flush_log_at_trx_commit": frozenset({"1", "3"}),
    "sync_binlog": frozenset({"1"}),  # if there is a binary log, it decides what is committed
    "innodb_doublewrite": frozenset({"1", "ON", "DETECT_AND_RECOVER"}),
    "the engine of graveler_kv": frozenset({"InnoDB", "None"}),  # none: there is no table yet
}
_SETTINGS = text(
    "SELECT @@global.innodb_flush_log_at_trx_commit,"
    " IF(@@global.log_bin, @@global.sync_binlog, 1), @@global.innodb_doublewrite,"
    " (SELECT engine FROM information_schema.tables"
    " WHERE table_schema = DATABASE() AND table_name = 'graveler_kv')"
)

_LATER = Failure(BackendUnavailableError, repeat=True)
_GONE = Failure(BackendUnavailableError, repeat=True, lost=True)
_CROWDED = Failure(ThrottledError, "use fewer connections, or allow for more", repeat=True)
_FULL = Failure(StorageFullError, "free space on the server's disk and repeat")
_DAMAGED = Failure(CorruptionError, "restore the database from a backup")
_DENIED = Failure(PermissionDeniedError, "grant it to the user")
_READ_ONLY = Failure(InvalidInputError, "give the URL of the server that takes writes")
_KILLED = 1927  # codes of MariaDB that PyMySQL does not name, from here on
_DISCONNECTED = 4031
_SOCKET_DENIED = 1698
_DAMAGED_INDEX = (1712, 1877)
_READ_ONLY_INNODB = (1792, 1836)
_FAILURES = {
    # The connection broke, the server is stopping, or an operator ended the connection.
    **dict.fromkeys((0, CR.CR_CONNECTION_ERROR, CR.CR_CONN_HOST_ERROR), _GONE),
    **dict.fromkeys(
        (CR.CR_SERVER_GONE_ERROR, CR.CR_SERVER_LOST, CR.CR_SERVER_LOST_EXTENDED), _GONE
    ),
    **dict.fromkeys((ER.SERVER_SHUTDOWN, _KILLED, _DISCONNECTED), _GONE),
    # The outcome is unknown.
    ER.ERROR_DURING_COMMIT: Failure(BackendUnavailableError, lost=True),
    # Another statement caused the rollback of this one.
    **dict.fromkeys((ER.LOCK_WAIT_TIMEOUT, ER.LOCK_DEADLOCK), _LATER),
    # Rolled back: it took too long, an operator ended it, or the disk failed.
    **dict.fromkeys((ER.STATEMENT_TIMEOUT, ER.QUERY_TIMEOUT), Failure(BackendUnavailableError)),
    **dict.fromkeys((ER.QUERY_INTERRUPTED, ER.GET_ERRNO), Failure(BackendUnavailableError)),
    **dict.fromkeys((ER.CON_COUNT_ERROR, ER.TOO_MANY_USER_CONNECTIONS), _CROWDED),
    ER.USER_LIMIT_REACHED: _CROWDED,
    **dict.fromkeys((ER.DISK_FULL, ER.RECORD_FILE_FULL), _FULL),
    **dict.fromkeys((ER.NOT_KEYFILE, ER.CRASHED_ON_USAGE, *_DAMAGED_INDEX), _DAMAGED),
    **dict.fromkeys((ER.DBACCESS_DENIED_ERROR, ER.ACCESS_DENIED_ERROR, _SOCKET_DENIED), _DENIED),
    **dict.fromkeys((ER.TABLEACCESS_DENIED_ERROR, ER.COLUMNACCESS_DENIED_ERROR), _DENIED),
    ER.SPECIFIC_ACCESS_DENIED_ERROR: _DENIED,
    **dict.fromkeys((ER.OPTION_PREVENTS_STATEMENT, *_READ_ONLY_INNODB), _READ_ONLY),
    ER.BAD_DB_ERROR: Failure(InvalidInputError, "make the database, or name another one"),
    ER.NET_PACKET_TOO_LARGE: Failure(InvalidInputError, "raise the server's max_allowed_packet"),
}


_SQL = Statements(
    quote="`",
    insert="INSERT INTO graveler_kv VALUES (:partition, :key, :value)",
    upsert=" ON DUPLICATE KEY UPDATE value = VALUES(value)",
    absent="",
    drop="DELETE FROM graveler_kv WHERE `partition` = :partition ORDER BY `key` LIMIT :limit",
)


class MySQLKVStore(SQLKVStore):
    """A key-value store in the table ``graveler_kv`` of MySQL 8 or MariaDB 10.5 and later.

    Args:
        url: ``mysql://user:password@host:port/database``. The query may have parameters of PyMySQL,
            and ``durability=server`` to accept a server that can lose acknowledged writes.
    """

    name = "MySQL"
    scheme = "mysql"
    driver = "mysql+pymysql"
    options = _OPTIONS
    quote = "`"
    needs_database = True

    def _statements(self) -> Statements:
        return _SQL

    def _arguments(self) -> dict[str, Any]:
        silence, limit = self._retrier.try_s, self._retrier.limit_s
        bounds = {"connect_timeout": silence, "read_timeout": silence, "write_timeout": limit}
        return {**bounds, **_CONNECT}

    def _configure(self, engine: Engine) -> None:
        silence, limit = self._retrier.try_s, self._retrier.limit_s

        def on_connect(connection: Any, _record: Any) -> None:
            # each statement commits itself: SQLAlchemy's ROLLBACK after it would be a round trip more
            connection.rollback = _nothing
            if "read_timeout" not in self._url.query:
                connection._read_timeout = limit  # from here on the server bounds its statements
            mariadb = "MariaDB" in connection.get_server_info()
            statement = 0.8 * limit
            with connection.cursor() as cursor:
                for line in (*_SESSION, _BOUND_MARIADB if mariadb else _BOUND_MYSQL):
                    cursor.execute(
                        line.format(
                            lock=max(silence, 1), statement=statement, milliseconds=1000 * statement
                        )
                    )

        event.listen(engine, "connect", on_connect)
        event.listen(engine, "checkout", _on_checkout)

    def _prepare(self) -> None:
        if self._durable:
            self._check_durable()
        packet = self._run(lambda c: int(c.execute(_PACKET).scalar_one()))
        if packet < _LEAST_PACKET:
            raise InvalidInputError(
                f"{self._name} takes statements of {packet} bytes: raise its max_allowed_packet to "
                f"{_LEAST_PACKET} or more"
            )
        if not self._run(lambda c: c.execute(_EXISTS).scalar_one()):
            self._run(lambda c: c.execute(_CREATE).rowcount)

    def _check_durable(self) -> None:
        values = self._run(lambda c: c.execute(_SETTINGS).one())
        unsafe = [
            f"{name} is {value}, not {min(_SAFE[name])}"
            for name, value in zip(_SAFE, map(str, values), strict=True)
            if value not in _SAFE[name]
        ]
        if unsafe:
            raise self._not_durable(unsafe)

    def _write_rows(self, partition: Any, rows: list[tuple[bytes, bytes]]) -> None:
        parameters = [{"partition": partition, "key": key, "value": value} for key, value in rows]
        # PyMySQL combines the rows into statements of up to one megabyte.
        self._run(lambda c: c.execute(self._sql.set, parameters).rowcount)

    def _rows(self, connection: Connection, statement: TextClause, parameters: Any) -> int:
        try:
            return super()._rows(connection, statement, parameters)
        except IntegrityError as error:
            if statement is self._sql.set_absent and _number(error) == ER.DUP_ENTRY:
                return 0  # the key exists
            raise

    def _failure(self, error: DBAPIError) -> Failure:
        number = _number(error)
        if number in _FAILURES:
            return _FAILURES[number]
        if error.connection_invalidated or (number < 0 and isinstance(error.orig, Mangled)):
            return _GONE
        return Failure(InternalError, f"error {number}")

    def _coded(self, partition: str) -> Any:
        return partition.encode()

    def _decoded(self, partition: Any) -> str:
        return bytes(partition).decode()


def _number(error: DBAPIError) -> int:
    arguments = getattr(error.orig, "args", ())
    return arguments[0] if arguments and isinstance(arguments[0], int) else -1


def _nothing() -> None:
    pass


def _on_checkout(connection: Any, _record: Any, _proxy: Any) -> None:
    # an idle connection is readable only if the server has closed it, or a reply has come twice
    looking = select.poll()
    with suppress(AttributeError):
        looking.register(connection._sock, select.POLLIN)
        if looking.poll(0) or _is_buffered(connection):
            raise DisconnectionError


def _is_buffered(connection: Any) -> bool:
    """Return whether the driver has read more than the reply that it waited for."""
    patience = connection._sock.gettimeout()
    connection._sock.settimeout(0)
    try:
        return bool(connection._rfile.peek(1))
    except SSLWantReadError:
        return False
    finally:
        connection._sock.settimeout(patience)
