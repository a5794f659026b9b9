"""Verdicts and judgements, and their store: the same inputs are not judged twice.

Key-value partition ``verdicts:<uid>``: ``verdict/<inputs>`` holds a verdict, ``judged/<commit>``
the last judgement on a commit, ``recent/<time, counted down>-<commit>`` the time of each
judgement, the latest first.
"""

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from datetime import datetime
from typing import Any, Final, Self

from graveler.clock import unix_us
from graveler.fields import Fields
from graveler.gates.candidate import Candidate
from graveler.kv.store import KVStore
from graveler.records import decode_json, encode_json, read_key


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


_VERDICT: Final = b"verdict/"
_JUDGED: Final = b"judged/"
_RECENT: Final = b"recent/"
_END_OF_TIME: Final = (1 << 63) - 1


class Verdicts:
    """The verdicts of one repository."""

    def __init__(self, kv: KVStore, uid: str) -> None:
        self._kv = kv
        self._partition = f"verdicts:{uid}"

    def find(self, judged: str) -> Verdict | None:
        """Return the verdict on the inputs whose hash is `judged`, or None."""
        stored = self._kv.get(self._partition, _VERDICT + judged.encode())
        if stored is None:
            return None
        return read_verdict(Fields(decode_json(stored.value, "verdict"), "verdict"))

    def keep(self, judgement: Judgement, now: datetime, verdicts: Mapping[str, Verdict]) -> None:
        """Keep a judgement, and verdicts by the hash of their inputs, in one round trip."""
        down = f"{_END_OF_TIME - unix_us(now):020d}-{judgement.commit}"
        self._kv.set_many(
            self._partition,
            [
                *(
                    (_VERDICT + judged.encode(), encode_json(asdict(verdict)))
                    for judged, verdict in verdicts.items()
                ),
                (_JUDGED + judgement.commit.encode(), judgement.encode()),
                (_RECENT + down.encode(), b"{}"),
            ],
        )

    def on(self, commit: str) -> Judgement | None:
        """Return the last judgement on a commit, None where it was never judged."""
        stored = self._kv.get(self._partition, _JUDGED + commit.encode())
        return None if stored is None else Judgement.decode(stored.value)

    def recent(self) -> Iterator[Judgement]:
        """Yield the judgements, the latest first; a commit's last one only."""
        seen = set()
        for key, _ in self._kv.scan(self._partition, _RECENT):
            if not key.startswith(_RECENT):
                return
            commit = read_key(key.rpartition(b"-")[2], "judgement")
            judgement = None if commit in seen else self.on(commit)
            seen.add(commit)
            if judgement is not None:
                yield judgement
