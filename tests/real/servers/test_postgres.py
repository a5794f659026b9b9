from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from pathlib import Path
from urllib.parse import urlencode

import psycopg
import pytest
from sqlalchemy import event, make_url, text
from sqlalchemy.exc import DisconnectionError, StatementError

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
)
from graveler.kv.drivers.postgres import _CREATE, PostgresKVStore
from graveler.kv.store import ABSENT, PRESENT, KVStore
from graveler.testing.clock import FakeClock
from tests.harness.servers.connections import ConnectionsSuite
from tests.harness.servers.postgres import for_libpq, guarded_server
from tests.harness.wires import Wire

_OURS = "FROM pg_stat_activity WHERE application_name = 'graveler'"


@pytest.fixture
def store(postgres_url: str) -> Iterator[PostgresKVStore]:
    with PostgresKVStore(postgres_url, clock=FakeClock()) as store:
        yield store


@pytest.fixture
def wire(postgres_socket: Path) -> Iterator[Wire]:
    wire = Wire(postgres_socket / ".s.PGSQL.5432")
    yield wire
    wire.close()


@pytest.fixture
def wired(wire: Wire, postgres_url: str) -> Iterator[PostgresKVStore]:
    """A store behind the wire."""
    options = psycopg.conninfo.conninfo_to_dict(for_libpq(postgres_url))["options"]
    query = urlencode({"options": options, "sslmode": "disable", "gssencmode": "disable"})
    query += "&durability=server"
    url = f"postgresql://postgres:secret@127.0.0.1:{wire.port}/postgres?{query}"
    with PostgresKVStore(url, clock=FakeClock()) as store:
        yield store


def _fail(store: PostgresKVStore, condition: str, state: str) -> None:
    """Make the server fail with `state` when the table is written and `condition` holds."""
    with store._engine.connect() as connection:
        connection.execute(text("CREATE SEQUENCE writes"))
        connection.execute(
            text(
                "CREATE FUNCTION fail() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN"
                f" IF ({condition}) THEN RAISE EXCEPTION 'failed on purpose'"
                f" USING ERRCODE = '{state}'; END IF; RETURN NULL; END $$"
            )
        )
        connection.execute(
            text(
                "CREATE TRIGGER fail BEFORE INSERT OR UPDATE OR DELETE ON graveler_kv"
                " FOR EACH STATEMENT EXECUTE FUNCTION fail()"
            )
        )


def _wait_for(connection: psycopg.Connection, question: str) -> None:
    """Repeat the query until it returns true."""
    for _ in range(1000):
        if connection.execute(question).fetchone() == (True,):
            return
        connection.rollback()  # one transaction would always see its first snapshot
        connection.execute("SELECT pg_sleep(0.01)")
    pytest.fail(f"never came true: {question}")


@pytest.fixture
def end_connections(postgres_url: str) -> Callable[[], None]:
    """Ends all connections of the store."""

    def end() -> None:
        with psycopg.connect(for_libpq(postgres_url), autocommit=True) as connection:
            # The second argument is the number of milliseconds to wait for the end.
            connection.execute(f"SELECT pg_terminate_backend(pid, 10000) {_OURS}")
            assert connection.execute(f"SELECT count(*) {_OURS}").fetchone() == (0,)

    return end


class TestPostgresConnections(ConnectionsSuite):
    scheme = "postgresql"
    opens = PostgresKVStore

    def test_batches_in_opposite_order_do_not_block_each_other(self, store: KVStore) -> None:
        super().test_batches_in_opposite_order_do_not_block_each_other(store)
        assert isinstance(store, PostgresKVStore)
        with store._engine.connect() as connection:
            deadlocks = "SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()"
            assert connection.execute(text(deadlocks)).scalar_one() == 0


def test_a_connection_is_set_up_with_its_bounds(store: PostgresKVStore) -> None:
    with store._engine.connect() as connection:
        parameters = connection.connection.dbapi_connection.info.get_parameters()  # type: ignore[union-attr]
        assert connection.connection.dbapi_connection.answer_s == 30  # type: ignore[union-attr]
    assert parameters["connect_timeout"] == "9"


def test_the_server_ends_what_waits_for_a_locked_table(
    store: PostgresKVStore, postgres_url: str
) -> None:
    """The client gave up after 30 s, and its sessions waited until the table was free."""
    with (
        psycopg.connect(for_libpq(postgres_url)) as stranger,
        PostgresKVStore(postgres_url, no_progress_s=1) as impatient,
    ):
        stranger.execute("LOCK TABLE graveler_kv")
        with pytest.raises(BackendUnavailableError, match="lock timeout"):
            impatient.get("p", b"k")
        waiting = f"SELECT count(*) {_OURS} AND wait_event_type = 'Lock'"
        assert stranger.execute(waiting).fetchone() == (0,)


def test_the_url_overrides_the_bounds(postgres_url: str) -> None:
    with (
        PostgresKVStore(postgres_url + "&connect_timeout=3") as store,
        store._engine.connect() as connection,
    ):
        parameters = connection.connection.dbapi_connection.info.get_parameters()  # type: ignore[union-attr]
    assert parameters["connect_timeout"] == "3"


@pytest.mark.parametrize("encoding", ["SQL_ASCII", "LATIN1"])
def test_keys_are_found_in_a_database_of_any_encoding(postgres_url: str, encoding: str) -> None:
    there = make_url(postgres_url).difference_update_query(["options"])  # it names a schema
    named = there.set(database=f"of_{encoding.lower()}")
    with psycopg.connect(for_libpq(postgres_url), autocommit=True) as connection:
        connection.execute(f"DROP DATABASE IF EXISTS {named.database}")
        connection.execute(
            f"CREATE DATABASE {named.database} ENCODING '{encoding}' TEMPLATE template0"
            " LC_COLLATE 'C' LC_CTYPE 'C'"
        )
    with PostgresKVStore(named.render_as_string(hide_password=False)) as store:
        keys = [("a", b"1"), ("b", b"2")]
        for partition, key in keys:
            store.set(partition, key, b"v")
        assert [one and one.value for one in store.get_many(keys)] == [b"v", b"v"]
        assert list(store.partitions("a")) == ["a"]


def test_partitions_compare_bytewise_whatever_the_database_does(store: PostgresKVStore) -> None:
    with store._engine.connect() as connection:
        collation = connection.execute(
            text(
                "SELECT collation_name FROM information_schema.columns"
                " WHERE table_schema = current_schema() AND table_name = 'graveler_kv'"
                " AND column_name = 'partition'"
            )
        ).scalar_one()
    assert collation == "C"


@pytest.mark.parametrize("conditional", [False, True])
def test_what_the_library_gives_up_is_a_named_error(
    store: PostgresKVStore, conditional: bool
) -> None:
    def ended(*_: object) -> None:
        raise DisconnectionError

    def broken(*_: object) -> None:
        raise StatementError("timed out", "SELECT 1", {}, TimeoutError("timed out"))

    event.listen(store._engine, "before_cursor_execute", broken)
    with pytest.raises(OutcomeUnknownError if conditional else BackendUnavailableError):
        store.set_if("p", b"k", b"v", ABSENT) if conditional else store.get("p", b"k")
    event.listen(store._engine, "checkout", ended)
    with pytest.raises(BackendUnavailableError, match="closed"):
        store.set_if("p", b"k", b"v", ABSENT) if conditional else store.get("p", b"k")


@pytest.mark.parametrize("state", ["40001", "40P01"])
def test_a_transaction_that_the_server_took_back_is_repeated(
    store: PostgresKVStore, state: str
) -> None:
    _fail(store, "CASE TG_OP WHEN 'INSERT' THEN nextval('writes') % 3 <> 0 END", state)
    store.set_if("p", b"k", b"1", ABSENT)
    store.set("p", b"k", b"2")
    store.set_many("p", [(b"l", b"3")])
    with pytest.raises(PreconditionFailedError):
        store.set_if("p", b"k", b"4", b"1")
    assert list(store.scan("p")) == [(b"k", b"2"), (b"l", b"3")]
    with store._engine.connect() as connection:
        assert connection.execute(text("SELECT last_value FROM writes")).scalar_one() == 9


@pytest.mark.parametrize(
    ("state", "kind"),
    [
        ("53100", StorageFullError),
        ("53200", BackendUnavailableError),
        ("40001", BackendUnavailableError),
        ("57014", BackendUnavailableError),
        ("XX001", CorruptionError),
        ("XX002", CorruptionError),
        ("25006", InvalidInputError),
        ("42501", PermissionDeniedError),
        ("22P05", InvalidInputError),
        ("3F000", InvalidInputError),
        ("22012", InternalError),
    ],
)
def test_what_the_server_says_becomes_what_the_caller_can_do(
    store: PostgresKVStore, state: str, kind: type[GravelerError]
) -> None:
    store.set_many("p", [(b"k", b"v"), (b"l", b"v")])
    _fail(store, "true", state)
    for call in [
        lambda: store.set("p", b"k", b"w"),
        lambda: store.set_many("p", [(b"k", b"w")]),
        lambda: store.set_if("p", b"k", b"w", PRESENT),
        lambda: store.delete("p", b"k"),
        lambda: store.drop("p"),
    ]:
        with pytest.raises(kind, match="failed on purpose") as caught:
            call()
        assert type(caught.value) is kind
    assert list(store.scan("p")) == [(b"k", b"v"), (b"l", b"v")]


def test_a_role_that_may_not_make_the_table_is_told(postgres_url: str) -> None:
    with psycopg.connect(for_libpq(postgres_url), autocommit=True) as connection:
        schema = connection.execute("SELECT current_schema()").fetchone()
        assert schema is not None
        role = f"role_{schema[0]}"
        connection.execute(f"CREATE ROLE {role} LOGIN")
        connection.execute(f"GRANT USAGE ON SCHEMA {schema[0]} TO {role}")
        try:
            with pytest.raises(PermissionDeniedError, match="grant it"):
                PostgresKVStore(postgres_url.replace("postgres@", f"{role}@"))
            # The role needs only a table that another user has made.
            PostgresKVStore(postgres_url).close()
            connection.execute(
                f"GRANT SELECT, INSERT, UPDATE, DELETE ON {schema[0]}.graveler_kv TO {role}"
            )
            with PostgresKVStore(postgres_url.replace("postgres@", f"{role}@")) as store:
                store.set("p", b"k", b"v")
        finally:
            connection.execute(f"DROP OWNED BY {role}")
            connection.execute(f"DROP ROLE {role}")


@pytest.fixture(scope="module")
def guarded() -> Iterator[Path]:
    with guarded_server("ann", "right") as host:
        yield host


@pytest.mark.parametrize(
    ("login", "database", "kind", "reason"),
    [
        ("ann:s3cret", "postgres", PermissionDeniedError, "correct the user and the password"),
        ("ann", "postgres", PermissionDeniedError, "no password supplied"),
        ("stranger:s3cret", "postgres", PermissionDeniedError, "authentication failed"),
        ("ann:right", "nowhere", InvalidInputError, '"nowhere" does not exist: make the database'),
    ],
)
def test_a_refused_connection_is_not_tried_again(
    guarded: Path, login: str, database: str, kind: type[GravelerError], reason: str
) -> None:
    clock = FakeClock()
    start = clock.now()
    with pytest.raises(kind, match=reason) as caught:
        PostgresKVStore(f"postgresql://{login}@/{database}?host={guarded}", clock=clock)
    assert "s3cret" not in str(caught.value)
    assert clock.now() - start < timedelta(milliseconds=1)  # no pause and no second try


@pytest.mark.parametrize(
    ("query", "reason"),
    [
        ("pool=9", r"unknown options \['pool'\].*sslmode"),
        ("row_factory=dict", r"unknown options \['row_factory'\]"),
        ("connect_timeout=soon", "connect_timeout"),
    ],
)
def test_an_option_that_the_driver_does_not_take_is_told(query: str, reason: str) -> None:
    with pytest.raises(InvalidInputError, match=reason) as caught:
        PostgresKVStore(f"postgresql://u:s3cret@127.0.0.1:1/d?{query}", clock=FakeClock())
    assert "s3cret" not in str(caught.value)


def test_openers_of_an_empty_database_wait_for_the_table(
    postgres_url: str,
) -> None:
    with (
        psycopg.connect(for_libpq(postgres_url)) as other,
        psycopg.connect(for_libpq(postgres_url)) as watcher,
    ):
        other.execute(_CREATE.text)
        with ThreadPoolExecutor(1) as pool:
            opening = pool.submit(PostgresKVStore, postgres_url)
            _wait_for(watcher, f"SELECT count(*) = 1 {_OURS} AND wait_event_type = 'Lock'")
            other.commit()
            with opening.result(timeout=60) as store:
                store.set("p", b"k", b"v")


def test_a_connection_in_use_is_closed_when_it_is_given_back(
    store: PostgresKVStore, postgres_url: str
) -> None:
    lock = text("SELECT pg_advisory_xact_lock(20131)")
    with (
        psycopg.connect(for_libpq(postgres_url), autocommit=True) as other,
        ThreadPoolExecutor(1) as pool,
    ):
        other.execute("SELECT pg_advisory_lock(20131)")
        working = pool.submit(store._run, lambda c: c.execute(lock).rowcount)
        _wait_for(other, f"SELECT count(*) = 1 {_OURS} AND wait_event = 'advisory'")
        store.close()
        other.execute("SELECT pg_advisory_unlock(20131)")
        assert working.result(timeout=60) == 1
        _wait_for(other, f"SELECT count(*) = 0 {_OURS}")


def test_a_session_ends_when_it_was_idle_for_a_minute(store: PostgresKVStore) -> None:
    asked = text("SELECT current_setting('idle_session_timeout')")
    assert store._run(lambda c: c.execute(asked).scalar_one()) == "1min"
    with store._engine.connect() as connection:
        connection.execute(text("SET idle_session_timeout = '300ms'"))
        connection.commit()
    SystemClock().sleep(1)
    assert store.get("p", b"k") is None  # the pool makes a new session
