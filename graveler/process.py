"""The process: its forks, background work and memory, and the ban on writes while a gate judges.

Forks: a child discards inherited stores without using them. Some libraries also keep locks in the
memory that a fork copies: SQLite the locks of its files, OpenSSL those of connecting. The thread
that would release such a lock does not exist in the child. A call into such a library therefore
delays forks until it ends.

Background work is an interface, so that a test decides when it runs. A task must be harmless if it
never runs, because a process may die before.

The ban: a gate gets a candidate that cannot be written, but it may have other objects, such as a
run or a lake that it opens. Every function that changes a record first calls `refuse_writes`.
"""

import concurrent.futures.thread
import logging
import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache
from itertools import islice
from threading import Condition, Lock, RLock, get_ident
from typing import Any, Protocol, TypeVar
from weakref import WeakSet

from graveler.errors import BackendUnavailableError, ReadOnlyError

_log = logging.getLogger(__name__)
_T = TypeVar("_T")

# The hooks of these modules take locks, and a call may log, so they must run after ours. Hooks before
# a fork run in reverse order of registration, so these modules must be imported first.
_EARLIER = (concurrent.futures.thread, logging)
_PATIENCE_S = 10.0
_RESERVE = 24 << 20

NO_DESCRIPTOR = "close files, or raise the limit of open files (ulimit -n), and repeat"
"""The way out of a process without a free file descriptor."""


class _Inheritable(Protocol):
    def after_fork_in_child(self) -> None:
        """Discard the parent's resources."""


_watched: WeakSet[Any] = WeakSet()


def watch(inheritable: _Inheritable) -> None:
    """Call ``after_fork_in_child`` in every child that is forked from now on."""
    _watched.add(inheritable)


def abandon(resource: object) -> None:
    """Prevent this process from ever closing a parent's file or connection.

    Closing it would end the parent's session, release the parent's file locks, or wait for threads
    that a fork does not copy. A reference from a module is not enough, because modules are cleared
    when the interpreter ends.
    """
    import ctypes

    ctypes.pythonapi.Py_IncRef(ctypes.py_object(resource))


class _HeldOff:
    """Calls that delay forks, and forks that wait for them: ``with held_off:``.

    An exception in a hook is lost, and a signal handler may raise in any of them. So no hook relies
    on another one: no lock is held across the fork, and every wait has a limit.
    """

    def __init__(self) -> None:
        self._calls: dict[int, int] = {}  # thread to the number of its calls
        self._hung: set[int] = set()  # threads for which a fork waited too long
        self._begin()

    def __enter__(self) -> None:
        """Begin a call. Wait for a fork that another thread is about to make."""
        thread = get_ident()
        with self._lock:
            free = not self._forking or thread in self._calls or thread in self._forking
            if not free and not self._changed.wait_for(self._no_fork, 2 * _PATIENCE_S):
                self._forking.clear()  # the hook after the fork was interrupted
            self._calls[thread] = self._calls.get(thread, 0) + 1

    def __exit__(self, *error: object) -> None:
        """End the call, also after an error, and release the forks that wait for it."""
        thread = get_ident()
        with self._lock:
            left = self._calls.pop(thread, 1) - 1
            if left:
                self._calls[thread] = left
            else:
                self._hung.discard(thread)
            if self._forking:
                self._changed.notify_all()

    def before(self) -> None:
        """Wait until no other thread is in a call. No call begins before the fork.

        The wait has a limit, because a disk may hang and a fork cannot be refused. A fork does not
        wait for a call for which an earlier fork waited too long. It also does not wait for a call
        of its own thread (a fork in a signal handler), which continues in the parent and the child.
        """
        thread = get_ident()
        with self._lock:
            self._forking.add(thread)
            others = self._calls.keys() - {thread}
            if not self._changed.wait_for(
                lambda: self._calls.keys() - self._hung <= {thread}, _PATIENCE_S
            ):
                self._hung |= others & self._calls.keys()

    def after_in_parent(self) -> None:
        """Release the calls that wait."""
        self._forking.discard(get_ident())
        with self._lock:
            self._changed.notify_all()

    def after_in_child(self) -> None:
        """Release the calls that wait, and forget those of threads that the fork did not copy."""
        thread = get_ident()
        self._calls = {thread: self._calls[thread]} if thread in self._calls else {}
        self._hung = set()
        self._begin()

    def _no_fork(self) -> bool:
        return not self._forking

    def _begin(self) -> None:
        self._forking: set[int] = set()  # threads that fork
        self._lock = RLock()
        self._changed = Condition(self._lock)


held_off = _HeldOff()


def _in_child() -> None:
    try:
        held_off.after_in_child()
    finally:
        for inheritable in list(_watched):
            inheritable.after_fork_in_child()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=held_off.before, after_in_parent=held_off.after_in_parent, after_in_child=_in_child
    )
    # Registered twice, because a signal may interrupt the first hook. With one hook, after 2 of 400
    # interrupted forks the other threads waited until their limit.
    os.register_at_fork(after_in_parent=held_off.after_in_parent)


_gate: ContextVar[str] = ContextVar("graveler_gate", default="")
_process: list[str] = []


@contextmanager
def judging(gate: str) -> Iterator[None]:
    """Refuse every write to any lake from this thread during the block."""
    token = _gate.set(gate or "?")
    try:
        yield
    finally:
        _gate.reset(token)


def only_judging(gate: str) -> None:
    """Refuse every write to any lake from this process, from now on."""
    _process[:] = [gate or "?"]


def refuse_writes(what: str) -> None:
    """Raise ReadOnlyError if a gate is judging."""
    gate = _gate.get() or (_process[0] if _process else "")
    if gate:
        raise ReadOnlyError(
            f"gate {gate!r} would write ({what}): a gate only judges; let the run write what is "
            "to be published, and have the gate report numbers with candidate.report()"
        )


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
