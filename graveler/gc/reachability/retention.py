"""The retention rules applied to the history: they decide which commits keep their trees.

A branch is walked by first parents, which are its earlier heads. A commit is kept while its child
on the line is younger than the threshold. This rule keeps the younger commits and the one that was
the head at the threshold.

A clock may have been wrong when a commit was made. The longest sequence of commits of a line whose
times agree with their order is trusted; of two, that of the later times, which keeps more. Each other
commit counts as old as the trusted one before it, or as the one after it if its own time is later.
"""

from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from graveler.gc.reachability.graph import CommitGraph
from graveler.gc.rules import Keep

_DAY_US = 86_400_000_000


@dataclass(frozen=True, slots=True)
class Line:
    """A line of history and what is kept of it.

    Attributes:
        merged: Whether the head was merged into a branch and no branch ends here. It is kept while
            it is young, as if it had a child of its own age. Counts do not apply.
    """

    head: str
    keep: Keep
    merged: bool = False


def kept_commits(graph: CommitGraph, lines: Iterable[Line], now: int) -> set[str]:
    """Return the commits that the lines keep."""
    lines = list(lines)
    times = times_of(graph, {line.head for line in lines if line.keep.days is not None}, now)
    kept = set(graph.ancestors(line.head for line in lines if line.keep.everything))
    walked: dict[str, tuple[float, int]] = {}
    for line in lines:
        if not line.keep.everything:
            _walk(graph, times, line, now, kept, walked)
    return kept


def times_of(graph: CommitGraph, heads: Iterable[str], now: int) -> dict[str, int]:
    """Return the times by which the commits of lines are judged; see the module.

    A commit on several lines is judged on the longest one.
    """
    times: dict[str, int] = {}
    for head in sorted(heads, key=lambda name: (-graph.get(name).generation, name)):
        line: list[str] = []
        rest: tuple[str, ...] = (head,)
        while rest and rest[0] not in times:
            line.append(rest[0])
            rest = graph.get(rest[0]).parents
        stated = [min(graph.get(identifier).created, now) for identifier in line]
        trusted = _trusted(stated)
        later = now
        for at, identifier in enumerate(line):
            later = stated[at] if at in trusted else later
            times[identifier] = min(stated[at], later)
        earlier = times[rest[0]] if rest else 0
        for at, identifier in reversed(list(enumerate(line))):
            earlier = max(earlier, times[identifier]) if at in trusted else earlier
            times[identifier] = max(times[identifier], earlier)
    return times


def _trusted(stated: Sequence[int]) -> set[int]:
    """Return the places of the longest sequence of times, latest first, that never rises."""
    tails: list[int] = []
    ends: list[int] = []
    before: list[int] = []
    for at, time in enumerate(stated):
        place = bisect_right(tails, -time)
        before.append(ends[place - 1] if place else -1)
        tails[place : place + 1], ends[place : place + 1] = [-time], [at]
    found: set[int] = set()
    at = ends[-1] if ends else -1
    while at >= 0:
        found.add(at)
        at = before[at]
    return found


def _walk(
    graph: CommitGraph,
    times: Mapping[str, int],
    line: Line,
    now: int,
    kept: set[str],
    walked: dict[str, tuple[float, int]],
) -> None:
    days = line.keep.days
    threshold = float("inf") if days is None else now - days * _DAY_US
    left = 0 if line.merged else line.keep.count or 0
    identifier, node = line.head, graph.get(line.head)
    if line.merged and times.get(identifier, 0) <= threshold:
        return
    while True:
        earlier = walked.get(identifier)
        if earlier is not None and earlier[0] <= threshold and earlier[1] >= left:
            return  # the walk of another line has kept at least as much from here on
        walked[identifier] = threshold, left
        kept.add(identifier)
        left -= 1
        if not node.parents or (times.get(identifier, 0) <= threshold and left < 1):
            return
        identifier = node.parents[0]
        node = graph.get(identifier)
