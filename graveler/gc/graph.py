"""All commits of a repository, as far as retention looks at them."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from heapq import heapify, heappop, heappush
from typing import Final

from graveler.errors import CorruptionError
from graveler.identity import unix_us
from graveler.model import Commit
from graveler.refs import Refs

__all__ = ["CommitGraph", "Node"]

_NAMED: Final = ("graveler.step_base", "graveler.step_head")


@dataclass(frozen=True, slots=True)
class Node:
    """A commit without its texts.

    Attributes:
        parents: Ids, first parent first.
        created: Microseconds since 1970, UTC, by the clock of whoever committed.
        tree: Id of its metarange, hex.
        generation: Greater than that of every parent.
        named: Commits that its metadata names: a step that is tried again looks at them.
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
        covered: The most that one child is reached from, where one child has what the others have.
    """

    heads: int = 0
    covered: int = 0

    def add(self, heads: int) -> None:
        """Add what one child is reached from."""
        self.heads |= heads
        if heads | self.covered == heads:
            self.covered = heads


class CommitGraph:
    """The commits by id, read in one scan; what came later is read one by one.

    It is held in memory: some hundred bytes for each commit.
    """

    def __init__(self, refs: Refs) -> None:
        self._commits = refs.commits
        self.nodes: dict[str, Node] = {commit.id: _node(commit) for commit in self._commits.list()}

    def get(self, identifier: str) -> Node:
        """Return a commit.

        Raises:
            CorruptionError: Something reaches it, and it is not there.
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
        ancestors, and so on: what a merge with several bases looks at. Of histories in which
        three lines were merged crosswise a few more may be among them.

        One walk visits each commit once. Each carries the heads it is reached from as bits, and
        where one child carries as many, it is nobody's best. Memory: a bit per head and base for
        each line of history that lies beside the commit looked at.
        """
        found = set(heads)
        reach = {head: _Reach() for head in found}
        pending = [(-self.get(head).generation, head) for head in found]
        heapify(pending)
        bit = 1
        while pending:
            identifier = heappop(pending)[1]
            there = reach.pop(identifier)
            if there.heads != there.covered:
                found.add(identifier)
            own = 0
            if identifier in found:
                own, bit = bit, bit << 1
            for parent in self.get(identifier).parents:
                if parent not in reach:
                    reach[parent] = _Reach()
                    heappush(pending, (-self.get(parent).generation, parent))
                reach[parent].add(there.heads | own)
        return found
