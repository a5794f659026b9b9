"""Processes that do one kind of work concurrently with their caller.

Each process is a new interpreter that imports one module of this library and never the caller's
program, so that a script needs no guard around its main part. Nothing is forked, because other
threads may hold locks.

A request and its result are files in memory. Their descriptors are passed over a socket. The
messages are so small that sending never waits for the receiver.
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
from typing import Any

from graveler.base.forks import watch
from graveler.errors import BackendUnavailableError, InternalError

_AHEAD = 2
"""The number of requests of one process: the next one is ready when it has done the first."""
_LONGEST = 1 << 17
_PATH = "import json, sys; sys.path[:] = json.loads(sys.argv[1]); "
_PROGRAM = "from graveler.base.worker_pool import serve; serve(sys.argv[2], int(sys.argv[3]))"
_INTERPRETERS = ("python", "pypy")


def spare_cores(most: int) -> int:
    """Return the number of cores besides the caller's own, up to `most`.

    The result is 0 if files in memory cannot be passed, or if no interpreter can be started.
    """
    program = Path(sys.executable or "").name
    able = hasattr(os, "memfd_create") and hasattr(os, "sched_getaffinity")
    if not (able and program.startswith(_INTERPRETERS)):
        return 0
    return max(0, min(most, len(os.sched_getaffinity(0)) - 1))


def interpreter(program: str, *arguments: str) -> list[str]:
    """Return the command of a new interpreter that finds the same modules as this one.

    Args:
        program: The source text. It may use ``sys``.
        arguments: The arguments of the program, in ``sys.argv[2]`` and the following items.
    """
    parts: Iterable[object] = sys.path  # Python ignores items that are not text
    path = [part or str(Path.cwd()) for part in parts if isinstance(part, str)]
    # without -P, json would be searched in the working folder first
    return [sys.executable, "-P", "-c", _PATH + program, json.dumps(path), *arguments]


class Task:
    """A submitted request.

    Attributes:
        done: Whether the answer has arrived.
    """

    __slots__ = ("_answer", "_error", "descriptor", "done")

    def __init__(self) -> None:
        self.done = False
        self.descriptor = -1
        self._answer: Any = None
        self._error: BaseException | None = None

    def settle(self, answer: Any, error: BaseException | None, descriptor: int) -> None:
        """Store the answer or the error, and the file that came with it."""
        self.done = True
        self._answer, self._error, self.descriptor = answer, error, descriptor

    def result(self) -> tuple[Any, int]:
        """Return the answer and the descriptor of its file. The caller closes the file."""
        if self._error is not None:
            raise self._error
        descriptor, self.descriptor = self.descriptor, -1
        return self._answer, descriptor

    def discard(self) -> None:
        """Close the file of an answer that is not needed. The call may be repeated."""
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
                self.process = subprocess.Popen(
                    interpreter(_PROGRAM, module, str(number)),
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.DEVNULL,
                    pass_fds=[number],
                    start_new_session=True,  # only the caller handles an interrupt from the terminal
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
        """Receive the answer to the oldest request. Wait for it if necessary."""
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
    """Processes that do the work of one module concurrently.

    The module has a function ``work(descriptor)``. It reads the request from the file, and returns
    an answer that can be pickled and the descriptor of a file. Only one thread at a time may use
    the processes.
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
        """Discard the parent's processes, which end with the parent."""
        for worker in self._workers:
            worker.channel.close()
            worker.process.returncode = 0  # not a child of this process
        self._workers.clear()

    def has_room(self) -> bool:
        """Return whether a process can accept another request."""
        self._collect()
        return any(len(worker.tasks) < _AHEAD for worker in self._workers)

    def submit(self, descriptor: int) -> Task:
        """Submit a request, and close its descriptor."""
        try:
            return min(self._workers, key=lambda worker: len(worker.tasks)).submit(descriptor)
        finally:
            os.close(descriptor)

    def wait(self, task: Task) -> None:
        """Wait until the task is done."""
        worker = next((each for each in self._workers if task in each.tasks), None)
        while not task.done and worker is not None:
            worker.receive()

    def close(self) -> None:
        """End the processes at once. The call may be repeated."""
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
    """Do the work of a module until the caller is gone. This is the main program of a process."""
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
