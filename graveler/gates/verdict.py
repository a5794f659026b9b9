"""The verdict of a gate on a candidate."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from graveler.fields import Fields


@dataclass(frozen=True, slots=True)
class Verdict:
    """The verdict of one gate on one candidate.

    Attributes:
        gate: Name of the gate.
        passed: Whether the candidate passed.
        severity: ``error`` or ``warn``.
        reason: Why the candidate did not pass; "" if it passed.
        commit: The judged candidate; a later candidate with equal inputs is not judged again.
        seconds: Duration.
        at: Time, ISO 8601, UTC.
        died: The check did not refuse but failed: by an error, a signal or its timeout. Such a
            verdict is not stored for the next candidate.
        facts: The values that the gate reported.
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
