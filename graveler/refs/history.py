"""Walking the commit graph: log, ancestry, merge bases.

Generations order every walk. The generation of a commit is greater than those of its parents,
independent of clocks. So a walk by decreasing generation reaches children before parents.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from heapq import heappop, heappush

from graveler.model import Commit
from graveler.refs.commits import Commits

Visit = Callable[[Commit], tuple[bool, Sequence[str]]]
"""Returns whether a commit is shown, and the ids of its parents to visit."""

_RUN = "graveler.run"
_LEFT, _RIGHT, _STALE = 1, 2, 4
_BOTH = _LEFT | _RIGHT


@dataclass(frozen=True, slots=True)
class Selection:
    """The commits that a log shows. A missing condition accepts all commits.

    Attributes:
        metadata: Pairs of the metadata. A commit has all of them.
    """

    metadata: Mapping[str, str] = field(default_factory=dict)
    run: str = ""
    committer: str = ""
    since: datetime | None = None
    until: datetime | None = None

    def covers(self, commit: Commit) -> bool:
        """Return whether the log shows the commit."""
        return (
            self.metadata.items() <= commit.metadata.items()
            and self.run in {"", commit.metadata.get(_RUN)}
            and self.committer in {"", commit.committer}
            and (self.since is None or self.since <= commit.created)
            and (self.until is None or commit.created < self.until)
        )


def log(commits: Commits, *starts: str, first_parent: bool = False) -> Iterator[Commit]:
    """Yield the commits `starts` and their ancestors, each once, children before parents.

    Among commits of the same generation, later commits come first.
    """
    return walk(
        commits,
        starts,
        lambda commit: (True, commit.parents[:1] if first_parent else commit.parents),
    )


def walk(commits: Commits, starts: Iterable[str], visit: Visit) -> Iterator[Commit]:
    """Yield `starts` and their ancestors in the order of `log`, if `visit` shows them.

    Parents that `visit` does not return, and commits that only they reach, are not read.
    """
    heads = [commits.get(start) for start in dict.fromkeys(starts)]
    heap = sorted((-head.generation, -head.created.timestamp(), head.id) for head in heads)
    seen = {head.id for head in heads}
    while heap:
        commit = commits.get(heappop(heap)[2])
        shown, parents = visit(commit)
        if shown:
            yield commit
        for identifier in parents:
            if identifier not in seen:
                seen.add(identifier)
                parent = commits.parent(commit, identifier)
                heappush(heap, (-parent.generation, -parent.created.timestamp(), parent.id))


def is_ancestor(commits: Commits, ancestor: str, of: str) -> bool:
    """Return whether `ancestor` is `of` or one of its ancestors."""
    if (ancestor, of) in commits.known:
        return True
    floor = commits.get(ancestor).generation
    pending, seen = [of], {of}
    while pending:
        identifier = pending.pop()
        if identifier == ancestor:
            return True
        commit = commits.get(identifier)
        if commit.generation <= floor:
            continue
        fresh = [parent for parent in commit.parents if parent not in seen]
        seen.update(fresh)
        pending += fresh
    return False


def merge_bases(
    commits: Commits, left: str | Iterable[str], right: str | Iterable[str]
) -> tuple[Commit, ...]:
    """Return all best common ancestors, as `git merge-base --all` defines them.

    A best common ancestor is not an ancestor of another common ancestor. Several commits on a side
    represent a virtual merge of them.

    The walk pops commits by decreasing generation, so all descendants of a commit are popped before
    it, and its sides are final when it is popped. A commit that is reached from both sides and from
    no common ancestor is a best one. The walk ends when every further commit of one side is reached
    only through a common ancestor.

    Returns:
        The ancestors by decreasing generation, then by id. Empty if the histories are disjoint.
    """
    tips = [(side,) if isinstance(side, str) else tuple(side) for side in (left, right)]
    for one, other in (tips, tips[::-1]):
        if (*one, *other) in commits.known:
            return (commits.get(one[0]),)
    heap = _Heap(commits)
    for side, some in zip((_LEFT, _RIGHT), tips, strict=True):
        for tip in some:
            heap.reach(commits.get(tip), side)
    best: list[Commit] = []
    while heap.is_open():
        commit, sides = heap.pop()
        if sides == _BOTH:
            best.append(commit)
            sides |= _STALE
            if not heap.is_open():
                break  # before reading its parents
        for parent in commit.parents:
            heap.reach(commits.parent(commit, parent), sides)
    return tuple(best)


class _Heap:
    """Reached commits by decreasing generation."""

    def __init__(self, commits: Commits) -> None:
        self._commits = commits
        self._heap: list[tuple[int, str]] = []
        self._sides: dict[str, int] = {}
        # for each side, the number of commits in the heap that no common ancestor reaches
        self._open = {_LEFT: 0, _RIGHT: 0}

    def is_open(self) -> bool:
        """Whether the walk can reach another best common ancestor."""
        return all(self._open.values())

    def reach(self, commit: Commit, sides: int) -> None:
        known = self._sides.get(commit.id, 0)
        if not known:
            heappush(self._heap, (-commit.generation, commit.id))
        self._sides[commit.id] = known | sides
        self._count(known, -1)
        self._count(known | sides, 1)

    def pop(self) -> tuple[Commit, int]:
        identifier = heappop(self._heap)[1]
        sides = self._sides[identifier]
        self._count(sides, -1)
        return self._commits.get(identifier), sides

    def _count(self, sides: int, step: int) -> None:
        if not sides & _STALE:
            for side in (_LEFT, _RIGHT):
                if sides & side:
                    self._open[side] += step


def line_above(commits: Commits, head: Commit, generation: int) -> Iterator[Commit]:
    """Yield a commit and its first parents above a generation, which is at least 1."""
    while head.generation > generation:
        yield head
        head = commits.get(head.parents[0])


def line_outside(commits: Commits, start: str, other: str) -> Iterator[Commit]:
    """Yield `start` and its first parents, up to the first one that is `other` or its ancestor."""
    heap, reached = [(-commits.get(other).generation, other)], {other}
    line = commits.get(start)
    while True:
        while heap and -heap[0][0] > line.generation:
            commit = commits.get(heappop(heap)[1])
            for parent in commit.parents:
                if parent not in reached:
                    reached.add(parent)
                    heappush(heap, (-commits.parent(commit, parent).generation, parent))
        if line.id in reached:
            return
        yield line
        if not line.parents:
            return
        line = commits.parent(line, line.parents[0])


def outside(commits: Commits, start: str, other: str) -> Iterator[Commit]:
    """Yield `start` and its ancestors, each once, without `other` and its ancestors."""
    pending, seen = [start], set[str]()
    while pending:
        for commit in line_outside(commits, pending.pop(), other):
            if commit.id in seen:
                break
            seen.add(commit.id)
            yield commit
            pending += commit.parents[1:]
