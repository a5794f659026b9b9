"""What of an ingestion branch is not published yet, told by history alone.

The branch's own line, by first parents, is hours (and whatever else somebody committed
there), and between them two kinds of commits that ticks and releases make: one that takes a
refused change *off*, and one that brings the branch *up* to its target. Nothing that is older
than the last such commit can be published as it is, for it still holds what was taken off: from
there on, the branch is published commit by commit.
"""

from bisect import bisect_left
from dataclasses import dataclass
from typing import Final

from graveler.model import Commit
from graveler.refs import is_ancestor
from graveler.refs.commits import Commits

INGEST: Final = "graveler.ingest"
"""Of a tick's commit, and of the commit that publishes it: the ingestion branch."""

TAKEN_OFF: Final = "graveler.taken-off"
"""Of a commit that takes changes off: their commits."""

TAKEN_TO: Final = "graveler.taken-to"
"""Of the same: the branch that has them now."""

QUARANTINE: Final = "graveler.quarantine"
"""Of the first commit of that branch: its name."""

TARGET: Final = "graveler.target"
"""Of a tick's commit: the head of the target when the tick looked for reverts there."""

CAUGHT_UP: Final = "graveler.caught-up"
"""Of a commit that brings the branch up to its target: the target's commit."""


@dataclass(frozen=True, slots=True)
class Point:
    """A commit of the branch that can be published, and what it brings.

    Attributes:
        commit: The commit.
        changes: The commits whose changes would be published with it, oldest first.
    """

    commit: Commit
    changes: tuple[Commit, ...]


def points(commits: Commits, head: Commit, target: Commit) -> tuple[Point, ...]:
    """Return what is to be published of the branch at `head`, oldest first."""
    line = _unpublished(commits, head, target)
    off = {each for commit in line for each in _taken_off(commit)}
    marks = [at for at, commit in enumerate(line) if _is_ours(commit)]
    first = marks[-1] if marks else 0
    found: list[Point] = []
    waiting: list[Commit] = []
    for at, commit in enumerate(line):
        if not _is_ours(commit) and commit.id not in off:
            waiting.append(commit)
        if at >= first and waiting:
            found.append(Point(commit, tuple(waiting)))
            waiting = []
    return tuple(found)


def whole(found: tuple[Point, ...]) -> Point:
    """Return all of it as one point."""
    return Point(found[-1].commit, tuple(one for point in found for one in point.changes))


def find_off(commits: Commits, head: Commit, wanted: tuple[str, ...]) -> str | None:
    """Return how these commits stand on the line of `head`.

    Returns:
        The name of the quarantine that took one of them off; "" if they are there, None if the
        line has none of them (somebody has reset the branch).
    """
    there = [one for each in wanted if (one := commits.find(each)) is not None]
    if not there:
        return None
    floor = min(one.generation for one in there)
    commit: Commit | None = head
    present = False
    while commit is not None and commit.generation >= floor:
        if not set(wanted).isdisjoint(_taken_off(commit)):
            return commit.metadata.get(TAKEN_TO, "?")
        present = present or commit.id in wanted
        commit = _before(commits, commit)
    return "" if present else None


def _taken_off(commit: Commit) -> tuple[str, ...]:
    return tuple(filter(None, commit.metadata.get(TAKEN_OFF, "").split(",")))


def _is_ours(commit: Commit) -> bool:
    return TAKEN_OFF in commit.metadata or CAUGHT_UP in commit.metadata


def _before(commits: Commits, commit: Commit) -> Commit | None:
    return commits.get(commit.parents[0]) if commit.parents else None


def _unpublished(commits: Commits, head: Commit, target: Commit) -> list[Commit]:
    line = []
    commit: Commit | None = head
    while commit is not None and not is_ancestor(commits, commit.id, target.id):
        line.append(commit)
        commit = _before(commits, commit)
    return line[::-1]


def published_by(commits: Commits, commit: Commit, target: Commit) -> Commit | None:
    """Return the commit on the target's own line that brought `commit`, None where none did."""
    if not is_ancestor(commits, commit.id, target.id):
        return None
    line = [target]
    while (older := _before(commits, line[-1])) and older.generation >= commit.generation:
        line.append(older)
    # along the line, newest first, it is there and then is no more
    without = bisect_left(line, 1, key=lambda one: 1 - is_ancestor(commits, commit.id, one.id))
    return line[without - 1]
