"""A gate in a process of its own: what it does there cannot take the publisher with it.

A check that another process can import runs in a fresh interpreter, whatever threads this one
has; another one in a fork. Either leads a process group, which is killed when the check has
answered, has outlasted its time, or has died; and which kills itself when the publisher dies.
"""

import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
import warnings
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Event, Lock
from typing import Any, Final

from graveler.forking import watch
from graveler.gates.answer import Answer, died
from graveler.gates.candidate import Candidate
from graveler.gates.channel import MessageReader, answer_read, send
from graveler.gates.child import Task, run_forked
from graveler.gates.gate import Gate
from graveler.gates.statistics import Statistics
from graveler.gates.transport import pickled
from graveler.repository.stores import Stores

__all__ = ["ask_elsewhere"]

_START_S: Final = 120.0
_LOOK_S: Final = 0.2
_LOOKS: Final = 20
_PROGRAM: Final = (
    "import json, sys; sys.path[:] = json.loads(sys.argv[1]); "
    "from graveler.gates.child import main; main()"
)


def ask_elsewhere(gate: Gate, candidate: Candidate, stores: Stores) -> Answer:
    """Have a gate judge in a process of its own; return what it said, or how it ended.

    Args:
        gate: The gate.
        candidate: What it judges.
        stores: The repository, to read for the gate what lies in the key-value store.
    """
    task = Task(
        name=gate.name,
        check=gate.check,
        commit=candidate.commit,
        target=candidate.target,
        into=candidate.into,
        run=candidate.run,
        action=candidate.action,
        seconds=gate.seconds,
        memory=gate.memory,
        prefixes=gate.prefixes,
        reads=gate.inputs,
        elsewhere=stores.elsewhere,
    )
    with _started(task, stores) as (process, channel):
        return _listen(task, process, channel, stores)


class _Starting:
    """Held while a process is made; free in a child that was forked meanwhile."""

    def __init__(self) -> None:
        self.lock = Lock()
        watch(self)

    def after_fork_in_child(self) -> None:
        self.lock = Lock()


_starting: Final = _Starting()


class _Process(ABC):
    """The process of a gate, leader of its group."""

    pid: int

    @abstractmethod
    def ended(self, *, wait: bool) -> int | None:
        """Return its exit code, minus the number of the signal that killed it, or None."""

    def end(self) -> None:
        """Kill it and all that it has started, and take its exit code."""
        # it is not reaped yet, so nobody else has its number
        for kill in (os.killpg, os.kill):
            with suppress(ProcessLookupError, PermissionError):
                kill(self.pid, signal.SIGKILL)
        self.ended(wait=True)


class _Fresh(_Process):
    """A fresh interpreter."""

    def __init__(self, task: bytes, theirs: socket.socket, life: int) -> None:
        with tempfile.TemporaryFile() as file:
            file.write(task)
            file.flush()
            file.seek(0)
            given = (theirs.fileno(), file.fileno(), life)
            self._popen = subprocess.Popen(  # noqa: S603 - our own interpreter, our own program
                [
                    sys.executable,
                    "-c",
                    _PROGRAM,
                    _search_path(),
                    *(str(number) for number in given),
                ],
                stdin=subprocess.DEVNULL,
                pass_fds=given,
                start_new_session=True,
            )
        self.pid = self._popen.pid

    def ended(self, *, wait: bool) -> int | None:
        return self._popen.wait() if wait else self._popen.poll()


class _Forked(_Process):
    """A fork of this process."""

    def __init__(
        self,
        task: Task,
        ours: socket.socket,
        theirs: socket.socket,
        life: tuple[int, int],
        stores: Stores,
    ) -> None:
        sys.stdout.flush()
        sys.stderr.flush()
        with warnings.catch_warnings():
            # threads that hold locks are not copied: such a gate outlasts its time, no worse
            warnings.simplefilter("ignore", DeprecationWarning)
            self.pid = os.fork()
        if not self.pid:
            os.close(life[1])
            ours.close()
            run_forked(task, theirs, life[0], stores)
        self._code: int | None = None

    def ended(self, *, wait: bool) -> int | None:
        if self._code is None:
            try:
                pid, status = os.waitpid(self.pid, 0 if wait else os.WNOHANG)
            except ChildProcessError:  # somebody waits for all children of this process
                pid, status = self.pid, 0
            if pid:
                self._code = os.waitstatus_to_exitcode(status)
        return self._code


def _search_path() -> str:
    return json.dumps([part or str(Path.cwd()) for part in sys.path])


@contextmanager
def _started(task: Task, stores: Stores) -> Iterator[tuple[_Process, socket.socket]]:
    raw = None if task.elsewhere is None else pickled(task)
    ours, theirs = socket.socketpair()
    life: tuple[int, ...] = ()
    try:
        process: _Process
        # one at a time: two forked children that each hold the other's pipe would never see
        # that the publisher is gone
        with _starting.lock:
            life = os.pipe()
            if raw is not None:
                process = _Fresh(raw, theirs, life[0])
            else:
                process = _Forked(task, ours, theirs, life, stores)
        try:
            theirs.close()
            yield process, ours
        finally:
            process.end()
    finally:
        for end in (ours, theirs):
            end.close()
        for descriptor in life:
            os.close(descriptor)


def _listen(task: Task, process: _Process, channel: socket.socket, stores: Stores) -> Answer:
    reader = MessageReader(channel)
    deadline = time.monotonic() + _START_S
    begun = False
    while True:
        left = deadline - time.monotonic()
        if left <= 0:
            return _late(task, begun=begun)
        channel.settimeout(min(left, _LOOK_S))
        try:
            message = reader.read()
        except TimeoutError:
            if process.ended(wait=False) is None:
                continue
            message = _last_words(reader, channel)
        except (OSError, ValueError) as error:
            return died(f"its process cannot be understood: {error}")
        match message:
            case None:
                return _gone(process)
            case {"begun": True}:
                begun = True
                deadline = time.monotonic() + task.seconds
            case {"read": _}:
                with suppress(OSError):
                    channel.settimeout(_START_S)
                    send(channel, answer_read(stores.kv, message))
            case {"answer": said}:
                return _answer(said)
            case _:
                return died(f"its process said what it should not: {str(message)[:200]}")


def _last_words(reader: MessageReader, channel: socket.socket) -> dict[str, Any] | None:
    """Return what a process that has ended had said, while its children keep the channel open."""
    channel.settimeout(0.0)
    try:
        return reader.read()
    except (OSError, ValueError):
        return None


def _answer(said: Any) -> Answer:
    try:
        seen = {(commit, prefix): Statistics.decode(one) for commit, prefix, one in said["seen"]}
        passed, reason = said["passed"] is True, str(said["reason"])
        return Answer(**{**said, "passed": passed, "reason": reason, "seen": seen})
    except (KeyError, TypeError) as error:
        return died(f"its process gave no answer that can be read: {error}")


def _late(task: Task, *, begun: bool) -> Answer:
    if not begun:
        return died(f"its process did not start within {_START_S:g} s")
    return died(f"it took longer than its timeout of {task.seconds:g} s, and was stopped")


def _gone(process: _Process) -> Answer:
    pause = Event()
    code = process.ended(wait=False)
    for _ in range(_LOOKS):
        if code is not None:
            break
        pause.wait(_LOOK_S / _LOOKS)
        code = process.ended(wait=False)
    if code is None:
        return died("its process closed the channel by which it was to answer")
    if code < 0:
        try:
            name = signal.Signals(-code).name
        except ValueError:
            name = f"signal {-code}"
        hint = ": it killed itself, or the machine was out of memory" if name == "SIGKILL" else ""
        return died(f"its process was killed by {name}{hint}")
    return died(f"its process ended with exit code {code} and without an answer")
