"""Forks: a child discards inherited stores without using them.

Some libraries also keep locks in the memory that a fork copies: SQLite the locks of its files,
OpenSSL those of connecting. The thread that would release such a lock does not exist in the child.
A call into such a library therefore delays forks until it ends.
"""

import concurrent.futures.thread
import logging
import os
from threading import Condition, RLock, get_ident
from typing import Any, Protocol
from weakref import WeakSet

# The hooks of these modules take locks, and a call may log, so they must run after ours. Hooks before
# a fork run in reverse order of registration, so these modules must be imported first.
_EARLIER = (concurrent.futures.thread, logging)
_PATIENCE_S = 10.0

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
            if not free and not self._changed.wait_for(lambda: not self._forking, 2 * _PATIENCE_S):
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
