"""What runs in the process of a gate: one check, on the candidate that the publisher names."""

import os
import pickle
import resource
import signal
import socket
import sys
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from threading import Thread
from typing import Final, NoReturn

from graveler.gates.answer import Answer, Check, ask, died
from graveler.gates.candidate import Candidate, RunContext
from graveler.gates.channel import AskingKVStore, MessageReader, send
from graveler.judging import only_judging
from graveler.model import Commit
from graveler.repository.stores import Elsewhere, Stores

__all__ = ["Task", "main", "run_forked"]

_GRACE_S: Final = 30.0
_MIB: Final = 1 << 20


@dataclass(frozen=True, slots=True)
class Task:
    """One check and what it judges, as it travels to the process.

    Attributes:
        name: The gate's name.
        check: The check.
        commit: The candidate.
        target: The present head of the branch.
        into: The branch.
        run: The run that publishes.
        action: What would move the branch.
        seconds: How long the check may take.
        memory: Bytes the process may take beyond what it has when the check begins.
        prefixes: Where the gate reads.
        reads: What it reads.
        elsewhere: How the repository is opened; None: the one that a fork brought along.
    """

    name: str
    check: Check
    commit: Commit
    target: Commit
    into: str
    run: RunContext
    action: str
    seconds: float
    memory: int | None
    prefixes: tuple[str, ...]
    reads: tuple[str, ...]
    elsewhere: Elsewhere | None


def main() -> NoReturn:
    """Be the process of a gate: ``sys.argv`` holds the descriptors of channel, task and life."""
    channel, task, life = (int(number) for number in sys.argv[-3:])

    def load() -> Task:
        with os.fdopen(task, "rb") as file:
            loaded = pickle.load(file)  # noqa: S301 - our own, by way of an unlinked file
        if not isinstance(loaded, Task):
            raise TypeError(f"no task: {loaded!r}")
        return loaded

    _run(load, socket.socket(fileno=channel), life, None)


def run_forked(task: Task, channel: socket.socket, life: int, stores: Stores) -> NoReturn:
    """Be the process of a gate, right after a fork."""
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGALRM):
        with suppress(ValueError, OSError):
            signal.signal(number, signal.SIG_DFL)
    with suppress(OSError):
        os.setsid()
    _run(lambda: task, channel, life, stores)


def _run(
    load: Callable[[], Task], channel: socket.socket, life: int, stores: Stores | None
) -> NoReturn:
    """Judge and end the process: not a line of what would clean up after the parent runs."""
    try:
        Thread(target=_end_with_publisher, args=(life,), daemon=True).start()
        channel.settimeout(None)
        try:
            answer = _judge(load(), channel, stores)
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


def _judge(task: Task, channel: socket.socket, stores: Stores | None) -> Answer:
    kv = AskingKVStore(channel, MessageReader(channel))
    if task.elsewhere is not None:
        stores = task.elsewhere.open(kv)
    if stores is None:
        raise TypeError(f"gate {task.name!r}: nothing says how to open its repository")
    candidate = Candidate(
        stores, task.commit, target=task.target, into=task.into, run=task.run, action=task.action
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
        "seen": [[*place, found.encode()] for place, found in answer.seen.items()],
        "rule": answer.rule,
    }
    with suppress(OSError):
        send(channel, {"answer": message})
