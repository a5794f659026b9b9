"""Forks: what a child does with the stores it inherits, and what a fork must not cut in two.

A child lets go of what it inherits without touching it. Where that is not enough, because a
library keeps locks in the memory that a fork copies (SQLite those of its files, OpenSSL those
it takes while it connects), a call on it holds forks off until it is over: the thread that would
give the lock back is not in the child.
"""

import ctypes
import os
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Condition, get_ident
from typing import Any, Final, Protocol
from weakref import WeakSet

__all__ = ["abandon", "held_off", "watch"]

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


class _Forks:
    """Calls that hold forks off, and forks that wait for them."""

    def __init__(self) -> None:
        self._changed = Condition()
        self._calls: dict[int, int] = {}
        self._waiting = 0

    @contextmanager
    def held_off(self) -> Iterator[None]:
        """Have no fork during the block; a thread that is in one already goes straight on."""
        thread = get_ident()
        with self._changed:
            while self._waiting and thread not in self._calls:
                self._changed.wait()
            self._calls[thread] = self._calls.get(thread, 0) + 1
        try:
            yield
        finally:
            with self._changed:
                self._calls[thread] -= 1
                if not self._calls[thread]:
                    del self._calls[thread]
                if self._waiting:
                    self._changed.notify_all()

    def before(self) -> None:
        """Wait until no other thread is in a call; from here to the fork none begins.

        Not for ever: a disk may hang, and a fork cannot be refused. A call of the thread that
        forks, from a signal handler, goes on in parent and child.
        """
        self._changed.acquire()
        self._waiting += 1
        self._changed.wait_for(lambda: self._calls.keys() <= {get_ident()}, _PATIENCE_S)

    def after_in_parent(self) -> None:
        """Let the calls go on."""
        self._waiting -= 1
        self._changed.notify_all()
        self._changed.release()

    def after_in_child(self) -> None:
        """Let the calls go on, and forget those of the threads that are not here."""
        mine = self._calls.get(get_ident())
        self._calls = {} if mine is None else {get_ident(): mine}
        self._waiting = 0
        self._changed.release()


_forks: Final = _Forks()
held_off: Final = _forks.held_off


def _in_child() -> None:
    _forks.after_in_child()
    for inheritable in list(_watched):
        inheritable.after_fork_in_child()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=_forks.before, after_in_parent=_forks.after_in_parent, after_in_child=_in_child
    )
