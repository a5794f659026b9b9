"""All commits of a repository, without their texts."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from heapq import heapify, heappop, heappush
from typing import Final

from graveler.clock import unix_us
from graveler.committed import LEVELS
from graveler.errors import CorruptionError
from graveler.model import Commit
from graveler.refs import Refs

_NAMED: Final = ("graveler.step_base", "graveler.step_head")


@dataclass(frozen=True, slots=True)
class Node:
    """A commit without its texts.

    Attributes:
        parents: Ids, first parent first.
        created: Microseconds since 1970, UTC, by the clock of the committer.
        tree: Id of its metarange, hex.
        generation: Greater than that of every parent.
        named: Commits that its metadata names: the next try of a step reads them.
    """

    parents: tuple[str, ...]
    created: int
    tree: str
    generation: int
    named: tuple[str, ...] = ()


def _node(commit: Commit) -> Node:
    named = tuple(commit.metadata[name] for name in _NAMED if name in commit.metadata)
    created = unix_us(commit.created)
    return Node(commit.parents, created, commit.metarange, commit.generation, named)


@dataclass(slots=True)
class _Reach:
    """From which heads a commit is reached, as bits.

    Attributes:
        heads: All of them.
        children: What its children are reached from, without what another child has whole.
    """

    heads: int = 0
    children: tuple[int, ...] = ()

    def add(self, heads: int) -> None:
        """Add what one child is reached from."""
        self.heads |= heads
        if not any(heads | child == child for child in self.children):
            kept = (child for child in self.children if heads | child != heads)
            self.children = (*kept, heads)

    def level(self, masks: Sequence[int]) -> int | None:
        """Return on which level the commit is a base, None on no level.

        It can be the best common ancestor of two heads only if no child is reached from both.

        Args:
            masks: By level, the heads and bases up to it.
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
        """Return a commit.

        Raises:
            CorruptionError: It is reached, and it is missing.
        """
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
        """Yield the heads and all that they descend from, each once."""
        todo = list(dict.fromkeys(heads))
        seen = set(todo)
        while todo:
            identifier = todo.pop()
            yield identifier
            fresh = [parent for parent in self.get(identifier).parents if parent not in seen]
            seen.update(fresh)
            todo += fresh

    def merge_bases(self, heads: Iterable[str]) -> set[str]:
        """Return the heads and every commit that a merge between any two of them starts from.

        These are the best common ancestors of any two heads, those of any two of these
        ancestors, and so on, as many levels as a merge with several bases looks at. Of histories
        in which three lines were merged crosswise a few more may be among them.

        One walk visits each commit once, children before parents. Each carries the heads it is
        reached from as bits, and so do the bases that were found. None is missed: of the two that
        a commit is the best common ancestor of, each is reached by way of another child, and none
        of its children is reached from both; so no child carries the bits of both. A commit of
        which a child carries as many bits as it does is nobody's best. Memory: a bit per head and
        base for each line of history that lies beside the commit looked at.
        """
        found = set(heads)
        reach = {head: _Reach() for head in found}
        pending = [(-self.get(head).generation, head) for head in found]
        heapify(pending)
        bit = 1
        masks = [0] * LEVELS
        while pending:
            identifier = heappop(pending)[1]
            there = reach.pop(identifier)
            level = 0 if identifier in found else there.level(masks)
            own = 0
            if level is not None:
                found.add(identifier)
            if level is not None and level < LEVELS:
                own, bit = bit, bit << 1
                masks[level:] = [mask | own for mask in masks[level:]]
            for parent in self.get(identifier).parents:
                if parent not in reach:
                    reach[parent] = _Reach()
                    heappush(pending, (-self.get(parent).generation, parent))
                reach[parent].add(there.heads | own)
        return found
