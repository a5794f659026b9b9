"""Forks: what a child does with the stores it inherits, and what a fork must not cut in two.

A child lets go of what it inherits without touching it. Where that is not enough, because a
library keeps locks in the memory that a fork copies (SQLite those of its files, OpenSSL those
it takes while it connects), a call on it holds forks off until it is over: the thread that would
give the lock back is not in the child.
"""

import concurrent.futures.thread
import ctypes
import logging
import os
from threading import Condition, RLock, get_ident
from typing import Any, Final, Protocol
from weakref import WeakSet

# What these do before a fork must come after what we do: they lock, and a call may want to log.
# Hooks run backwards, so they have to be there first.
_EARLIER: Final = (concurrent.futures.thread, logging)
_PATIENCE_S: Final = 10.0


class _Inheritable(Protocol):
    def after_fork_in_child(self) -> None:
        """Let go of what belongs to the parent."""


_watched: Final[WeakSet[Any]] = WeakSet()


def watch(inheritable: _Inheritable) -> None:
    """Have ``after_fork_in_child`` called in every child forked from now on."""
    _watched.add(inheritable)


def abandon(resource: object) -> None:
    """Keep a parent's file or connection from ever being closed by this process.

    Closing it would say goodbye on the parent's connection, or drop what the parent holds
    on its files, or wait for threads that a fork does not copy. A reference from a module
    would not do: modules are emptied as the interpreter ends.
    """
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(resource))


class _HeldOff:
    """Calls that hold forks off, and forks that wait for them: ``with held_off:``.

    What a hook raises is lost, and the handler of a signal that came meanwhile may raise in any
    of them. So none relies on another one: no lock is kept across the fork, and no thread waits for
    ever for what should have been done in one that was cut short.
    """

    def __init__(self) -> None:
        self._calls: dict[int, int] = {}  # threads that are in calls, and in how many
        self._hung: set[int] = set()  # those that a fork has waited for in vain
        self._begin()

    def __enter__(self) -> None:
        """Begin a call: wait for a fork that is about to happen in another thread."""
        thread = get_ident()
        with self._lock:
            goes_on = not self._forking or thread in self._calls or thread in self._forking
            if not goes_on and not self._changed.wait_for(self._nobody_forks, 2 * _PATIENCE_S):
                self._forking.clear()  # what should have done it was cut short
            self._calls[thread] = self._calls.get(thread, 0) + 1

    def __exit__(self, *error: object) -> None:
        """End the call, failed or not: release the forks that wait for it."""
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
        """Wait until no other thread is in a call; from here to the fork none begins.

        Not without limit: a disk may hang, and a fork cannot be refused. Nor a second time for the
        same call. One of the thread that forks, from a signal handler, goes on in both.
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
        """Let the calls begin."""
        self._forking.discard(get_ident())
        with self._lock:
            self._changed.notify_all()

    def after_in_child(self) -> None:
        """Let the calls begin, and forget those of the threads that are not here."""
        thread = get_ident()
        self._calls = {mine: many for mine, many in self._calls.items() if mine == thread}
        self._hung = set()
        self._begin()

    def _nobody_forks(self) -> bool:
        return not self._forking

    def _begin(self) -> None:
        self._forking: set[int] = set()  # threads that fork
        self._lock = RLock()
        self._changed = Condition(self._lock)


held_off: Final = _HeldOff()


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
    # And again, for where it was cut short: with no second time, 2 of 400 forks that a signal came
    # upon left the others waiting until they gave up.
    os.register_at_fork(after_in_parent=held_off.after_in_parent)
