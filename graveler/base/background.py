"""Background work, threads of one call, and the memory of the process.

Background work is an interface, so that a test decides when it runs. A task must be harmless if it
never runs, because a process may die before.
"""

import logging
import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from functools import cache
from itertools import islice
from threading import Lock
from typing import Any, TypeVar

from graveler.base.forks import watch
from graveler.errors import BackendUnavailableError

_log = logging.getLogger(__name__)
_T = TypeVar("_T")
_RESERVE = 24 << 20
_MOST_OF_A_BATCH = 1_024


class Background(ABC):
    """Runs clean-up tasks."""

    @abstractmethod
    def run(self, task: Callable[[], None]) -> None:
        """Run `task` before `close` returns. Its errors are logged, not raised."""

    @abstractmethod
    def close(self) -> None:
        """Wait until all tasks are done. The call may be repeated."""


def _logged(task: Callable[[], None]) -> None:
    try:
        task()
    except Exception:  # noqa: BLE001 - there is no caller to catch it
        _log.exception("clean-up failed; a later sweep does it again")


class Inline(Background):
    """Runs each task immediately, in the caller's thread."""

    def run(self, task: Callable[[], None]) -> None:
        """Run `task` now."""
        _logged(task)

    def close(self) -> None:
        """Do nothing, because no task waits."""


class OneThread(Background):
    """Runs tasks one after another in its own thread, which starts with the first task."""

    def __init__(self) -> None:
        self._executor: ThreadPoolExecutor | None = None
        self._process = os.getpid()
        self._lock = Lock()
        watch(self)

    def after_fork_in_child(self) -> None:
        """Replace the lock: a thread of the parent may have held it."""
        self._lock = Lock()

    def run(self, task: Callable[[], None]) -> None:
        """Queue `task`."""
        with self._lock:
            if self._process != os.getpid():  # a fork does not copy the thread
                self._executor, self._process = None, os.getpid()
            if self._executor is None:
                self._executor = ThreadPoolExecutor(1, thread_name_prefix="graveler-clean-up")
            executor = self._executor
        try:
            executor.submit(_logged, task)
        except RuntimeError:  # closed meanwhile, or the interpreter is ending
            _logged(task)

    def close(self) -> None:
        """Wait until the queue is empty and end the thread."""
        with self._lock:
            executor, self._executor = self._executor, None
        if executor is not None and self._process == os.getpid():
            executor.shutdown(wait=True)


def batches(items: Iterable[_T], size: int) -> Iterator[list[_T]]:
    """Yield the items in lists of `size`. The last list may be shorter."""
    source = iter(items)
    while batch := list(islice(source, size)):
        yield batch


def growing_batches(items: Iterable[_T]) -> Iterator[list[_T]]:
    """Yield the items in lists of growing length, so that a reader of one item reads few."""
    source, size = iter(items), 1
    while batch := list(islice(source, size)):
        yield batch
        size = min(2 * size, _MOST_OF_A_BATCH)


class Threads(ThreadPoolExecutor):
    """The threads of one call.

    Once the main thread has ended, an executor takes no more work, although the other threads of
    the program still run. Then the caller's thread does the work itself.
    """

    def submit(self, call: Callable[..., _T], /, *given: Any, **named: Any) -> Future[_T]:
        """Let a thread make a call, or make it now if the interpreter is ending."""
        try:
            return super().submit(call, *given, **named)
        except RuntimeError as error:
            if "schedule" not in str(error):
                raise BackendUnavailableError(f"{error}: use fewer threads, and repeat") from error
        future: Future[_T] = Future()
        try:
            future.set_result(call(*given, **named))
        except Exception as error:  # noqa: BLE001 - raised by the future, as from a thread
            future.set_exception(error)
        return future


@cache
def keep_freed_memory() -> None:
    """Let the allocator of glibc keep up to 48 MiB of freed memory from now on.

    It returns the memory of large buffers to the system until a larger buffer was freed. Each buffer
    then begins with page faults. They take up to a fifth of the time in which a range is decoded.
    """
    bytes(_RESERVE)  # mapped and released, and never touched


Progress = Callable[[str, int, int], None]
"""Called with the name of the work, and the numbers of completed and of known items."""


def no_progress(_what: str, _done: int, _known: int) -> None:
    """Report nothing. This is the default."""
