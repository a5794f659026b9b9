"""A real PgBouncer for the tests, in front of a PostgreSQL."""

import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from time import monotonic
from urllib.parse import quote

import psycopg
import pytest

from graveler.base.clock import SystemClock

PORT = 6432


@contextmanager
def pooler(server: Path, mode: str, *, size: int = 5) -> Iterator[str]:
    """Run a pooler for a block; yield the URL of the database behind it, as `killed_pooler` does."""
    with killed_pooler(server, mode, size=size) as (url, _):
        yield url


@contextmanager
def killed_pooler(
    server: Path, mode: str, *, size: int = 5
) -> Iterator[tuple[str, Callable[[], None]]]:
    """Run a pooler for a block, which leaves no files.

    Args:
        server: The folder of the server's socket.
        mode: ``session``, ``transaction`` or ``statement``.
        size: The number of connections to the server.

    Yields:
        The URL of the database behind it, and a function that kills the pooler and starts it again.
    """
    program = shutil.which("pgbouncer") or shutil.which("pgbouncer", path="/usr/sbin")
    if program is None:
        pytest.skip("no pgbouncer on this machine: `make tools` as root installs Debian's package")
    base = Path(tempfile.mkdtemp(prefix="graveler-pb-", dir="/tmp"))
    user = ["-u", server.owner()] if os.geteuid() == 0 else []

    def start() -> "subprocess.Popen[bytes]":
        with (base / "log").open("ab") as log:
            process = subprocess.Popen([program, *user, str(settings)], stdout=log, stderr=log)
        _wait_for(base, process)
        return process

    try:
        base.chmod(0o777)  # for the server's user, which only root can become
        settings = base / "pgbouncer.ini"
        settings.write_text(
            f"[databases]\n* = host={server} user=postgres\n"
            f"[pgbouncer]\nunix_socket_dir = {base}\nlisten_port = {PORT}\nauth_type = any\n"
            f"pool_mode = {mode}\ndefault_pool_size = {size}\nmax_client_conn = 500\n"
        )
        process = start()

        def restart() -> None:
            nonlocal process
            process.kill()
            process.wait(timeout=60)
            process = start()

        try:
            yield f"postgresql://postgres@/postgres?host={quote(str(base))}&port={PORT}", restart
        finally:
            process.terminate()
            process.wait(timeout=60)
    finally:
        shutil.rmtree(base)


def _wait_for(base: Path, process: "subprocess.Popen[bytes]") -> None:
    until = monotonic() + 60
    while monotonic() < until and process.poll() is None:
        try:
            psycopg.connect(user="postgres", host=str(base), port=PORT).close()
        except psycopg.OperationalError:
            SystemClock().sleep(0.05)
        else:
            return
    pytest.fail(f"the pooler did not start:\n{(base / 'log').read_text()}")
