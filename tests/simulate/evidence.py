"""The record of a schedule that has ended: the only input of the checkers."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from tests.simulate.history import Contents, Operation


@dataclass(frozen=True)
class CommitFacts:
    """A commit that a branch reaches, or that an operation returned."""

    parents: tuple[str, ...]
    tree: Contents
    message: str


@dataclass(frozen=True)
class Evidence:
    """One history, and the state of the stores at rest.

    Attributes:
        operations: All operations that began. The last ones are those of the recovery process,
            which lists and commits every branch.
        commits: The commits by id, without those that garbage collection has deleted.
        heads: The heads of the existing branches, after the last commit.
        sealed: The sealed tokens of these branches, after the last commit.
        orphans: Tokens that have staged writes and that no branch names.
        broken: Violations that were seen during the schedule.
        struck: The bits of the operations that met a fault.
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

    def of_kind(self, *kinds: str, branch: str | None = None) -> list[Operation]:
        """Return the operations of these kinds, on that branch where one is given."""
        if len(kinds) == 1:
            return self._by_kind.get((kinds[0], branch), [])
        return [found for kind in kinds for found in self._by_kind.get((kind, branch), ())]

    def writes(self, branch: str, path: str) -> list[Operation]:
        """Return the operations that wrote the path; the creation of a branch writes every path."""
        return self._by_path.get((branch, path)) or self._by_path.get((branch, ""), [])

    def paths(self, branch: str) -> set[str]:
        """Return every path that was written on the branch."""
        return {path for name, path in self._by_path if name == branch and path}

    def ancestors(self, branch: str) -> set[str]:
        """Return the head of the branch and all its ancestors."""
        pending, seen = [self.heads[branch]], set[str]()
        while pending:
            identifier = pending.pop()
            if identifier not in seen:
                seen.add(identifier)
                pending += self.commits[identifier].parents
        return seen

    @cached_property
    def _by_kind(self) -> dict[tuple[str, str | None], list[Operation]]:
        found: dict[tuple[str, str | None], list[Operation]] = {}
        for operation in self.operations:
            for branch in (operation.branch, None):
                found.setdefault((operation.kind, branch), []).append(operation)
        return found

    @cached_property
    def _by_path(self) -> dict[tuple[str, str], list[Operation]]:
        every = {(o.branch, path) for o in self.operations for path in o.writes}
        every |= {(o.branch, "") for o in self.operations}
        found: dict[tuple[str, str], list[Operation]] = {key: [] for key in every}
        for operation in self.operations:
            if operation.kind in {"create", "hard_reset"}:
                for key, writes in found.items():
                    if key[0] == operation.branch:
                        writes.append(operation)
                continue
            for path in operation.writes:
                found[operation.branch, path].append(operation)
        return found
