"""A real MariaDB or MySQL for the tests: one server per session, one empty database per use."""

import os
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from time import monotonic
from urllib.parse import quote

import pymysql
import pytest

from graveler.base.clock import SystemClock

_numbers = count(1)
_PROGRAMS = ("mariadbd", "mysqld")


def _found(name: str) -> str | None:
    # Servers may be in folders that are not on a user's PATH.
    return shutil.which(name) or shutil.which(name, path=f"{os.defpath}:/usr/sbin:/usr/local/sbin")


_FAST = (
    "--skip-log-bin",
    "--innodb-flush-log-at-trx-commit=0",
    "--innodb-flush-method=nosync",
    "--skip-innodb-doublewrite",
)


@contextmanager
def mysql_server(*settings: str) -> Iterator[Path]:
    """Run a server for a block, which leaves no files; yield its socket.

    Args:
        settings: Its options; by default the fastest ones.
    """
    program = next(filter(None, map(_found, _PROGRAMS)), None)
    if program is None:
        pytest.skip(
            f"no {' or '.join(_PROGRAMS)} on this machine: install Debian's mariadb-server,"
            " and the tests start a server of their own"
        )
    # not below pytest's own folder, because a socket's path must be short
    base = Path(tempfile.mkdtemp(prefix="graveler-my-", dir="/tmp"))
    try:
        with _server(program, base, settings or _FAST) as address:
            yield address
    finally:
        shutil.rmtree(base)


@contextmanager
def _server(program: str, base: Path, settings: Sequence[str]) -> Iterator[Path]:
    data, address, log = base / "data", base / "socket", base / "log"
    options = ["--no-defaults", f"--datadir={data}"]
    if os.geteuid() == 0:
        options.append("--user=root")
    installer = _found("mariadb-install-db")
    if installer is not None:
        command = [installer, *options, "--auth-root-authentication-method=normal"]
    else:
        command = [program, *options, "--initialize-insecure"]
    with log.open("wb") as output:
        subprocess.run(command, stdout=output, stderr=output, check=True)
        process = subprocess.Popen(
            [
                *(program, *options, f"--socket={address}", f"--pid-file={base}/pid"),
                *("--skip-networking", "--max-connections=200"),
                *settings,
            ],
            stdout=output,
            stderr=output,
        )
        try:
            _wait_for(process, address, log)
            yield address
        finally:
            process.terminate()
            process.wait(timeout=60)


def _wait_for(process: "subprocess.Popen[bytes]", address: Path, log: Path) -> None:
    until = monotonic() + 60
    while monotonic() < until and process.poll() is None:
        with socket.socket(socket.AF_UNIX) as attempt:
            if attempt.connect_ex(str(address)) == 0:
                return
        SystemClock().sleep(0.05)
    pytest.fail(f"the server did not start:\n{log.read_text(errors='replace')}")


@pytest.fixture(scope="session")
def mysql_socket() -> Iterator[Path]:
    """The server's socket; the server ends with the session and leaves no files."""
    with mysql_server() as address:
        yield address


@pytest.fixture
def mysql_url(mysql_socket: Path) -> Iterator[str]:
    """The URL of an empty database, dropped after the test."""
    name = f"graveler_{next(_numbers)}"
    with pymysql.connect(user="root", unix_socket=str(mysql_socket)) as connection:
        with connection.cursor() as cursor:
            cursor.execute(f"CREATE DATABASE {name}")
            yield (
                f"mysql://root@localhost/{name}?unix_socket={quote(str(mysql_socket))}"
                "&durability=server"
            )
            cursor.execute(f"DROP DATABASE {name}")
