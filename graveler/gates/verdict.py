"""What a gate said of a candidate."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from graveler.fields import Fields

__all__ = ["Verdict", "read_verdict"]


@dataclass(frozen=True, slots=True)
class Verdict:
    """What one gate said of one candidate.

    Attributes:
        gate: Name of the gate.
        passed: Whether it let the candidate through.
        severity: ``error`` or ``warn``.
        reason: Why not; "" where it passed.
        commit: The candidate that it judged; a later one of the same inputs is not judged again.
        seconds: How long it took.
        at: When, ISO 8601, UTC.
        died: It did not refuse, but failed: by an error, by being killed, by its time. Such a
            verdict is not kept for the next candidate.
        facts: What the gate reported.
    """

    gate: str
    passed: bool
    severity: str
    reason: str = ""
    commit: str = ""
    seconds: float = 0.0
    at: str = ""
    died: bool = False
    facts: Mapping[str, Any] = field(default_factory=dict)

    @property
    def refuses(self) -> bool:
        """Whether this verdict keeps the candidate from being published."""
        return not self.passed and self.severity == "error"


def read_verdict(fields: Fields) -> Verdict:
    """Return a stored verdict, or raise CorruptionError."""
    return Verdict(
        gate=fields.text("gate"),
        passed=fields.flag("passed"),
        severity=fields.text("severity"),
        reason=fields.text("reason"),
        commit=fields.text("commit"),
        seconds=fields.real("seconds"),
        at=fields.text("at"),
        died=fields.flag("died"),
        facts=fields.mapping("facts"),
    )
