"""All commits of a repository, as far as retention looks at them."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
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
        named: Commits that its metadata names: a step that is tried again looks at them.
    """

    parents: tuple[str, ...]
    created: int
    tree: str
    named: tuple[str, ...] = ()


def _node(commit: Commit) -> Node:
    named = tuple(commit.metadata[name] for name in _NAMED if name in commit.metadata)
    return Node(commit.parents, unix_us(commit.created), commit.metarange, named)


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
