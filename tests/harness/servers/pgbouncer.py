"""A real PgBouncer for the tests, in front of a PostgreSQL."""

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from time import monotonic
from urllib.parse import quote

import psycopg
import pytest

from graveler.clock import SystemClock

PORT = 6432


@contextmanager
def pooler(server: Path, mode: str, *, size: int = 5) -> Iterator[str]:
    """Run a pooler for a block, which leaves no files; yield the URL of the database behind it.

    Args:
        server: The folder of the server's socket.
        mode: ``session``, ``transaction`` or ``statement``.
        size: The number of connections to the server.
    """
    program = shutil.which("pgbouncer") or shutil.which("pgbouncer", path="/usr/sbin")
    if program is None:
        pytest.skip("no pgbouncer on this machine: `make tools` as root installs Debian's package")
    base = Path(tempfile.mkdtemp(prefix="graveler-pb-", dir="/tmp"))
    try:
        base.chmod(0o777)  # for the server's user, which only root can become
        settings = base / "pgbouncer.ini"
        settings.write_text(
            f"[databases]\n* = host={server} user=postgres\n"
            f"[pgbouncer]\nunix_socket_dir = {base}\nlisten_port = {PORT}\nauth_type = any\n"
            f"pool_mode = {mode}\ndefault_pool_size = {size}\nmax_client_conn = 500\n"
        )
        user = ["-u", server.owner()] if os.geteuid() == 0 else []
        with (base / "log").open("wb") as log:
            process = subprocess.Popen([program, *user, str(settings)], stdout=log, stderr=log)
        try:
            _wait_for(base, process)
            yield f"postgresql://postgres@/postgres?host={quote(str(base))}&port={PORT}"
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
