"""Which files a check looks at."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from graveler.errors import InvalidInputError
from graveler.gates.candidate import Candidate
from graveler.gates.checks.base import BuiltIn
from graveler.gates.gate import Gate
from graveler.gates.statistics import brought, counts
from graveler.model import Entry

__all__ = ["Scoped", "files_of"]

_SCOPES: Final = ("changes", "all")


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
