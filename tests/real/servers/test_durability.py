"""Writes that a database acknowledges survive its crash, or graveler refuses the database."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pymysql
import pytest
from sqlalchemy import text

from graveler.errors import InvalidInputError
from graveler.kv.drivers.mysql import MySQLKVStore
from graveler.kv.drivers.postgres import PostgresKVStore
from graveler.kv.store import ABSENT
from tests.harness.servers.mysql import mysql_server
from tests.harness.servers.postgres import (
    every_write,
    noted_waits,
    postgres_server,
    socket_of,
)


@pytest.fixture(scope="module")
def server() -> Iterator[Any]:
    """A durable PostgreSQL whose WAL writer runs only every ten seconds."""
    with postgres_server(durable=True, wal_writer_delay="10s") as server:
        yield server


def _url(server: Any, role: str = "postgres") -> str:
    return f"postgresql://{role}@/postgres?host={socket_of(server)}"


def _admin(server: Any, statement: str) -> None:
    with psycopg.connect(_url(server), autocommit=True) as connection:
        connection.execute(statement)


def _kill(server: Any) -> None:
    process = server.get_postmaster_info().process
    victims = [process, *process.children(recursive=True)]
    for victim in victims:
        victim.kill()
    for victim in victims:
        victim.wait(30)
    server.start()


@pytest.mark.crash
def test_acknowledged_writes_survive_a_server_told_not_to_wait(server: Any) -> None:
    _admin(server, "ALTER ROLE postgres SET synchronous_commit = off")
    try:
        with PostgresKVStore(_url(server)) as store:
            for number in range(50):
                store.set_if("acknowledged", b"%02d" % number, b"v", ABSENT)
            _kill(server)
            assert len(list(store.scan("acknowledged"))) == 50
    finally:
        _admin(server, "ALTER ROLE postgres RESET synchronous_commit")


@pytest.mark.parametrize(
    ("configured", "query", "holds"),
    [
        ("off", "", "on"),
        ("local", "", "on"),
        ("remote_write", "", "on"),
        ("on", "", "on"),
        ("remote_apply", "", "remote_apply"),
        ("off", "&durability=server", "off"),
    ],
)
def test_each_write_waits_for_the_disk(
    server: Any, configured: str, query: str, holds: str
) -> None:
    _admin(server, f"ALTER DATABASE postgres SET synchronous_commit = {configured}")
    try:
        with PostgresKVStore(_url(server) + query) as store, noted_waits(_url(server)) as waits:
            every_write(store)
            with store.turn("main", 10):
                pass
            written = [(kind, holds) for kind in ("DELETE", "INSERT", "UPDATE")]
            assert waits() == [*written, ("turn", "off")]
            with store._engine.connect() as connection:
                setting = connection.execute(text("SHOW synchronous_commit")).scalar_one()
            assert setting == configured  # the session has what it had
    finally:
        _admin(server, "ALTER DATABASE postgres RESET synchronous_commit")


def test_a_server_that_flushes_nothing_is_refused(postgres_socket: Path) -> None:
    url = f"postgresql://postgres@/postgres?host={postgres_socket}"
    with pytest.raises(InvalidInputError, match=r"fsync is off, not on\. .*durability=server"):
        PostgresKVStore(url)
    PostgresKVStore(url + "&durability=server").close()


def test_a_table_that_a_crash_empties_is_refused(server: Any) -> None:
    url = _url(server)
    PostgresKVStore(url).close()
    _admin(server, "ALTER TABLE graveler_kv SET UNLOGGED")
    try:
        with pytest.raises(InvalidInputError, match="graveler_kv is unlogged, not logged"):
            PostgresKVStore(url)
        PostgresKVStore(url + "&durability=server").close()
    finally:
        _admin(server, "ALTER TABLE graveler_kv SET LOGGED")


@pytest.mark.parametrize("url", ["postgresql://h/d", "mysql://h/d"])
def test_durability_is_what_it_may_be(url: str) -> None:
    store = PostgresKVStore if url.startswith("p") else MySQLKVStore
    with pytest.raises(InvalidInputError, match=r"durability='no': give 'server'"):
        store(url + "?durability=no")


_UNSAFE = {
    "--innodb-flush-log-at-trx-commit=2": "innodb_flush_log_at_trx_commit is 2, not 1",
    "--log-bin=log --sync-binlog=0": "sync_binlog is 0, not 1",
    "--skip-innodb-doublewrite": "innodb_doublewrite is 0, not 1",
}


@pytest.mark.parametrize("settings", [*_UNSAFE, "--sync-binlog=0", "--log-bin=log --sync-binlog=1"])
def test_a_mysql_that_can_lose_what_it_acknowledged_is_refused(settings: str) -> None:
    with mysql_server(*settings.split()) as socket:
        with pymysql.connect(user="root", unix_socket=str(socket)) as connection:
            connection.cursor().execute("CREATE DATABASE lake")
        url = f"mysql://root@localhost/lake?unix_socket={socket}"
        if settings in _UNSAFE:
            with pytest.raises(InvalidInputError, match=_UNSAFE[settings]):
                MySQLKVStore(url)
            MySQLKVStore(url + "&durability=server").close()
        else:
            with MySQLKVStore(url) as store, store._engine.connect() as admin:
                admin.execute(text("DROP TABLE graveler_kv"))
                admin.execute(text("CREATE TABLE graveler_kv (value LONGBLOB) ENGINE=MyISAM"))
            with pytest.raises(InvalidInputError, match="engine of graveler_kv is MyISAM, not"):
                MySQLKVStore(url)
