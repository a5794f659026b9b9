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

from graveler.config import environment
from graveler.errors import CorruptionError
from graveler.fork import watch
from graveler.gates.answer import Answer, died
from graveler.gates.candidate import Candidate
from graveler.gates.facts import shortened
from graveler.gates.gate import Gate
from graveler.gates.isolation.channel import MessageReader, send
from graveler.gates.isolation.child import Task, run_forked
from graveler.gates.isolation.pickling import pickled
from graveler.gates.isolation.server import Reads, read_answer

__all__ = ["Conversation", "Process", "ask_elsewhere"]

_START_S: Final = 60.0
_LOOK_S: Final = 0.2
_LAST_LOOK_S: Final = 0.01
_LONGEST: Final = 4 << 20
_ENVIRONMENT: Final = (
    *("HOME", "LANG", "LC_ALL", "LC_CTYPE", "LD_LIBRARY_PATH", "PATH", "TMPDIR", "TZ"),
    *("PYTHONHASHSEED", "PYTHONHOME", "PYTHONPATH", "PYTHONUTF8", "PYTHONWARNINGS", "VIRTUAL_ENV"),
)
_LOOKS: Final = 20
_PROGRAM: Final = (
    "import json, sys; sys.path[:] = json.loads(sys.argv[1]); "
    "from graveler.gates.isolation.child import main; main()"
)


def ask_elsewhere(gate: Gate, candidate: Candidate) -> Answer:
    """Have a gate judge in a process of its own; return what it said, or how it ended.

    Args:
        gate: The gate.
        candidate: What it judges; the process reads it through this one.
    """
    view = gate.view(candidate)
    task = Task(
        name=gate.name,
        check=gate.check,
        prefixes=gate.prefixes,
        reads=gate.inputs,
        told=view.told(),
        into=candidate.into,
        action=candidate.action,
        seconds=gate.seconds,
        memory=gate.memory,
    )
    with _started(task) as (process, channel):
        return Conversation(task, process, channel, Reads(view)).hold()


class _Starting:
    """Held while a process is made; free in a child that was forked meanwhile."""

    def __init__(self) -> None:
        self.lock = Lock()
        watch(self)

    def after_fork_in_child(self) -> None:
        self.lock = Lock()


_starting: Final = _Starting()


class Process(ABC):
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


class _Fresh(Process):
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
                env=_environment(),
                pass_fds=given,
                start_new_session=True,
            )
        self.pid = self._popen.pid

    def ended(self, *, wait: bool) -> int | None:
        return self._popen.wait() if wait else self._popen.poll()


class _Forked(Process):
    """A fork of this process."""

    def __init__(
        self,
        task: Task,
        ours: socket.socket,
        theirs: socket.socket,
        life: tuple[int, int],
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
            run_forked(task, theirs, life[0])
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


def _environment() -> dict[str, str]:
    """Return what a fresh process has of our environment, in which credentials may lie."""
    return {name: value for name in _ENVIRONMENT if (value := environment(name))}


@contextmanager
def _started(task: Task) -> Iterator[tuple[Process, socket.socket]]:
    raw = pickled(task)
    ours, theirs = socket.socketpair()
    life: tuple[int, ...] = ()
    try:
        process: Process
        # one at a time: two forked children that each hold the other's pipe would never see
        # that the publisher is gone
        with _starting.lock:
            life = os.pipe()
            if raw is not None:
                process = _Fresh(raw, theirs, life[0])
            else:
                process = _Forked(task, ours, theirs, life)
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


class Conversation:
    """What the publisher and the process of a gate say to each other, until the gate answers.

    Whatever the process does, asks or sends, it ends at its time.
    """

    def __init__(self, task: Task, process: Process, channel: socket.socket, reads: Reads) -> None:
        self._task = task
        self._process = process
        self._channel = channel
        self._reads = reads
        self._reader = MessageReader(channel, _LONGEST, 0)
        self._begun = False
        self._deadline = time.monotonic() + _START_S

    def hold(self) -> Answer:
        """Answer what the process asks; return what it said in the end, or how it ended."""
        while (left := self._deadline - time.monotonic()) > 0:
            try:
                message = self._reader.take()
                answer = self._receive(left) if message is None else self._heard(message.said, left)
            except TimeoutError:
                continue  # it does not read what it asked for
            except (OSError, ValueError) as error:
                return died(f"its process cannot be understood: {error}")
            if answer is not None:
                return answer
        return self._late()

    def _receive(self, left: float) -> Answer | None:
        self._channel.settimeout(min(left, _LOOK_S))
        try:
            there = self._reader.receive()
        except TimeoutError:
            if self._process.ended(wait=False) is None:
                return None
            # it has ended, and its children keep the channel open: what was its last word?
            self._channel.settimeout(_LAST_LOOK_S)
            with suppress(TimeoutError):
                if self._reader.receive():
                    return None
            there = False
        except ConnectionError:
            there = False
        return None if there else _gone(self._process)

    def _heard(self, said: dict[str, Any], left: float) -> Answer | None:
        match said:
            case {"begun": True} if not self._begun:
                self._begun = True
                self._deadline = time.monotonic() + self._task.seconds
            case {"ask": question} if self._begun:
                answer = self._reads.answer(question)
                self._channel.settimeout(left)
                with suppress(ConnectionError):  # who is gone is heard of next
                    send(self._channel, *answer)
            case {"answer": answered}:
                try:
                    return read_answer(answered)
                except CorruptionError as error:
                    return died(f"its process gave no answer that can be read: {error}")
            case _:
                return died(f"its process said what it should not: {shortened(repr(said), 200)}")
        return None

    def _late(self) -> Answer:
        if not self._begun:
            return died(f"its process did not start within {_START_S:g} s")
        return died(f"it took longer than its timeout of {self._task.seconds:g} s, and was stopped")


def _gone(process: Process) -> Answer:
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
