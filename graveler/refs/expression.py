"""Ref expressions: ``main``, ``v1``, ``3f2a91``, ``main~2``, ``main^2``, ``main@``, ``main@{1}``.

A name is looked up as a full commit id, then as a branch, a tag, and a commit id prefix. ``~N``
goes back N first parents, ``^N`` goes to the N-th parent (``^0`` is the commit itself). Both
default to 1 and can be combined. ``@`` after a branch is its committed head. By the log of the
branch, ``@{N}`` is its commit N moves ago, and ``@{2013-01-01T05:00Z}`` its commit at that time.
``~`` and ``^`` may follow these.
"""

import re
from datetime import datetime, timedelta
from typing import Any

from graveler.base.arguments import read_duration
from graveler.errors import InvalidInputError, RefNotFoundError
from graveler.kv.record_store import Place, Version
from graveler.model import Commit
from graveler.refs.reflog import as_of, moves_ago
from graveler.refs.refs import Refs

_EXPRESSION = re.compile(
    r"([A-Za-z0-9_][A-Za-z0-9_.-]*)(?:(@)|(?:@\{([^{}]{1,40})\})?((?:[~^][0-9]{0,7})*))"
)
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]*")
_NUMBER = re.compile(r"[0-9]{1,7}")
_AGO = re.compile(r"([0-9]{1,4})[ .]?([dhm])(?!o)[a-z]*(?:[ .]ago)?")
_MODIFIER = re.compile(r"([~^])([0-9]*)")
_FULL_ID = re.compile(r"[0-9a-f]{64}")
_PREFIX = re.compile(r"[0-9a-f]{4,63}")
_MOST_STEPS = 1_000_000
_HISTORY = re.compile(r"[0-9a-f]{4,64}|.*[~^@].*", re.DOTALL)
"""Expressions of commits that may be expired: those that go back in history, or that contain a
commit id. Branches and tags keep the trees of their commits, except those that were accepted as lost."""


def resolve(refs: Refs, expression: str) -> Commit:
    """Return the commit of an expression."""
    match = _EXPRESSION.fullmatch(expression)
    if match is None:
        raise InvalidInputError(
            f"ref {expression[:200]!r}: give a branch, a tag or a commit id, then ~N, ^N, @ or @{{…}} "
            "(main, v1, 3f2a91c0, main~2, main^2, main@, main@{1}, main@{2013-01-01T05:00Z})"
        )
    name, at, when, modifiers = match.groups()
    if at:
        return refs.commits.get(refs.branches.get(name).commit_id)
    commit = _base(refs, name) if when is None else _then(refs, name, when, expression)
    for sign, digits in _MODIFIER.findall(modifiers):
        number = int(digits or 1)
        if number > _MOST_STEPS:
            raise InvalidInputError(f"ref {expression!r}: {number} steps are too many")
        commit = _back(refs, commit, sign, number, expression)
    return commit


def resolve_to_read(refs: Refs, expression: str) -> Commit:
    """Return the commit of an expression, for reading its tree."""
    commit = resolve(refs, expression)
    if _HISTORY.fullmatch(expression):
        refs.expired.check_readable(commit.id)
    return commit


def resolve_to_name(refs: Refs, expression: str) -> Commit:
    """Return the commit of an expression, for a new ref or for a tree made from its tree."""
    commit = resolve(refs, expression)
    refs.expired.check_nameable(commit.id)
    return commit


def resolve_beside(
    refs: Refs, expression: str, *places: Place
) -> tuple[Commit, list[Version[Any] | None]]:
    """Return the commit of `resolve_to_name`, and the versions at the places.

    If the expression is the name of a branch, all are read at one moment in one round trip.
    Otherwise the places are read after the commit.
    """
    plain = _NAME.fullmatch(expression) and not _HISTORY.fullmatch(expression)
    if plain:
        found, *others = refs.together.read(refs.branches.place(expression), *places)
        if found is not None:
            refs.expired.check_nameable(found.record.commit_id)
            return refs.commits.get(found.record.commit_id), others
    commit = resolve_to_name(refs, expression)
    return commit, refs.together.read(*places)


def _base(refs: Refs, name: str) -> Commit:
    if _FULL_ID.fullmatch(name):
        return refs.commits.get(name)
    branch = refs.branches.find(name)
    if branch is not None:
        return refs.commits.get(branch.commit_id)
    tagged = refs.tags.find(name)
    if tagged is not None:
        return refs.commits.get(tagged)
    commit = refs.commits.by_prefix(name) if _PREFIX.fullmatch(name) else None
    if commit is None:
        raise RefNotFoundError(
            f"no branch, tag or commit {name!r}: `graveler branch list` and `graveler tag list` "
            "show all of them"
        )
    return commit


def _then(refs: Refs, name: str, when: str, expression: str) -> Commit:
    """Return the commit of a branch a number of moves ago or at a time."""
    if _NUMBER.fullmatch(when):
        refs.branches.get(name)
        commit_id = moves_ago(refs, name, int(when))
        if commit_id is None:
            raise RefNotFoundError(f"ref {expression!r}: the branch was deleted by that move")
        return refs.commits.get(commit_id)
    try:
        moment = datetime.fromisoformat(when)
    except ValueError:
        moment = None
    if moment is None or moment.tzinfo is None:
        raise InvalidInputError(
            f"ref {expression!r}: between the braces give an exact time with its zone in ISO 8601, as in "
            f"{name}@{{{_exact(refs, when)}}}, or how many moves ago, as in {name}@{{1}}"
        )
    return refs.commits.get(as_of(refs, name, moment))


def _exact(refs: Refs, when: str) -> str:
    """Return the time that a relative one means now, or the present one."""
    match = _AGO.fullmatch("1d" if when == "yesterday" else when)
    ago = read_duration(f"{match[1]}{match[2]}") if match else None
    return f"{refs.clock.now() - (ago or timedelta()):%Y-%m-%dT%H:%MZ}"


def _back(refs: Refs, commit: Commit, sign: str, number: int, expression: str) -> Commit:
    if sign == "^":
        if number == 0:
            return commit
        if number > len(commit.parents):
            count = len(commit.parents)
            raise RefNotFoundError(
                f"ref {expression!r}: commit {commit.id[:12]} has "
                f"{count} {'parent' if count == 1 else 'parents'}"
            )
        return refs.commits.get(commit.parents[number - 1])
    for _ in range(number):
        if not commit.parents:
            raise RefNotFoundError(f"ref {expression!r} goes back past the first commit")
        commit = refs.commits.get(commit.parents[0])
    return commit
