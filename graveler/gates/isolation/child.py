"""The process of a gate: it runs one check on the candidate that the publisher names."""

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

from graveler.gates.candidate import Candidate
from graveler.gates.gate import Answer, Check, ask, died
from graveler.gates.isolation.channel import send
from graveler.gates.isolation.client import RemoteSource
from graveler.process import only_judging

_GRACE_S: Final = 30.0
_MIB: Final = 1 << 20


@dataclass(frozen=True, slots=True)
class Task:
    """One check and its candidate, as sent to the process: without stores and credentials.

    Attributes:
        name: The gate's name.
        check: The check.
        prefixes: The prefixes that the gate reads.
        reads: The inputs that the gate declares.
        fields: The fields of commit, target and run that the gate may read.
        into: The branch that would move.
        action: The action that would move it.
        seconds: Timeout of the check.
        memory: Bytes that the process may allocate in addition once the check starts.
    """

    name: str
    check: Check
    prefixes: tuple[str, ...]
    reads: tuple[str, ...]
    fields: Mapping[str, Mapping[str, Any]]
    into: str
    action: str
    seconds: float
    memory: int | None


def main() -> NoReturn:
    """Run the task of a fresh interpreter; ``sys.argv`` has the descriptors of channel, task and life."""
    channel, task, life = (int(number) for number in sys.argv[-3:])

    def load() -> Task:
        with os.fdopen(task, "rb") as file:
            loaded = pickle.load(file)  # noqa: S301 - written by the publisher to an unlinked file
        if not isinstance(loaded, Task):
            raise TypeError(f"no task: {loaded!r}")
        return loaded

    _run(load, socket.socket(fileno=channel), life)


def run_forked(task: Task, channel: socket.socket, life: int) -> NoReturn:
    """Run the task in a forked process."""
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGALRM):
        with suppress(ValueError, OSError):
            signal.signal(number, signal.SIG_DFL)
    with suppress(OSError):
        os.setsid()
    _run(lambda: task, channel, life)


def _run(load: Callable[[], Task], channel: socket.socket, life: int) -> NoReturn:
    """Run the check and exit at once: no cleanup code of the parent may run here."""
    try:
        Thread(target=_exit_with_publisher, args=(life,), daemon=True).start()
        channel.settimeout(None)
        try:
            answer = _judge(load(), channel)
        except BaseException as error:  # noqa: BLE001 - sent as the answer
            answer = died(f"{type(error).__name__}: {error}")
        _send_answer(channel, answer)
    finally:
        with suppress(Exception):
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(0)


def _exit_with_publisher(life: int) -> None:
    """Kill the process group when the publisher dies."""
    with suppress(OSError):
        while os.read(life, 1):
            continue
    os.killpg(0, signal.SIGKILL)


def _judge(task: Task, channel: socket.socket) -> Answer:
    commit, target, run = (
        cast(Any, SimpleNamespace(**task.fields[name])) for name in ("commit", "target", "run")
    )
    source = RemoteSource(channel)
    candidate = Candidate(
        source, commit, target=target, into=task.into, run=run, action=task.action
    )
    only_judging(task.name)
    if task.memory is not None:
        _limit_memory(task.memory)
    # ends a check that holds the interpreter's lock after the publisher was killed
    signal.setitimer(signal.ITIMER_REAL, task.seconds + _GRACE_S)
    send(channel, {"begun": True})
    return ask(task.name, task.check, candidate.of(task.name, task.prefixes, task.reads))


def _limit_memory(more: int) -> None:
    """Limit the memory of the process to its present size and `more` bytes."""
    limit = resource.RLIMIT_DATA if sys.platform == "linux" else resource.RLIMIT_AS
    resource.setrlimit(limit, (_taken() + more, resource.getrlimit(limit)[1]))


def _taken() -> int:
    status = Path("/proc/self/status")
    if not status.exists():
        return int(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
    fields = dict(line.split(":", 1) for line in status.read_text().splitlines() if ":" in line)
    return int(fields["VmData"].split()[0]) * 1024


def _send_answer(channel: socket.socket, answer: Answer) -> None:
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
