"""A gate in a process of its own: a crash of the check does not affect the publisher.

A check that another process can import runs in a fresh interpreter; any other check runs in a fork.
The process leads a process group. The publisher kills the group when the check has answered, has
exceeded its timeout or has died; the group kills itself when the publisher dies.
"""

import json
import os
import signal
import socket
import subprocess
import sys
import time
import warnings
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from threading import Event, Lock

from graveler.base.forks import watch
from graveler.config import environment
from graveler.errors import CorruptionError
from graveler.gates.candidate import Candidate
from graveler.gates.declaration import shortened
from graveler.gates.gate import Answer, Gate, died
from graveler.gates.isolation.channel import MessageReader, read_answer, read_object, send
from graveler.gates.isolation.child import Task, run_forked
from graveler.gates.isolation.pickling import pickled
from graveler.gates.isolation.server import ReadServer

_START_S = 60.0
_POLL_S = 0.2
_LAST_POLL_S = 0.01
_LONGEST = 4 << 20
_ENVIRONMENT = (
    *("HOME", "LANG", "LC_ALL", "LC_CTYPE", "LD_LIBRARY_PATH", "PATH", "TMPDIR", "TZ"),
    *("PYTHONHASHSEED", "PYTHONHOME", "PYTHONPATH", "PYTHONUTF8", "PYTHONWARNINGS", "VIRTUAL_ENV"),
)
_POLLS = 20
_PROGRAM = (
    "import json, sys; sys.path[:] = json.loads(sys.argv[1]); "
    "from graveler.gates.isolation.child import main; main()"
)


def ask_in_process(gate: Gate, candidate: Candidate, stop: Event | None = None) -> Answer:
    """Run a gate in a process of its own; return its answer, or an answer about how it ended.

    Args:
        stop: Ends the process when it is set.
    """
    view = gate.view(candidate)
    task = Task(gate, view.visible_fields(), candidate.into, candidate.action)
    raw = pickled(task)
    with _started(task, forked=raw is None) as (process, channel):
        return Conversation(gate, process, channel, ReadServer(view), stop).hold(raw)


class _Starting:
    """A lock held while a process is started; a child that is forked meanwhile has it free."""

    def __init__(self) -> None:
        self.lock = Lock()
        watch(self)

    def after_fork_in_child(self) -> None:
        self.lock = Lock()


_starting = _Starting()


class Process(ABC):
    """The process of a gate, leader of its group."""

    pid: int

    @abstractmethod
    def ended(self, *, wait: bool) -> int | None:
        """Return its exit code, minus the number of the signal that killed it, or None."""

    def end(self) -> None:
        """Kill the process group and reap the process."""
        # the process is not reaped yet, so its id is not reused
        for kill in (os.killpg, os.kill):
            with suppress(ProcessLookupError, PermissionError):
                kill(self.pid, signal.SIGKILL)
        self.ended(wait=True)


class _Fresh(Process):
    """A fresh interpreter, which finds the same modules as this one."""

    def __init__(self, channel: socket.socket) -> None:
        number = channel.fileno()
        parts: Iterable[object] = sys.path  # Python ignores items that are not text
        path = [part or str(Path.cwd()) for part in parts if isinstance(part, str)]
        self._popen = subprocess.Popen(
            # without -P, json would be searched in the working folder first
            [sys.executable, "-P", "-c", _PROGRAM, json.dumps(path), str(number)],
            stdin=subprocess.DEVNULL,
            # without variables that may hold credentials
            env={name: value for name in _ENVIRONMENT if (value := environment(name))},
            pass_fds=[number],
            start_new_session=True,
        )
        self.pid = self._popen.pid

    def ended(self, *, wait: bool) -> int | None:
        return self._popen.wait() if wait else self._popen.poll()


class _Forked(Process):
    """A fork of this process."""

    def __init__(self, task: Task, ours: socket.socket, theirs: socket.socket) -> None:
        for stream in filter(None, (sys.stdout, sys.stderr)):  # None if the caller closed it
            stream.flush()
        with warnings.catch_warnings():
            # a lock held by another thread stays locked in the fork: at worst the gate times out
            warnings.simplefilter("ignore", DeprecationWarning)
            self.pid = os.fork()
        if not self.pid:
            ours.close()
            run_forked(task, theirs)
        self._code: int | None = None

    def ended(self, *, wait: bool) -> int | None:
        if self._code is None:
            try:
                pid, status = os.waitpid(self.pid, 0 if wait else os.WNOHANG)
            except ChildProcessError:  # the program waits for all children of this process
                pid, status = self.pid, 0
            if pid:
                self._code = os.waitstatus_to_exitcode(status)
        return self._code


@contextmanager
def _started(task: Task, *, forked: bool) -> Iterator[tuple[Process, socket.socket]]:
    with ExitStack() as ends:
        # One process starts at a time: two forked children that hold each other's channel would
        # never see the end of the publisher.
        with _starting.lock:
            ours, theirs = map(ends.enter_context, socket.socketpair())
            process = _Forked(task, ours, theirs) if forked else _Fresh(theirs)
        ends.callback(process.end)
        theirs.close()
        yield process, ours


class Conversation:
    """The messages between the publisher and the process of a gate, until the gate answers.

    The conversation ends at the timeout, whatever the process does.
    """

    def __init__(
        self,
        gate: Gate,
        process: Process,
        channel: socket.socket,
        reads: ReadServer,
        stop: Event | None = None,
    ) -> None:
        self._gate = gate
        self._stop = stop or Event()
        self._process = process
        self._channel = channel
        self._reads = reads
        self._reader = MessageReader(channel, _LONGEST)
        self._begun = False
        self._deadline = time.monotonic() + _START_S

    def hold(self, task: bytes | None = None) -> Answer:
        """Reply to the requests of the process; return its answer, or an answer about its end."""
        if task is not None:
            with suppress(TimeoutError):
                self._send(task, _START_S)
        while (left := self._deadline - time.monotonic()) > 0 and not self._stop.is_set():
            try:
                raw = self._reader.take()
                answer = self._receive(left) if raw is None else self._handle(raw, left)
            except TimeoutError:
                continue  # it does not read the reply
            except (OSError, ValueError) as error:
                return died(f"its process sent an unreadable message: {error}")
            if answer is not None:
                return answer
        if self._stop.is_set():
            return died("it was stopped, because the publish ended")
        if not self._begun:
            return died(f"its process did not start within {_START_S:g} s")
        return died(f"it took longer than its timeout of {self._gate.seconds:g} s, and was stopped")

    def _send(self, raw: bytes, left: float) -> None:
        self._channel.settimeout(left)
        with suppress(ConnectionError):  # the end of the process is handled next
            send(self._channel, raw)

    def _receive(self, left: float) -> Answer | None:
        """Read the bytes that arrive; return an answer if the process has ended."""
        ended = self._process.ended(wait=False) is not None
        # children of the process may keep the channel open: after its end, read what it has sent
        self._channel.settimeout(_LAST_POLL_S if ended else min(left, _POLL_S))
        try:
            more = self._reader.receive()
        except TimeoutError:
            more = not ended
        except ConnectionError:
            more = False
        return None if more else _exit_answer(self._process)

    def _handle(self, raw: bytes, left: float) -> Answer | None:
        match body := read_object(raw):
            case {"begun": True} if not self._begun:
                self._begun = True
                self._deadline = time.monotonic() + self._gate.seconds
            case {"ask": request} if self._begun:
                self._send(self._reads.answer(request), left)
            case {"answer": answer}:
                try:
                    return read_answer(answer)
                except CorruptionError as error:
                    return died(f"its process gave no answer that can be read: {error}")
            case _:
                return died(f"its process sent an unexpected message: {shortened(repr(body), 200)}")
        return None


def _exit_answer(process: Process) -> Answer:
    """Return the answer for a process that ended, or closed the channel, without an answer."""
    pause = Event()
    for _ in range(_POLLS):
        code = process.ended(wait=False)
        if code is not None:
            break
        pause.wait(_POLL_S / _POLLS)
    else:
        return died("its process closed the channel by which it was to answer")
    if code < 0:
        try:
            name = signal.Signals(-code).name
        except ValueError:
            name = f"signal {-code}"
        hint = ": it killed itself, or the machine was out of memory" if name == "SIGKILL" else ""
        return died(f"its process was killed by {name}{hint}")
    return died(f"its process ended with exit code {code} and without an answer")
