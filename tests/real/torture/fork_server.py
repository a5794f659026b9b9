"""A process with all modules imported. It forks a victim for each request.

A cycle then takes only the time of its victim, not the start of an interpreter. The fork server
opens no store. A request is a line of JSON with the plan of a victim and the time of its kill. The
victim writes its lines to the output of the fork server, which adds a line about the victim's end.
"""

import gc
import json
import logging
import os
import pkgutil
import select
import signal
import subprocess
import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from tests.real.torture.victim import Plan, work

PRELOADED = (
    "graveler.kv.drivers.postgres",
    "graveler.kv.drivers.rocksdb",
    "graveler.kv.drivers.sqlite",
    "graveler.gc",
    "sqlalchemy.dialects.postgresql.psycopg",
)
"""Modules that are imported at their first use, which would cost each victim time."""

PACKAGES = (
    "committed", "gc", "lake", "publishing", "reads", "refs", "repository", "runs", "sstable", "staging",
)  # fmt: skip
"""Packages of graveler whose modules are all imported."""

_LONGEST = 60.0


class ForkServer:
    """The client side of a fork server, for a ``with`` block."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.real.torture.fork_server"],
            cwd=Path(__file__).parents[3],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._process.communicate(timeout=_LONGEST)

    def raise_victim(
        self, plan: Plan, *, kill_after: float | None, from_birth: bool = False
    ) -> Iterator[dict[str, Any]]:
        """Yield the lines of a victim, and then ``{"ended": status}`` after its death.

        Args:
            plan: The plan of the victim.
            kill_after: Seconds until the kill; None lets the victim end by itself.
            from_birth: Count the seconds from the fork, and not from the open of the lake.
        """
        request = {"plan": plan.line(), "after": kill_after, "birth": from_birth}
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(request).encode() + b"\n")
        self._process.stdin.flush()
        while True:
            raw = self._process.stdout.readline()
            if not raw:
                raise RuntimeError("the fork server died")
            line = json.loads(raw)
            yield line
            if "ended" in line:
                return


def main() -> None:
    """Serve until the input ends."""
    gc.freeze()  # children need not collect imported objects
    logging.disable(logging.CRITICAL)  # victims log much while a database is stopped
    for raw in sys.stdin.buffer:
        request = json.loads(raw)
        ended = _raise(Plan.read(request["plan"]), request["after"], birth=request["birth"])
        os.write(1, json.dumps({"ended": ended}).encode() + b"\n")


def _raise(plan: Plan, after: float | None, *, birth: bool) -> int:
    told, tell = os.pipe()
    child = os.fork()
    if child == 0:
        status = 1
        try:
            os.close(told)
            work(plan, lambda: os.write(tell, b"!"))
            status = 0
        finally:
            os._exit(status)
    os.close(tell)
    handle = os.pidfd_open(child)
    if not birth:
        select.select([told], [], [], _LONGEST)  # the victim is ready or dead
    ended, _, _ = select.select([handle], [], [], _LONGEST if after is None else after)
    if not ended:
        os.kill(child, signal.SIGKILL)
    os.close(told)
    os.close(handle)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def preload() -> None:
    """Import the modules that victims use."""
    for module in PRELOADED:
        import_module(module)
    for package in PACKAGES:
        folder = import_module(f"graveler.{package}").__path__
        for found in pkgutil.walk_packages(folder, f"graveler.{package}."):
            import_module(found.name)


if __name__ == "__main__":
    preload()
    main()
