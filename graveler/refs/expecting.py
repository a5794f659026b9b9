"""Resolving an expression for more than its record: to read the commit's tree, or to name it.

Branches and tags keep the trees of their commits, so only what goes back from them, or names
a commit by its id, is looked up among the expired: nothing else pays for it.
"""

import re
from typing import Final

from graveler.model import Commit
from graveler.refs.expression import resolve
from graveler.refs.refs import Refs

__all__ = ["resolve_to_name", "resolve_to_read"]

_HISTORY: Final = re.compile(r"[0-9a-f]{4,64}|.*[~^@].*", re.DOTALL)


def resolve_to_read(refs: Refs, expression: str) -> Commit:
    """Return the commit an expression names, whose tree can be read.

    Raises:
        ExpiredError: Garbage collection has removed its tree.
        InvalidInputError: The expression cannot be read.
        RefNotFoundError: It names nothing.
    """
    commit = resolve(refs, expression)
    if _HISTORY.fullmatch(expression):
        refs.expired.check_readable(commit.id)
    return commit


def resolve_to_name(refs: Refs, expression: str) -> Commit:
    """Return the commit an expression names, for a new ref or for a tree made from its own.

    Raises:
        ExpiredError: Garbage collection has condemned its tree, or removed it.
        InvalidInputError: The expression cannot be read.
        RefNotFoundError: It names nothing.
    """
    commit = resolve(refs, expression)
    if _HISTORY.fullmatch(expression):
        refs.expired.check_nameable(commit.id)
    return commit
