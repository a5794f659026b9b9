"""A parent process for a harness. It kills what the harness leaves behind.

The kernel gives the reaper the orphans of its descendants: what an orchestrator starts and what
its killed processes leave behind. When the harness ends, for whatever reason, the reaper kills
the processes that are left. When the reaper dies, the harness gets a signal and ends.
"""

import ctypes
import os
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

_PDEATHSIG = 1
_CHILD_SUBREAPER = 36


def _prctl(option: int, value: int) -> None:
    if ctypes.CDLL(None, use_errno=True).prctl(option, value, 0, 0, 0):
        raise OSError(ctypes.get_errno(), "prctl")


def leash() -> None:
    """Make this process receive SIGTERM when its parent dies."""
    _prctl(_PDEATHSIG, signal.SIGTERM)


def end_with_reaper() -> None:
    """End this process when its parent, the reaper, dies."""
    leash()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # runs every `finally`


def keep(command: list[str]) -> int:
    """Run a command to its end, kill what it leaves behind, and return its status."""
    _prctl(_CHILD_SUBREAPER, 1)
    harness = subprocess.Popen(command)
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: harness.terminate())
    status = _wait(harness.pid)
    while left := descendants(os.getpid()):
        for process in left:
            with suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)
        with suppress(ChildProcessError):
            os.waitpid(-1, 0)
    return status


def _wait(pid: int) -> int:
    while True:
        found, status = os.waitpid(-1, 0)
        if found == pid:
            return os.waitstatus_to_exitcode(status)


def descendants(root: int) -> list[int]:
    """Return the processes below `root`, also dead ones that are not reaped."""
    parents: dict[int, int] = {}
    for process in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            fields = process.read_text().rpartition(")")[2].split()
            parents[int(process.parent.name)] = int(fields[1])
    found = []
    for process_id in parents:
        ancestor = process_id
        while ancestor > 1 and ancestor != root:
            ancestor = parents.get(ancestor, 0)
        if ancestor == root and process_id != root:
            found.append(process_id)
    return found
