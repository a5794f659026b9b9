from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pymysql
import pytest
from sqlalchemy import make_url, text

from graveler.base.clock import SystemClock
from graveler.errors import (
    BackendUnavailableError,
    CorruptionError,
    GravelerError,
    InternalError,
    InvalidInputError,
    OutcomeUnknownError,
    PermissionDeniedError,
    PreconditionFailedError,
    StorageFullError,
    ThrottledError,
)
from graveler.kv.drivers.mysql import MySQLKVStore
from graveler.kv.store import ABSENT, PRESENT
from graveler.testing.clock import FakeClock
from tests.harness.servers.connections import ConnectionsSuite
from tests.harness.wires import Wire


@pytest.fixture
def store(mysql_url: str) -> Iterator[MySQLKVStore]:
    with MySQLKVStore(mysql_url, clock=FakeClock()) as store:
        yield store


@pytest.fixture
def wire(mysql_socket: Path) -> Iterator[Wire]:
    wire = Wire(mysql_socket)
    yield wire
    wire.close()


@pytest.fixture
def wired(wire: Wire, mysql_url: str) -> Iterator[MySQLKVStore]:
    """A store behind the wire."""
    with pymysql.connect(user="root", unix_socket=_socket(mysql_url)) as connection:
        with connection.cursor() as cursor:
            cursor.execute("CREATE OR REPLACE USER wired@localhost IDENTIFIED BY 'secret'")
            cursor.execute(f"GRANT ALL ON {make_url(mysql_url).database}.* TO wired@localhost")
    url = f"mysql://wired:secret@127.0.0.1:{wire.port}/{make_url(mysql_url).database}?durability=server"
    with MySQLKVStore(url, clock=FakeClock()) as store:
        yield store


def _socket(url: str) -> str:
    return str(make_url(url).query["unix_socket"])


def _fail(store: MySQLKVStore, condition: str, number: int) -> None:
    """Make the server fail with `number` when a row is written and `condition` holds."""
    with store._engine.connect() as connection:
        for when in ("INSERT", "UPDATE", "DELETE"):
            connection.execute(
                text(
                    f"CREATE TRIGGER fail_{when} BEFORE {when} ON graveler_kv FOR EACH ROW BEGIN"
                    " SET @writes = COALESCE(@writes, 0) + 1;"
                    f" IF {condition} THEN SIGNAL SQLSTATE '45000'"
                    f" SET MYSQL_ERRNO = {number}, MESSAGE_TEXT = 'failed on purpose'; END IF; END"
                )
            )


@pytest.fixture
def end_connections(mysql_url: str) -> Callable[[], None]:
    """Ends all connections of the store."""

    def end() -> None:
        with closing(pymysql.connect(user="root", unix_socket=_socket(mysql_url))) as connection:
            with connection.cursor() as cursor:
                ours = "FROM information_schema.processlist WHERE db = %s"
                cursor.execute(f"SELECT id {ours}", [make_url(mysql_url).database])
                for (number,) in cursor.fetchall():
                    cursor.execute(f"KILL {number}")
                for _ in range(1000):
                    cursor.execute(f"SELECT COUNT(*) {ours}", [make_url(mysql_url).database])
                    if cursor.fetchone() == (0,):
                        return
                    cursor.execute("DO SLEEP(0.01)")
        pytest.fail("a connection does not end")

    return end


class TestMySQLConnections(ConnectionsSuite):
    scheme = "mysql"
    opens = MySQLKVStore


def test_a_connection_is_set_up_with_its_bounds(store: MySQLKVStore) -> None:
    with store._engine.connect() as connection:
        row = connection.execute(
            text(
                "SELECT @@innodb_lock_wait_timeout, @@lock_wait_timeout, @@max_statement_time,"
                " @@autocommit, @@tx_isolation"
            )
        ).one()
        raw = connection.connection.dbapi_connection
    assert tuple(row) == (9, 9, 24, 1, "READ-COMMITTED")
    assert (raw._read_timeout, raw._write_timeout, raw.connect_timeout) == (30, 30, 9)  # type: ignore[union-attr]


def test_a_limit_of_rows_of_the_server_does_not_apply(mysql_url: str) -> None:
    with closing(pymysql.connect(user="root", unix_socket=_socket(mysql_url))) as connection:
        with connection.cursor() as cursor:
            cursor.execute("SET GLOBAL sql_select_limit = 1")
            try:
                with MySQLKVStore(mysql_url) as store:
                    store.set_many("p", [(b"a", b"1"), (b"b", b"2")])
                    found = store.get_many([("p", b"a"), ("p", b"b")])
                    assert [row and row.value for row in found] == [b"1", b"2"]
            finally:
                cursor.execute("SET GLOBAL sql_select_limit = DEFAULT")


def test_the_url_overrides_the_bounds(mysql_url: str) -> None:
    with (
        MySQLKVStore(mysql_url + "&connect_timeout=3") as store,
        store._engine.connect() as connection,
    ):
        raw = connection.connection.dbapi_connection
    assert raw.connect_timeout == 3  # type: ignore[union-attr]


@pytest.mark.parametrize("number", [1205, 1213])
def test_a_statement_that_the_server_took_back_is_repeated(
    store: MySQLKVStore, number: int
) -> None:
    _fail(store, "@writes % 3 <> 0", number)
    store.set_if("p", b"k", b"1", ABSENT)
    store.set_if("p", b"k", b"2", PRESENT)
    store.set_many("p", [(b"l", b"3")])
    with pytest.raises(PreconditionFailedError):
        store.set_if("p", b"k", b"4", b"1")
    assert list(store.scan("p")) == [(b"k", b"2"), (b"l", b"3")]
    with store._engine.connect() as connection:
        assert connection.execute(text("SELECT @writes")).scalar_one() == 9


@pytest.mark.parametrize(
    ("number", "kind"),
    [
        (1205, BackendUnavailableError),
        (1213, BackendUnavailableError),
        (1969, BackendUnavailableError),
        (3024, BackendUnavailableError),
        (1317, BackendUnavailableError),
        (1040, ThrottledError),
        (1021, StorageFullError),
        (1114, StorageFullError),
        (1034, CorruptionError),
        (1142, PermissionDeniedError),
        (1290, InvalidInputError),
        (1153, InvalidInputError),
        (1365, InternalError),
    ],
)
def test_what_the_server_says_becomes_what_the_caller_can_do(
    store: MySQLKVStore, number: int, kind: type[GravelerError]
) -> None:
    store.set_many("p", [(b"k", b"v"), (b"l", b"v")])
    _fail(store, "true", number)
    for call in [
        lambda: store.set("p", b"k", b"w"),
        lambda: store.set_many("p", [(b"k", b"w")]),
        lambda: store.set_if("p", b"k", b"w", PRESENT),
        lambda: store.set_if("p", b"m", b"w", ABSENT),
        lambda: store.delete("p", b"k"),
        lambda: store.drop("p"),
    ]:
        with pytest.raises(kind, match="failed on purpose") as caught:
            call()
        assert type(caught.value) is kind
    assert list(store.scan("p")) == [(b"k", b"v"), (b"l", b"v")]


def test_a_failed_commit_has_unknown_outcome_if_conditional(
    store: MySQLKVStore,
) -> None:
    _fail(store, "true", 1180)
    with pytest.raises(OutcomeUnknownError):
        store.set_if("p", b"k", b"v", ABSENT)
    with pytest.raises(BackendUnavailableError):
        store.set("p", b"k", b"v")


def test_a_lock_held_too_long_is_unavailable(mysql_url: str) -> None:
    with MySQLKVStore(mysql_url, clock=FakeClock()) as store:
        store.set("p", b"k", b"v")
        with store._engine.connect() as holder, store._engine.connect() as impatient:
            holder.execute(text("START TRANSACTION"))
            holder.execute(text("SELECT * FROM graveler_kv FOR UPDATE"))
            impatient.execute(text("SET SESSION innodb_lock_wait_timeout = 0"))
            impatient.close()  # the store uses this connection next
            with pytest.raises(BackendUnavailableError, match="Lock wait timeout"):
                store.set_if("p", b"k", b"w", b"v")
            holder.execute(text("ROLLBACK"))
        store.set_if("p", b"k", b"w", b"v")


def test_a_user_who_may_not_make_the_table_is_told(mysql_url: str) -> None:
    database = make_url(mysql_url).database
    with closing(pymysql.connect(user="root", unix_socket=_socket(mysql_url))) as connection:
        with connection.cursor() as cursor:
            cursor.execute("CREATE OR REPLACE USER reader@localhost")
            cursor.execute(
                f"GRANT SELECT, INSERT, UPDATE, DELETE ON {database}.* TO reader@localhost"
            )
    url = mysql_url.replace("root@", "reader@")
    with pytest.raises(PermissionDeniedError, match="grant it"):
        MySQLKVStore(url)
    # The user needs only a table that another user has made.
    MySQLKVStore(mysql_url).close()
    with MySQLKVStore(url) as store:
        store.set("p", b"k", b"v")
    with pytest.raises(PermissionDeniedError, match="Access denied"):
        MySQLKVStore(mysql_url.replace("root@", "user:secret@"))


def test_a_database_that_is_not_there_is_told(mysql_url: str) -> None:
    with pytest.raises(InvalidInputError, match="make the database"):
        MySQLKVStore(mysql_url.replace("/graveler_", "/none_"))
    with pytest.raises(InvalidInputError, match="names no database"):
        MySQLKVStore("mysql://root@localhost")


@pytest.mark.parametrize(
    ("query", "reason"),
    [
        ("pool=9", r"unknown options \['pool'\].*ssl_ca"),
        ("cursorclass=x", r"unknown options \['cursorclass'\]"),
        ("connect_timeout=soon", "wrong kind"),
        ("connect_timeout=-1", "wrong kind"),
        ("charset=none", "wrong kind"),
    ],
)
def test_an_option_that_the_driver_does_not_take_is_told(query: str, reason: str) -> None:
    with pytest.raises(InvalidInputError, match=reason) as caught:
        MySQLKVStore(f"mysql://u:s3cret@127.0.0.1:1/d?{query}", clock=FakeClock())
    assert "s3cret" not in str(caught.value)


def test_a_server_that_takes_no_largest_value_is_refused(
    mysql_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("graveler.kv.drivers.mysql._PACKET", text("SELECT 1048576"))
    with pytest.raises(InvalidInputError, match="of 1048576 bytes: raise its max_allowed_packet"):
        MySQLKVStore(mysql_url)


def test_a_session_ends_when_it_was_idle_for_a_minute(store: MySQLKVStore) -> None:
    assert store._run(lambda c: c.execute(text("SELECT @@wait_timeout")).scalar_one()) == 60
    with store._engine.connect() as connection:
        connection.execute(text("SET SESSION wait_timeout = 1"))
    SystemClock().sleep(2.5)
    assert store.get("p", b"k") is None  # the pool makes a new session


def test_the_table_is_read_in_the_order_of_its_key(store: MySQLKVStore) -> None:
    store.set_many("p", [(b"%06d" % number, b"v") for number in range(3000)])
    with store._engine.connect() as connection:
        connection.execute(text("ANALYZE TABLE graveler_kv")).all()
        plan = connection.execute(
            text("EXPLAIN " + store._sql.page.text),
            {"partition": b"p", "start": b"001000", "limit": 10},
        ).one()
    assert plan.key == "PRIMARY"
    assert "filesort" not in plan.Extra
