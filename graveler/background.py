"""Work of the process: clean-up in the background, batches, the report of progress.

Clean-up is a port, so that a test decides when it happens. A task must be harmless if it never
runs, because a process may die before.
"""

import logging
import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from threading import Lock
from typing import TypeVar

_log = logging.getLogger(__name__)


class Background(ABC):
    """Where clean-up is handed over."""

    @abstractmethod
    def run(self, task: Callable[[], None]) -> None:
        """Run `task` some time before `close` returns; its errors are logged, not raised."""

    @abstractmethod
    def close(self) -> None:
        """Wait until what was handed over is done; may be called twice."""


def _logged(task: Callable[[], None]) -> None:
    try:
        task()
    except Exception:  # noqa: BLE001 - there is no caller to catch it
        _log.exception("clean-up failed; a later sweep does it again")


class Inline(Background):
    """Runs everything at once, in the caller's thread."""

    def run(self, task: Callable[[], None]) -> None:
        """Run `task` now."""
        _logged(task)

    def close(self) -> None:
        """Do nothing: nothing is left."""


class OneThread(Background):
    """Runs tasks one after another in a thread of its own, started with the first."""

    def __init__(self) -> None:
        self._executor: ThreadPoolExecutor | None = None
        self._process = os.getpid()
        self._lock = Lock()

    def run(self, task: Callable[[], None]) -> None:
        """Queue `task`."""
        with self._lock:
            if self._process != os.getpid():  # a fork does not bring the thread along
                self._executor, self._process = None, os.getpid()
            if self._executor is None:
                self._executor = ThreadPoolExecutor(1, thread_name_prefix="graveler-clean-up")
            executor = self._executor
        try:
            executor.submit(_logged, task)
        except RuntimeError:  # no thread to be had: closed meanwhile, or the program is ending
            _logged(task)

    def close(self) -> None:
        """Wait until the queue is empty and end the thread."""
        with self._lock:
            executor, self._executor = self._executor, None
        if executor is not None and self._process == os.getpid():
            executor.shutdown(wait=True)


_T = TypeVar("_T")


def batches(items: Iterable[_T], size: int) -> Iterator[list[_T]]:
    """Yield the items in lists of `size`; the last one may be shorter."""
    source = iter(items)
    while batch := list(islice(source, size)):
        yield batch


Progress = Callable[[str, int, int], None]
"""Called with what is being done, how many are done, and how many are known so far."""


def no_progress(_what: str, _done: int, _known: int) -> None:
    """Report nothing: what a caller gets who passes None."""
