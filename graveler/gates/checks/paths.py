"""Where a run may work: what it may delete, what it may touch."""

from dataclasses import dataclass
from typing import ClassVar

from graveler.errors import InvalidInputError
from graveler.gates.candidate import Candidate
from graveler.gates.checks.base import BuiltIn, texts
from graveler.gates.checks.scope import restores
from graveler.gates.checks.telling import listed
from graveler.gates.gate import Gate
from graveler.model import Change, ChangeKind

__all__ = ["NothingDeletedOutside", "OnlyWithin"]


@dataclass(frozen=True)
class _Within(BuiltIn):
    """A check of the paths of changes; prefixes may name pairs of the run: ``in/{hour}/``."""

    prefixes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        given = texts(self.prefixes)
        object.__setattr__(self, "prefixes", given)
        if not given or not all(given):
            raise InvalidInputError(f"check {self.kind}: name at least one prefix, and none empty")

    def gate(self) -> Gate:
        """Return the gate; it looks at the change set alone."""
        return Gate(f"{self.kind} {' '.join(self.prefixes)}", self, reads="changes")

    def __call__(self, candidate: Candidate) -> str | None:
        """Return why not, or None."""
        if restores(candidate):
            return None
        pairs = {"key": candidate.run.key, **candidate.run.metadata}
        try:
            allowed = tuple(prefix.format_map(pairs) for prefix in self.prefixes)
        except (KeyError, IndexError, ValueError, AttributeError) as error:
            return (
                f"prefixes {', '.join(self.prefixes)}: the run has no {error} among its metadata "
                f"({', '.join(sorted(pairs))})"
            )
        outside = [
            change
            for change in candidate.changes()
            if self._counts(change) and not change.path.startswith(allowed)
        ]
        candidate.report(allowed=allowed, outside=len(outside))
        return listed(f"{change.path!r} would be {self._verb(change)}" for change in outside)

    def _counts(self, change: Change) -> bool:
        return True

    @staticmethod
    def _verb(change: Change) -> str:
        return {
            ChangeKind.ADDED: "added",
            ChangeKind.CHANGED: "changed",
            ChangeKind.REMOVED: "deleted",
        }[change.kind] + " outside of what the run may touch"


@dataclass(frozen=True)
class OnlyWithin(_Within):
    """Nothing is added, changed or deleted but below prefixes."""

    kind: ClassVar[str] = "only_within"


@dataclass(frozen=True)
class NothingDeletedOutside(_Within):
    """Nothing is deleted but below prefixes."""

    kind: ClassVar[str] = "nothing_deleted_outside"

    def _counts(self, change: Change) -> bool:
        return change.kind is ChangeKind.REMOVED
