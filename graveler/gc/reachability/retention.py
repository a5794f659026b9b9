"""The retention rules applied to the history: they decide which commits keep their trees.

A branch is walked by first parents, which are its earlier heads. A commit is kept while its child
on the line is younger than the threshold. This rule keeps the younger commits and the one that was
the head at the threshold. Heads are always kept.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final, Protocol

from graveler.gc.reachability.graph import Node
from graveler.gc.rules import Keep

_DAY_US: Final = 86_400_000_000


class History(Protocol):
    """The commits, by id."""

    def get(self, identifier: str, /) -> Node:
        """Return a commit."""

    def ancestors(self, heads: Iterable[str], /) -> Iterator[str]:
        """Yield the heads and all their ancestors, each once."""


@dataclass(frozen=True, slots=True)
class Line:
    """A line of history and what is kept of it.

    Attributes:
        head: The commit where it begins.
        keep: Its rule.
        merged: Whether the head was merged into a branch and no branch ends here. It is kept while
            it is young, as if it had a child of its own age. Counts do not apply.
    """

    head: str
    keep: Keep
    merged: bool = False


def kept_commits(graph: History, lines: Iterable[Line], now: int) -> set[str]:
    """Return the commits that the lines keep.

    Args:
        graph: The history.
        lines: The lines of branches, and those of heads merged into them.
        now: Microseconds since 1970, by the clock that dates commits.
    """
    lines = list(lines)
    kept = set(graph.ancestors(line.head for line in lines if line.keep.everything))
    walked: dict[str, tuple[float, int]] = {}
    for line in lines:
        if not line.keep.everything:
            _walk(graph, line, now, kept, walked)
    return kept


def _walk(
    graph: History, line: Line, now: int, kept: set[str], walked: dict[str, tuple[float, int]]
) -> None:
    days = line.keep.days
    threshold = float("inf") if days is None else now - days * _DAY_US
    left = 0 if line.merged else line.keep.count or 0
    identifier, node = line.head, graph.get(line.head)
    if line.merged and node.created <= threshold:
        return
    while True:
        earlier = walked.get(identifier)
        if earlier is not None and earlier[0] <= threshold and earlier[1] >= left:
            return  # the walk of another line has kept at least as much from here on
        walked[identifier] = threshold, left
        kept.add(identifier)
        left -= 1
        if not node.parents or (node.created <= threshold and left < 1):
            return
        identifier = node.parents[0]
        node = graph.get(identifier)
