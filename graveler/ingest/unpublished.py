"""The commits of an ingestion branch that are not published, found from history alone.

The branch's own line, by first parents, consists of hours and other commits of users. Ticks and
releases add two more kinds of commits: one removes a refused change from the branch, the other
merges the target into the branch. A commit older than the last of these cannot be published alone,
because it still contains the removed change. From that commit on, the branch is published commit
by commit.
"""

from bisect import bisect_left
from collections.abc import Callable
from dataclasses import dataclass
from itertools import islice, takewhile

from graveler.ingest.hours import commit_hour
from graveler.ingest.records import IngestRecords
from graveler.model import Commit
from graveler.reads.stores import Stores
from graveler.refs.commits import Commits
from graveler.refs.history import is_ancestor, log
from graveler.refs.refs import Refs
from graveler.repository.origins import removed_by

INGEST = "graveler.ingest"
"""Key in a tick's commit, and in the commit that publishes it: the ingestion branch."""

TAKEN_OFF = "graveler.taken-off"
"""Key in a commit that removes changes: the removed commits."""

TAKEN_TO = "graveler.taken-to"
"""Key in a commit that removes changes: the branch that has them now."""

QUARANTINE = "graveler.quarantine"
"""Key in the first commit of that branch: its name."""

CHANGES = "graveler.changes"
"""Key in the same commit: the commits of a refused change."""

POLICY = "graveler.policy"
"""Key in the same commit: the policy by which conflicting writes were set aside."""

TARGET = "graveler.target"
"""Key in a tick's commit: the head of the target when the tick looked for changes of others."""

CAUGHT_UP = "graveler.caught-up"
"""Key in a commit that merges the target into the branch: the target's commit. With that commit as
its only parent, it begins the branch: what is below it is not of the branch."""

FAR = 500
"""The most generations of commits that are looked at one by one; a run takes two or more."""


@dataclass(frozen=True, slots=True)
class Point:
    """A commit of the branch that can be published, with its changes."""

    commit: Commit
    changes: tuple[Commit, ...]


@dataclass(frozen=True, slots=True)
class IngestBranch:
    """An ingestion branch."""

    stores: Stores
    records: IngestRecords
    name: str
    into: str
    policy: str = "hold"

    def head(self) -> Commit:
        """Return the head of the branch."""
        return self._head_of(self.name)

    def target(self) -> Commit:
        """Return the head of its target."""
        return self._head_of(self.into)

    def _head_of(self, name: str) -> Commit:
        refs = self.stores.refs
        return refs.commits.get(refs.branches.get(name).commit_id)

    def tips(self) -> tuple[Commit, Commit]:
        """Return the heads of the branch and of its target.

        If they are far apart, the record of an hour may tell that the target has the branch: it did
        when it was on the line on which it is now. Then no walk between them is needed.
        """
        head, target, refs = self.head(), self.target(), self.stores.refs
        apart = target.generation - head.generation > FAR
        if apart and INGEST in head.metadata and (head.id, target.id) not in refs.commits.known:
            record = self.records.hour(commit_hour(head))
            now = refs.branches.get(self.into)  # read after the record
            target = refs.commits.get(now.commit_id)
            there = record is not None and record.line == now.line and record.published
            if there and is_ancestor(refs.commits, head.id, there):
                refs.commits.known.add((head.id, target.id))
        return head, target

    def unpublished(self) -> tuple[Point, ...]:
        """Return the commits that are not published, as points, oldest first."""
        return points(self.stores.refs, *self.tips())


def points(refs: Refs, head: Commit, target: Commit) -> tuple[Point, ...]:
    """Return the points of the branch at `head` that are not published, oldest first.

    After a reset of the target, a commit that was published and is expired is not published again
    by itself. The next one has its change.
    """
    line = unpublished_line(refs.commits, head, target)
    removed = {name for commit in line for name in removed_by(commit)}
    marks = [at for at, commit in enumerate(line) if _is_ours(commit)]
    first = marks[-1] if marks else 0
    unpublished: list[Point] = []
    waiting: list[Commit] = []
    for at, commit in enumerate(line):
        gone = commit is not line[-1] and refs.expired.find(commit.id) is not None
        if not (gone or _is_ours(commit) or commit.id in removed):
            waiting.append(commit)
        if at >= first and waiting:
            unpublished.append(Point(commit, tuple(waiting)))
            waiting = []
    return tuple(unpublished)


def joined(points: tuple[Point, ...]) -> Point:
    """Return all points as one."""
    return Point(points[-1].commit, tuple(change for point in points for change in point.changes))


def find_removal(commits: Commits, head: Commit, names: tuple[str, ...]) -> str | None:
    """Find out whether commits were removed from the line of `head`.

    Returns:
        The name of the quarantine that one of them was moved to; "" if none was removed; None if
        the line has none of them, because the branch was reset.
    """
    changes = list(filter(None, map(commits.find, names)))
    if not changes:
        return None
    floor = min(change.generation for change in changes)
    present = False
    for commit in log(commits, head.id, first_parent=True):
        if commit.generation < floor:
            break
        if not set(names).isdisjoint(removed_by(commit)):
            return commit.metadata.get(TAKEN_TO, "?")
        present = present or commit.id in names
    return "" if present else None


def published_by(commits: Commits, commit: Commit, target: Commit) -> Commit | None:
    """Return the commit on the target's own line that published `commit`, or None."""
    if not is_ancestor(commits, commit.id, target.id):
        return None
    newer = log(commits, target.id, first_parent=True)
    line = list(takewhile(lambda one: one.generation >= commit.generation, newer))
    # along the line, newest first, the commits that contain it precede those that do not
    without = bisect_left(line, 1, key=lambda later: 1 - is_ancestor(commits, commit.id, later.id))
    return line[without - 1]


def last_sealed(commits: Commits, head: Commit, known: Callable[[], str]) -> Commit:
    """Return the commit of the line after which the present staged writes came.

    It is the last one of staged writes, or `known()`, if a tick found then that nothing was left.
    """
    ended = known() if _is_ours(head) else ""
    line = log(commits, head.id, first_parent=True)
    return next(one for one in line if one.id == ended or not _is_ours(one))


def last_seen(commits: Commits, head: Commit) -> str:
    """Return the head of the target of which the line of `head` has everything before it.

    Without a tick, it is `head` itself: its own history is known.
    """
    for commit in islice(log(commits, head.id, first_parent=True), FAR):
        mark = commit.metadata.get(CAUGHT_UP) or commit.metadata.get(TARGET)
        if mark is not None and commits.find(mark) is not None:
            return mark
    return head.id


def _is_ours(commit: Commit) -> bool:
    return TAKEN_OFF in commit.metadata or CAUGHT_UP in commit.metadata


def unpublished_line(commits: Commits, head: Commit, target: Commit) -> list[Commit]:
    """Return the commits of the line that the target does not have, oldest first."""
    line: list[Commit] = []
    for commit in log(commits, head.id, first_parent=True):
        if not commit.parents or is_ancestor(commits, commit.id, target.id):
            break
        line.append(commit)
        if CAUGHT_UP in commit.metadata and len(commit.parents) == 1:
            break
    return line[::-1]
