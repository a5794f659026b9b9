"""The files that a check reads."""

from abc import abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

from graveler.errors import InvalidInputError
from graveler.gates.candidate import Candidate
from graveler.gates.checks.base import BuiltIn
from graveler.gates.gate import Gate
from graveler.gates.statistics import brought, counts
from graveler.model import Entry

_SCOPES: Final = ("changes", "all")
_ALLOW: Final = "allow"
_MISSING: Final = ("refuse", _ALLOW)


def files_of(candidate: Candidate, prefix: str, scope: str) -> Iterator[Entry]:
    """Yield the files below a prefix: the added and replaced ones, or all."""
    found = brought(candidate.changes(prefix)) if scope == "changes" else candidate.entries(prefix)
    return (entry for entry in found if counts(entry))


@dataclass(frozen=True)
class Scoped(BuiltIn):
    """A check of the files below a prefix.

    Attributes:
        prefix: Start of the paths.
        scope: ``changes`` for the files that the run adds or replaces, ``all`` for all files.
        missing: ``refuse`` or ``allow``: what to do if no file is below the prefix.
    """

    prefix: str = ""
    scope: str = "changes"
    missing: str = field(default="refuse", kw_only=True)

    def __post_init__(self) -> None:
        for name, value, known in (
            ("scope", self.scope, _SCOPES),
            ("missing", self.missing, _MISSING),
        ):
            if value not in known:
                raise InvalidInputError(
                    f"check {self.kind}: {name} {value!r}: give one of {', '.join(known)}"
                )

    def gate(self) -> Gate:
        """Return the gate, which declares the files that the check reads."""
        where = f" {self.prefix}" if self.prefix else ""
        reads = "changes" if self.scope == "changes" else "content"
        return Gate(f"{self.kind}{where}", self, prefix=self.prefix, reads=reads)

    def __call__(self, candidate: Candidate) -> str | None:
        """Return why the candidate is refused, or None."""
        found = list(files_of(candidate, self.prefix, self.scope))
        candidate.report(files=len(found))
        return self.judge(candidate, found) if found else self.nothing(candidate)

    @abstractmethod
    def judge(self, candidate: Candidate, entries: list[Entry]) -> str | None:
        """Return what is wrong with the files, of which there is at least one, or None."""

    def nothing(self, candidate: Candidate) -> str | None:
        """Return why the candidate is refused if there is no file, or None."""
        if self.missing == _ALLOW or candidate.restores:
            return None
        if self.scope == "changes" and candidate.has_below(self.prefix):
            return None  # the run does not change the existing files
        return (
            f"there is nothing below {self.prefix!r}: correct the prefix, or let that pass with "
            f"missing={_ALLOW!r}"
        )
