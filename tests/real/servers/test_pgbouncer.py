"""A pooler gives each transaction another session, and shares the sessions with others."""

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

import graveler
from graveler.kv.drivers.postgres import PostgresKVStore
from graveler.kv.turns import PARTITION
from tests.harness.servers.pgbouncer import pooler
from tests.harness.servers.postgres import every_write, noted_waits, postgres_server, socket_of
from tests.harness.workers import ROOT

PROCESSES = 8
THREADS = 5
RUNS = 2

_PUBLISH = """
import sys
from concurrent.futures import ThreadPoolExecutor
import graveler

lake, number, threads, runs = sys.argv[1], *map(int, sys.argv[2:])
with graveler.open(lake) as opened:
    repo = opened.repository("flights")

    def publish(thread):
        for run in range(runs):
            name = f"{number}-{thread}-{run}"
            with repo.run(name) as work, work.step("write") as step:
                step.put(name, name.encode())

    with ThreadPoolExecutor(threads) as pool:
        list(pool.map(publish, range(threads)))
"""


@pytest.fixture(scope="module")
def server() -> Iterator[Any]:
    """A PostgreSQL whose database does not wait for the disk."""
    with postgres_server(durable=True) as server:
        with psycopg.connect(_direct(server), autocommit=True) as connection:
            connection.execute("ALTER DATABASE postgres SET synchronous_commit = off")
        yield server


def _direct(server: Any) -> str:
    return f"postgresql://postgres@/postgres?host={socket_of(server)}"


# all that is acknowledged waits for the disk; a turn, which a crash ends, does not
WAITS = [*((kind, "on") for kind in ("DELETE", "INSERT", "UPDATE")), ("turn", "off")]


@pytest.mark.parametrize("mode", ["session", "transaction", "statement"])
def test_each_write_waits_for_the_disk_in_every_mode(server: Any, mode: str) -> None:
    with psycopg.connect(_direct(server), autocommit=True) as connection:
        connection.execute("DROP TABLE IF EXISTS graveler_kv")
    with (
        pooler(socket_of(server), mode) as url,
        PostgresKVStore(url) as store,
        noted_waits(_direct(server)) as waits,
    ):
        for number in range(10):  # psycopg prepares a statement that it has sent five times
            every_write(store)
            with store.turn("main", 10) as had:
                assert had
            assert list(store.scan("p")) == []
            store.get_many([("p", b"%d" % number), ("p", b"k")])
        assert waits() == WAITS
        with psycopg.connect(_direct(server)) as connection:
            assert connection.execute("SELECT count(*) FROM pg_prepared_statements").fetchone()


def test_sessions_keep_the_settings_of_others(server: Any) -> None:
    asked = "SELECT current_setting('idle_session_timeout'), current_setting('lock_timeout')"
    with pooler(socket_of(server), "transaction", size=1) as url:
        with PostgresKVStore(url) as store:
            every_write(store)
        host = url.partition("host=")[2].partition("&")[0]
        with psycopg.connect(user="postgres", host=host, port=6432, autocommit=True) as connection:
            assert connection.execute(asked).fetchone() == ("0", "0")
            assert connection.execute("SELECT * FROM pg_prepared_statements").fetchall() == []


def test_forty_publishers_share_five_sessions(server: Any, tmp_path: Path) -> None:
    with (
        pooler(socket_of(server), "transaction") as url,
        PostgresKVStore(url) as store,
        noted_waits(_direct(server)) as waits,
    ):
        (tmp_path / "graveler.toml").write_text(f"format = 1\n[kv]\nuri = {json.dumps(url)}\n")
        with graveler.open(tmp_path) as lake:
            repo = lake.create_repository("flights")
            arguments = [str(tmp_path), *map(str, (THREADS, RUNS))]
            publishers = [
                subprocess.Popen(
                    [sys.executable, "-c", _PUBLISH, arguments[0], str(number), *arguments[1:]],
                    cwd=ROOT,
                )
                for number in range(PROCESSES)
            ]
            assert [publisher.wait(timeout=300) for publisher in publishers] == [0] * PROCESSES
            names = {entry.path for entry in repo.branch("main").list()}
        assert len(names) == PROCESSES * THREADS * RUNS
        assert list(store.scan(PARTITION)) == []
        assert waits() == WAITS
