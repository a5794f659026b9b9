"""What a forked child does with the stores it inherits: let go without touching."""

import os
from typing import Any, Final, Protocol
from weakref import WeakSet

__all__ = ["abandon", "watch"]


class _Inheritable(Protocol):
    def after_fork_in_child(self) -> None:
        """Let go of what belongs to the parent."""


_watched: Final[WeakSet[Any]] = WeakSet()
_abandoned: Final[list[object]] = []


def watch(inheritable: _Inheritable) -> None:
    """Have ``after_fork_in_child`` called in every child forked from now on."""
    _watched.add(inheritable)


def abandon(resource: object) -> None:
    """Keep a parent's file or connection from being closed when it is collected.

    Closing it in the child would say goodbye on the parent's connection, or drop what
    the parent holds on its files.
    """
    _abandoned.append(resource)


def _in_child() -> None:
    for inheritable in list(_watched):
        inheritable.after_fork_in_child()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_in_child)
