"""Walking the commit graph: log, ancestry, merge base.

Generations order every walk: a commit's is greater than its parents', whatever the
clocks said, so a walk by falling generation meets children before parents.
"""

from collections.abc import Callable, Iterator, Sequence
from heapq import heappop, heappush

from graveler.model import Commit
from graveler.refs.commits import Commits

__all__ = ["Visit", "is_ancestor", "log", "merge_base", "walk"]

Visit = Callable[[Commit], tuple[bool, Sequence[str]]]
"""Says of a commit whether it is shown, and which of its parents are walked to."""

_LEFT, _RIGHT = 1, 2
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

    Parents that `visit` does not name, and what is reached by them alone, are not looked at.
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
                parent = commits.get(identifier)
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


def merge_base(commits: Commits, left: str, right: str) -> Commit | None:
    """Return a best common ancestor, as git defines it, or None where histories are disjoint.

    Best: a common ancestor that is no ancestor of another one. The walk pops by falling
    generation, so the first commit reached from both sides has no common descendant below
    the tips: any such would have a greater generation and been popped before. Of several
    best ones (criss-cross) the one of greatest generation is taken, of equals the lesser id.
    """
    sides: dict[str, int] = {}
    heap: list[tuple[int, str]] = []

    def reach(identifier: str, side: int) -> None:
        known = sides.get(identifier, 0)
        sides[identifier] = known | side
        if not known:
            heappush(heap, (-commits.get(identifier).generation, identifier))

    reach(left, _LEFT)
    reach(right, _RIGHT)
    while heap:
        identifier = heappop(heap)[1]
        side = sides[identifier]
        if side == _BOTH:
            return commits.get(identifier)
        for parent in commits.get(identifier).parents:
            reach(parent, side)
    return None
