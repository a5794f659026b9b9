"""What is known when a schedule has ended: what the checkers judge, and nothing else."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from tests.simulate.history import Contents, Operation


@dataclass(frozen=True)
class CommitFacts:
    """A commit that is reached from a branch, or was told to somebody."""

    parents: tuple[str, ...]
    tree: Contents
    message: str


@dataclass(frozen=True)
class Evidence:
    """One history, and what is left at rest.

    Attributes:
        operations: All that began; the last ones are those of the process that recovers: it
            lists every branch and commits it.
        commits: By id.
        heads: Of the branches that are there, after the last commit.
        sealed: Their sealed tokens, after the last commit.
        orphans: Tokens with staged writes that no branch names.
        broken: What was seen to go wrong on the way.
        struck: Bits of the operations that met a fault.
        allowed: Names of errors that any operation may end with.
    """

    operations: Sequence[Operation]
    commits: Mapping[str, CommitFacts] = field(default_factory=dict)
    heads: Mapping[str, str] = field(default_factory=dict)
    sealed: Mapping[str, Sequence[str]] = field(default_factory=dict)
    orphans: Sequence[str] = ()
    broken: Sequence[str] = ()
    struck: int = 0
    allowed: frozenset[str] = frozenset()

    def of_kind(self, *kinds: str, branch: str | None = None) -> Iterator[Operation]:
        """Yield the operations of these kinds, on that branch where one is given."""
        for operation in self.operations:
            if operation.kind in kinds and branch in {None, operation.branch}:
                yield operation

    def paths(self, branch: str) -> set[str]:
        """Return every path that was written on the branch."""
        return {
            path
            for operation in self.operations
            if operation.branch == branch
            for path in operation.writes
        }

    def ancestors(self, branch: str) -> set[str]:
        """Return the commits that the branch's head is or comes from."""
        pending, seen = [self.heads[branch]], set[str]()
        while pending:
            identifier = pending.pop()
            if identifier not in seen:
                seen.add(identifier)
                pending += self.commits[identifier].parents
        return seen
