"""A fail-over between two PostgreSQL servers: publishers continue, and nothing acknowledged is lost."""

import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from threading import Event
from time import monotonic
from typing import Any

import psycopg
import pytest

import graveler
from graveler.errors import GravelerError
from tests.harness.servers.postgres import postgres_server, socket_of

PUBLISHERS = 8
_REPLICATED = {"wal_level": "replica", "synchronous_standby_names": "'*'"}


@dataclass(frozen=True)
class Pair:
    """A primary, and a standby that has every acknowledged write."""

    primary: Any
    standby: Path
    promote: Callable[[], None]

    def url(self) -> str:
        hosts = f"{socket_of(self.primary)},{self.standby}"
        return f"postgresql://postgres@/postgres?host={hosts}&target_session_attrs=read-write"


@pytest.fixture
def pair() -> Iterator[Pair]:
    base = Path(tempfile.mkdtemp(prefix="graveler-pg-", dir="/tmp"))
    try:
        with postgres_server(durable=True, **_REPLICATED) as primary:
            owner = socket_of(primary).owner() if os.geteuid() == 0 else None
            if owner:
                shutil.chown(base, owner)
            binaries = Path(primary.get_postmaster_info().process.exe()).parent
            data, host = base / "data", str(socket_of(primary))

            def run(program: str, *arguments: str) -> None:
                command = [str(binaries / program), "-D", str(data), *arguments]
                subprocess.run(command, user=owner, check=True, stdout=subprocess.DEVNULL)

            run("pg_basebackup", "-h", host, "-U", "postgres", "-R", "-X", "stream")
            data.chmod(0o700)
            with (data / "postgresql.auto.conf").open("a") as settings:
                settings.write("synchronous_standby_names = ''\n")
            options = f"-c listen_addresses= -c unix_socket_directories={base}"
            run("pg_ctl", "-w", "-l", str(base / "log"), "-o", options, "start")
            try:
                yield Pair(primary, base, lambda: run("pg_ctl", "-w", "promote"))
            finally:
                run("pg_ctl", "-w", "-m", "immediate", "stop")
    finally:
        shutil.rmtree(base)


def _killed(pair: Pair) -> None:
    """The primary dies, and the standby takes its place."""
    pair.primary.get_postmaster_info().process.kill()
    pair.promote()


def _demoted(pair: Pair) -> None:
    """The primary keeps its sessions and takes no writes; the standby takes its place."""
    with psycopg.connect(
        user="postgres", host=str(socket_of(pair.primary)), autocommit=True
    ) as one:
        one.execute("ALTER SYSTEM SET default_transaction_read_only = on")
        one.execute("SELECT pg_reload_conf()")
    pair.promote()


@pytest.mark.crash
@pytest.mark.parametrize("fail_over", [_killed, _demoted])
def test_publishers_survive_a_fail_over(
    pair: Pair, fail_over: Callable[[Pair], None], tmp_path: Path
) -> None:
    (tmp_path / "graveler.toml").write_text(f'format = 1\n[kv]\nuri = "{pair.url()}"\n')
    enough, began = Event(), monotonic()
    failures: list[str] = []
    with graveler.open(tmp_path) as lake:
        repo = lake.create_repository("flights")

        def publish(publisher: int) -> list[str]:
            published, number = [], 0
            while not enough.is_set():
                number += 1
                name = f"{publisher}-{number}"
                try:
                    with repo.run(name) as run, run.step("write") as step:
                        step.put(name, name.encode())
                except GravelerError as error:
                    failures.append(f"{monotonic() - began:.1f} s: {error!r}")
                else:
                    published.append(name)
            return published

        with ThreadPoolExecutor(PUBLISHERS) as pool:
            publishers = [pool.submit(publish, number) for number in range(PUBLISHERS)]
            enough.wait(3)
            fail_over(pair)
            enough.wait(8)
            enough.set()
            published = [publisher.result(timeout=120) for publisher in publishers]
        there = {entry.path for entry in repo.branch("main").list()}
    assert {name for names in published for name in names} <= there
    assert all(names for names in published)
    assert failures == []
