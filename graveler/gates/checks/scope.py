"""Which files a check looks at."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from graveler.errors import InvalidInputError
from graveler.gates.candidate import Candidate
from graveler.gates.checks.base import BuiltIn
from graveler.gates.gate import Gate
from graveler.gates.history import brought
from graveler.gates.statistics import counts
from graveler.model import Entry
from graveler.refs import is_ancestor

__all__ = ["Scoped", "files_of", "restores"]

_RESTORING: Final = frozenset({"revert", "undo"})
"""What puts a branch back: it takes away what others had brought, which is its purpose."""

_PLACING: Final = frozenset({"reset", "create"})
"""What puts a branch anywhere: back, if that is in the history of where it was."""

_SCOPES: Final = ("changes", "all")


def restores(candidate: Candidate) -> bool:
    """Return whether the branch would be put back, rather than forward."""
    if candidate.action in _PLACING:
        commits = candidate.repository.refs.commits
        return is_ancestor(commits, candidate.commit_id, candidate.target.id)
    return candidate.action in _RESTORING


def files_of(candidate: Candidate, prefix: str, scope: str) -> Iterator[Entry]:
    """Yield the files below a prefix: those that were added or replaced, or all of them."""
    found = brought(candidate.changes(prefix)) if scope == "changes" else candidate.entries(prefix)
    return (entry for entry in found if counts(entry))


@dataclass(frozen=True)
class Scoped(BuiltIn):
    """A check of the files below a prefix.

    Attributes:
        prefix: Where.
        scope: ``changes``: files that the run adds or replaces; ``all``: all that are there.
    """

    prefix: str = ""
    scope: str = "changes"

    def __post_init__(self) -> None:
        if self.scope not in _SCOPES:
            raise InvalidInputError(
                f"check {self.kind}: scope {self.scope!r}: give one of {', '.join(_SCOPES)}"
            )

    def gate(self) -> Gate:
        """Return the gate, judged again when what it reads has changed."""
        where = f" {self.prefix}" if self.prefix else ""
        reads = "changes" if self.scope == "changes" else "content"
        return Gate(f"{self.kind}{where}", self, prefix=self.prefix, reads=reads)

    def files(self, candidate: Candidate) -> list[Entry]:
        """Return the files to look at, and report how many they are."""
        found = list(files_of(candidate, self.prefix, self.scope))
        candidate.report(files=len(found))
        return found
