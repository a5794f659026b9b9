"""All commits of a repository, without their messages and metadata."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from heapq import heapify, heappop, heappush

from graveler.base.clock import unix_us
from graveler.committed.bases import LEVELS
from graveler.errors import CorruptionError
from graveler.model import Commit
from graveler.reads.changes import reached
from graveler.refs.refs import Refs

_NAMED = ("graveler.step_base", "graveler.step_head")


@dataclass(frozen=True, slots=True)
class Node:
    """A commit without its message and metadata."""

    parents: tuple[str, ...]
    created: int
    trees: tuple[str, ...]
    generation: int
    named: tuple[str, ...] = ()


def _node(commit: Commit) -> Node:
    named = tuple(commit.metadata[name] for name in _NAMED if name in commit.metadata)
    created = unix_us(commit.created)
    return Node(commit.parents, created, commit.trees, commit.generation, named)


@dataclass(slots=True)
class _Reach:
    """The heads from which a commit is reached, as bits."""

    heads: int = 0
    children: tuple[int, ...] = ()

    def add(self, heads: int) -> None:
        self.heads |= heads
        if not any(heads | child == child for child in self.children):
            kept = (child for child in self.children if heads | child != heads)
            self.children = (*kept, heads)

    def level(self, masks: Sequence[int]) -> int | None:
        """Return the level on which the commit is a base, or None.

        It can be the best common ancestor of two heads only if no child is reached from both.
        """
        if len(self.children) > 1:
            for level, mask in enumerate(masks, 1):
                if all(child & mask != self.heads & mask for child in self.children):
                    return level
        return None


class CommitGraph:
    """The commits by id, read in one scan; later ones are read one by one.

    It is held in memory: some hundred bytes for each commit.
    """

    def __init__(self, refs: Refs) -> None:
        self._commits = refs.commits
        self.nodes: dict[str, Node] = {commit.id: _node(commit) for commit in self._commits.list()}

    def get(self, identifier: str) -> Node:
        """Return a commit."""
        node = self.nodes.get(identifier)
        if node is None:
            commit = self._commits.find(identifier)
            if commit is None:
                raise CorruptionError(
                    f"commit {identifier} is missing: run `graveler fsck` to see what needs it; "
                    "nothing is collected before it is mended"
                )
            node = self.nodes[identifier] = _node(commit)
        return node

    def ancestors(self, heads: Iterable[str]) -> Iterator[str]:
        """Yield the heads and all their ancestors, each once."""
        return reached(heads, lambda identifier: self.get(identifier).parents)

    def merge_bases(self, heads: Iterable[str]) -> set[str]:
        """Return the heads and every commit that a merge between any two of them starts from.

        These are the best common ancestors of any two heads, those of any two of these
        ancestors, and so on, for as many levels as a merge with several bases uses. If three lines
        of a history were merged crosswise, the result may hold a few more commits.

        One walk visits each commit once, children before parents. A commit carries one bit for
        each head and each base that it is reached from. No base is missed: if a commit is the best
        common ancestor of two, each of them is reached through another child, and no child is
        reached from both; so no child carries the bits of both. A commit with a child that carries
        all its bits is not a best common ancestor. Memory: one bit for each head and base, for each
        line of history next to the current commit.
        """
        bases = set(heads)
        reach = {head: _Reach() for head in bases}
        pending = [(-self.get(head).generation, head) for head in bases]
        heapify(pending)
        bit = 1
        masks = [0] * LEVELS
        while pending:
            identifier = heappop(pending)[1]
            reached = reach.pop(identifier)
            level = 0 if identifier in bases else reached.level(masks)
            own = 0
            if level is not None:
                bases.add(identifier)
            if level is not None and level < LEVELS:
                own, bit = bit, bit << 1
                masks[level:] = [mask | own for mask in masks[level:]]
            for parent in self.get(identifier).parents:
                if parent not in reach:
                    reach[parent] = _Reach()
                    heappush(pending, (-self.get(parent).generation, parent))
                reach[parent].add(reached.heads | own)
        return bases
