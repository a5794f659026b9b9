"""Walking the commit graph: log, ancestry, merge bases.

Generations order every walk: a commit's is greater than its parents', whatever the clocks showed,
so a walk by falling generation reaches children before parents.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from heapq import heappop, heappush

from graveler.model import Commit
from graveler.refs.commits import Commits

Visit = Callable[[Commit], tuple[bool, Sequence[str]]]
"""Returns whether a commit is shown, and which of its parents are visited next."""

_LEFT, _RIGHT, _STALE = 1, 2, 4
_BOTH = _LEFT | _RIGHT


def log(commits: Commits, start: str, *, first_parent: bool = False) -> Iterator[Commit]:
    """Yield the commit `start` and its ancestors, each once, children before parents.

    Among commits of one generation the later one comes first.
    """
    return walk(
        commits,
        start,
        lambda commit: (True, commit.parents[:1] if first_parent else commit.parents),
    )


def walk(commits: Commits, start: str, visit: Visit) -> Iterator[Commit]:
    """Yield those of `start` and its ancestors that `visit` shows, in the order of `log`.

    Parents that `visit` does not name, and what only they reach, are not read.
    """
    head = commits.get(start)
    heap = [(-head.generation, -head.created.timestamp(), head.id)]
    seen = {head.id}
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
    """Return whether `ancestor` is `of` or is reached from it."""
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

    Best: a common ancestor that is no ancestor of another one. Several commits on a side stand
    for a merge of them that was not made.

    The walk pops by falling generation, so every descendant of a commit was popped before it,
    and the sides of a commit are final when it is popped: if it is reached from both sides and
    from no common ancestor, it is a best one. The walk ends when every further commit of one
    side is reached only through a common ancestor.

    Returns:
        By falling generation, then by id; none if the histories are disjoint.
    """
    heap = _Heap(commits)
    for side, tips in ((_LEFT, left), (_RIGHT, right)):
        for tip in (tips,) if isinstance(tips, str) else tips:
            heap.reach(commits.get(tip), side)
    best: list[Commit] = []
    while heap.is_open():
        commit, sides = heap.pop()
        if sides == _BOTH:
            best.append(commit)
            sides |= _STALE
            if not heap.is_open():
                break  # before its parents are read
        for parent in commit.parents:
            heap.reach(commits.parent(commit, parent), sides)
    return tuple(best)


class _Heap:
    """Commits that were reached, by falling generation."""

    def __init__(self, commits: Commits) -> None:
        self._commits = commits
        self._heap: list[tuple[int, str]] = []
        self._sides: dict[str, int] = {}
        # by side, how many commits in the heap are reached from it and from no common ancestor
        self._open = {_LEFT: 0, _RIGHT: 0}

    def is_open(self) -> bool:
        """Whether another best common ancestor may be reached."""
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


def line_outside(commits: Commits, start: str, other: str) -> Iterator[Commit]:
    """Yield `start` and its first parents, down to the first that `other` is or descends from."""
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
    """Yield `start` and its ancestors that `other` neither is nor descends from, each once."""
    pending, seen = [start], set[str]()
    while pending:
        for commit in line_outside(commits, pending.pop(), other):
            if commit.id in seen:
                break
            seen.add(commit.id)
            yield commit
            pending += commit.parents[1:]
