"""What a forked child does with the stores it inherits: let go without touching."""

import ctypes
import os
from typing import Any, Final, Protocol
from weakref import WeakSet

__all__ = ["abandon", "watch"]


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


def _in_child() -> None:
    for inheritable in list(_watched):
        inheritable.after_fork_in_child()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_in_child)
