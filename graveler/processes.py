"""Processes that do one kind of work for a caller that goes on meanwhile.

Each is a fresh interpreter that imports one module of this library and never the caller's program, so
that a script needs no guard around its main part. Nothing is forked, because other threads may hold
locks.

A request and its result are files in memory. Their descriptors are passed over a socket: the messages
are so small that no call waits for the other side to read.
"""

import json
import os
import pickle
import select
import socket
import subprocess
import sys
from collections import deque
from collections.abc import Iterable
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import Any, Final

from graveler.errors import BackendUnavailableError, InternalError
from graveler.process import watch

_AHEAD: Final = 2
"""Requests of one process at a time: the next one is there when it has done the first."""
_LONGEST: Final = 1 << 17
_PATH: Final = "import json, sys; sys.path[:] = json.loads(sys.argv[1]); "
_PROGRAM: Final = "from graveler.processes import serve; serve(sys.argv[2], int(sys.argv[3]))"
_INTERPRETERS: Final = ("python", "pypy")


def spare_cores(most: int) -> int:
    """Return how many processes have a core of their own beside the caller's, up to `most`.

    0 where files in memory cannot be passed on, or this program is no interpreter that can be started.
    """
    program = Path(sys.executable or "").name
    able = hasattr(os, "memfd_create") and hasattr(os, "sched_getaffinity")
    if not (able and program.startswith(_INTERPRETERS)):
        return 0
    return max(0, min(most, len(os.sched_getaffinity(0)) - 1))


def interpreter(program: str, *arguments: str) -> list[str]:
    """Return the command of a fresh interpreter that finds the modules that this one finds.

    Args:
        program: May use ``sys``.
        arguments: Come to the program from ``sys.argv[2]`` on.
    """
    parts: Iterable[object] = sys.path  # what is no text is no place to Python either
    path = [part or str(Path.cwd()) for part in parts if isinstance(part, str)]
    # -P: else the working folder is looked through for json first
    return [sys.executable, "-P", "-c", _PATH + program, json.dumps(path), *arguments]


class Task:
    """A request that was handed over.

    Attributes:
        done: Whether there is an answer.
    """

    __slots__ = ("_answer", "_error", "descriptor", "done")

    def __init__(self) -> None:
        self.done = False
        self.descriptor = -1
        self._answer: Any = None
        self._error: BaseException | None = None

    def settle(self, answer: Any, error: BaseException | None, descriptor: int) -> None:
        """Take the answer, or the error, and the file that came with it."""
        self.done = True
        self._answer, self._error, self.descriptor = answer, error, descriptor

    def result(self) -> tuple[Any, int]:
        """Return the answer and the descriptor of its file, which is the caller's to close.

        Raises:
            Exception: What the work raised.
        """
        if self._error is not None:
            raise self._error
        descriptor, self.descriptor = self.descriptor, -1
        return self._answer, descriptor

    def discard(self) -> None:
        """Close the file of an answer that is not needed; may be called twice."""
        if self.descriptor >= 0:
            descriptor, self.descriptor = self.descriptor, -1
            os.close(descriptor)


class _Worker:
    def __init__(self, module: str) -> None:
        self.channel, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.tasks: deque[Task] = deque()
        try:
            with theirs:
                number = theirs.fileno()
                self.process = subprocess.Popen(  # noqa: S603 - the interpreter and the program are ours
                    interpreter(_PROGRAM, module, str(number)),
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.DEVNULL,
                    pass_fds=[number],
                    start_new_session=True,  # an interrupt from the terminal is the caller's
                )
        except BaseException:
            self.channel.close()
            raise

    def submit(self, descriptor: int) -> Task:
        task = Task()
        try:
            socket.send_fds(self.channel, [b"\0"], [descriptor])
        except OSError as error:
            raise self.died() from error
        self.tasks.append(task)
        return task

    def receive(self) -> None:
        """Take the answer to the oldest request; wait for it where it is not there."""
        try:
            message, descriptors, _, _ = socket.recv_fds(self.channel, _LONGEST, 1)
        except OSError as error:
            raise self.died() from error
        if not message:
            raise self.died()
        answer, failure = pickle.loads(message)  # noqa: S301 - of our own process
        self.tasks.popleft().settle(answer, failure, descriptors[0] if descriptors else -1)

    def died(self) -> BackendUnavailableError:
        self.channel.close()
        code = self.process.wait()
        how = f"was killed by signal {-code}" if code < 0 else f"ended with status {code}"
        return BackendUnavailableError(
            f"process {self.process.pid}, which encoded ranges, {how}: nothing was committed; see "
            "whether memory is short, and repeat. encoding_processes = 0 in [limits] of the lake's "
            "settings does without such processes"
        )

    def end(self) -> None:
        self.channel.close()
        self.process.kill()
        self.process.wait()
        for task in self.tasks:
            task.done = True
        self.tasks.clear()


class Workers:
    """Processes that do the work of one module, side by side.

    The module has a function ``work(descriptor)``: it reads the request from the file and returns an
    answer that pickles and the descriptor of a file. One thread at a time uses them.

    Args:
        module: Its name.
        count: How many processes.

    Raises:
        OSError: A process cannot be started.
    """

    def __init__(self, module: str, count: int) -> None:
        self._workers: list[_Worker] = []
        watch(self)
        try:
            for _ in range(count):
                self._workers.append(_Worker(module))
        except BaseException:
            self.close()
            raise

    def after_fork_in_child(self) -> None:
        """Let go of the parent's processes: they end with the parent."""
        for worker in self._workers:
            worker.channel.close()
            worker.process.returncode = 0  # not a child of this process
        self._workers.clear()

    def has_room(self) -> bool:
        """Return whether a process takes another request now."""
        self._collect()
        return any(len(worker.tasks) < _AHEAD for worker in self._workers)

    def submit(self, descriptor: int) -> Task:
        """Hand over a request, whose descriptor is closed here.

        Raises:
            BackendUnavailableError: The process has died.
        """
        try:
            return min(self._workers, key=lambda worker: len(worker.tasks)).submit(descriptor)
        finally:
            os.close(descriptor)

    def wait(self, task: Task) -> None:
        """Return when the task is done.

        Raises:
            BackendUnavailableError: Its process has died.
        """
        worker = next((each for each in self._workers if task in each.tasks), None)
        while not task.done and worker is not None:
            worker.receive()

    def close(self) -> None:
        """End the processes, whatever they do; may be called twice."""
        for worker in self._workers:
            worker.end()
        self._workers.clear()

    def _collect(self) -> None:
        for worker in self._workers:
            answers = select.poll()
            answers.register(worker.channel, select.POLLIN)
            while worker.tasks and answers.poll(0):
                worker.receive()


def serve(module: str, number: int) -> None:
    """Do the work of a module until the caller is gone; the main program of a process."""
    work = import_module(module).work
    with socket.socket(fileno=number) as channel, suppress(BrokenPipeError, ConnectionResetError):
        while True:
            _, descriptors, _, _ = socket.recv_fds(channel, 1, 1)
            if not descriptors:
                return
            result = -1
            try:
                answer, result = work(descriptors[0])
                message = pickle.dumps((answer, None))
            except Exception as error:  # noqa: BLE001 - the caller raises it
                message = _pickled(error)
            finally:
                os.close(descriptors[0])
            socket.send_fds(channel, [message], [] if result < 0 else [result])
            if result >= 0:
                os.close(result)


def _pickled(error: BaseException) -> bytes:
    with suppress(Exception):
        message = pickle.dumps((None, error))
        if len(message) <= _LONGEST:
            return message
    text = f"{type(error).__name__}: {error}"
    return pickle.dumps((None, InternalError(text[:1_000])))
