"""Judgements: which candidate was judged, for which branch, and all that was said of it."""

from dataclasses import asdict, dataclass, field
from typing import Self

from graveler.fields import Fields
from graveler.gates.candidate import Candidate
from graveler.gates.verdict import Verdict, read_verdict
from graveler.records import decode_json, encode_json


@dataclass(frozen=True, slots=True)
class Judgement:
    """All that the gates said of one candidate.

    Attributes:
        commit: The candidate.
        target: Head of the branch at that time.
        into: The branch.
        action: What would have moved it: ``publish``, ``merge``, ``commit``, …
        run: Key of the run that published; "" where none did.
        attempt: Of that run.
        at: When, ISO 8601, UTC.
        verdicts: In the order of the gates.
        reused: Names of the gates that were not asked, because they had judged the same inputs.
    """

    commit: str
    target: str
    into: str
    action: str
    run: str
    attempt: int
    at: str
    verdicts: tuple[Verdict, ...] = ()
    reused: tuple[str, ...] = field(default=())

    @property
    def refused(self) -> bool:
        """Whether a gate kept the candidate from being published."""
        return any(verdict.refuses for verdict in self.verdicts)

    @classmethod
    def of(
        cls, candidate: Candidate, at: str, verdicts: tuple[Verdict, ...], reused: tuple[str, ...]
    ) -> Self:
        """Return the judgement on a candidate."""
        return cls(
            commit=candidate.commit_id,
            target=candidate.target.id,
            into=candidate.into,
            action=candidate.action,
            run=candidate.run.key,
            attempt=candidate.run.attempt,
            at=at,
            verdicts=verdicts,
            reused=reused,
        )

    def encode(self) -> bytes:
        """Return it as it is stored."""
        return encode_json(asdict(self))

    @classmethod
    def decode(cls, raw: bytes) -> Self:
        """Return what was stored, or raise CorruptionError."""
        found = Fields(decode_json(raw, "judgement"), "judgement")
        return cls(
            commit=found.text("commit"),
            target=found.text("target"),
            into=found.text("into"),
            action=found.text("action"),
            run=found.text("run"),
            attempt=found.number("attempt"),
            at=found.text("at"),
            verdicts=tuple(map(read_verdict, found.records("verdicts"))),
            reused=found.texts("reused"),
        )
