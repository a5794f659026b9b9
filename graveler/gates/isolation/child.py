"""What runs in the process of a gate: one check, on the candidate that the publisher names."""

import os
import pickle
import resource
import signal
import socket
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from threading import Thread
from types import SimpleNamespace
from typing import Any, Final, NoReturn, cast

from graveler.gates.answer import Answer, Check, ask, died
from graveler.gates.candidate import Candidate
from graveler.gates.isolation.channel import send
from graveler.gates.isolation.client import AskingSource
from graveler.read_only import only_judging

__all__ = ["Task", "main", "run_forked"]

_GRACE_S: Final = 30.0
_MIB: Final = 1 << 20


@dataclass(frozen=True, slots=True)
class Task:
    """One check and what it judges, as it travels to the process: no store, and no credentials.

    Attributes:
        name: The gate's name.
        check: The check.
        prefixes: Where the gate reads.
        reads: What it reads.
        told: What it may know of commit, target and run, by field.
        into: The branch.
        action: What would move it.
        seconds: How long the check may take.
        memory: Bytes the process may take beyond what it has when the check begins.
    """

    name: str
    check: Check
    prefixes: tuple[str, ...]
    reads: tuple[str, ...]
    told: Mapping[str, Mapping[str, Any]]
    into: str
    action: str
    seconds: float
    memory: int | None


def main() -> NoReturn:
    """Be the process of a gate: ``sys.argv`` holds the descriptors of channel, task and life."""
    channel, task, life = (int(number) for number in sys.argv[-3:])

    def load() -> Task:
        with os.fdopen(task, "rb") as file:
            loaded = pickle.load(file)  # noqa: S301 - our own, by way of an unlinked file
        if not isinstance(loaded, Task):
            raise TypeError(f"no task: {loaded!r}")
        return loaded

    _run(load, socket.socket(fileno=channel), life)


def run_forked(task: Task, channel: socket.socket, life: int) -> NoReturn:
    """Be the process of a gate, right after a fork."""
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGALRM):
        with suppress(ValueError, OSError):
            signal.signal(number, signal.SIG_DFL)
    with suppress(OSError):
        os.setsid()
    _run(lambda: task, channel, life)


def _run(load: Callable[[], Task], channel: socket.socket, life: int) -> NoReturn:
    """Judge and end the process: not a line of what would clean up after the parent runs."""
    try:
        Thread(target=_end_with_publisher, args=(life,), daemon=True).start()
        channel.settimeout(None)
        try:
            answer = _judge(load(), channel)
        except BaseException as error:  # noqa: BLE001 - it is told, and the process ends
            answer = died(f"{type(error).__name__}: {error}")
        _tell(channel, answer)
    finally:
        with suppress(Exception):
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(0)


def _end_with_publisher(life: int) -> None:
    """Take the process and its children along when the publisher dies, by whatever."""
    with suppress(OSError):
        while os.read(life, 1):
            continue
    os.killpg(0, signal.SIGKILL)


def _judge(task: Task, channel: socket.socket) -> Answer:
    commit, target, run = (
        cast(Any, SimpleNamespace(**task.told[name])) for name in ("commit", "target", "run")
    )
    source = AskingSource(channel)
    candidate = Candidate(
        source, commit, target=target, into=task.into, run=run, action=task.action
    )
    only_judging(task.name)
    if task.memory is not None:
        _limit_memory(task.memory)
    # who outlives a publisher that was killed, and holds the interpreter's lock, ends by this
    signal.setitimer(signal.ITIMER_REAL, task.seconds + _GRACE_S)
    send(channel, {"begun": True})
    return ask(task.name, task.check, candidate.of(task.name, task.prefixes, task.reads))


def _limit_memory(more: int) -> None:
    """Let the process take `more` bytes than it has."""
    limit = resource.RLIMIT_DATA if sys.platform == "linux" else resource.RLIMIT_AS
    resource.setrlimit(limit, (_taken() + more, resource.getrlimit(limit)[1]))


def _taken() -> int:
    status = Path("/proc/self/status")
    if not status.exists():
        return int(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
    fields = dict(line.split(":", 1) for line in status.read_text().splitlines() if ":" in line)
    return int(fields["VmData"].split()[0]) * 1024


def _tell(channel: socket.socket, answer: Answer) -> None:
    message = {
        "passed": answer.passed,
        "reason": answer.reason,
        "died": answer.died,
        "facts": dict(answer.facts),
        "seen": [
            [prefix, found.encode()]
            for (commit, prefix), found in answer.seen.items()
            if not commit
        ],
        "rule": answer.rule,
    }
    with suppress(OSError):
        send(channel, {"answer": message})
