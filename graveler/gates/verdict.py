"""Verdicts, kept under what they judged: the same inputs are not judged twice."""

from dataclasses import asdict, dataclass
from typing import Final

from graveler.errors import CorruptionError
from graveler.kv.store import KVStore
from graveler.records import decode_json, encode_json

__all__ = ["Verdict", "Verdicts"]

_KEY: Final = b"verdict/"


@dataclass(frozen=True, slots=True)
class Verdict:
    """What one gate said of one candidate.

    Attributes:
        gate: Name of the gate.
        passed: Whether it let the candidate through.
        severity: ``error`` or ``warn``.
        reason: Why not; "" where it passed.
    """

    gate: str
    passed: bool
    severity: str
    reason: str = ""

    @property
    def refuses(self) -> bool:
        """Whether this verdict keeps the candidate from being published."""
        return not self.passed and self.severity == "error"


class Verdicts:
    """The verdicts of one repository: key-value partition ``verdicts:<uid>``."""

    def __init__(self, kv: KVStore, uid: str) -> None:
        self._kv = kv
        self._partition = f"verdicts:{uid}"

    def find(self, judged: str) -> Verdict | None:
        """Return the verdict on the inputs whose hash is `judged`, or None."""
        stored = self._kv.get(self._partition, _KEY + judged.encode())
        if stored is None:
            return None
        try:
            return Verdict(**decode_json(stored.value, "verdict"))
        except TypeError as error:
            raise CorruptionError(f"verdict cannot be read: {stored.value[:120]!r}") from error

    def keep(self, judged: str, verdict: Verdict) -> None:
        """Keep a verdict under the hash of its inputs."""
        self._kv.set(self._partition, _KEY + judged.encode(), encode_json(asdict(verdict)))
