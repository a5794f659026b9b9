"""Verdicts and judgements, and their store: the same inputs are not judged twice.

The key-value partition is ``verdicts:<uid>``. ``verdict/<hash of the inputs>`` holds a verdict.
``judged/<commit>`` holds the last judgement on a commit. ``recent/<time, counted down>-<commit>``
orders the judgements, the latest first. If the verdicts of a judgement are too long together,
``told/<commit>/<number>`` holds each of them.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from hashlib import sha256
from itertools import islice
from typing import Any

from graveler.base.clock import unix_us
from graveler.base.names import path_key
from graveler.base.records import Schema, array, decode_json, encode_json, read_key
from graveler.committed.diff import diff
from graveler.committed.metarange import prefix_end
from graveler.committed.metarange import read as read_metarange
from graveler.display import Shown
from graveler.gates.candidate import Candidate
from graveler.gates.declaration import CHANGES, CONTENT, HISTORY, shortened
from graveler.gates.gate import Gate
from graveler.gates.statistics import last_touch
from graveler.reads.stores import Stores
from graveler.values import add_totals

_VERDICT = b"verdict/"
_JUDGED = b"judged/"
_RECENT = b"recent/"
_END_OF_TIME = (1 << 63) - 1
_APART = "apart"
_MOST_BYTES = 128 << 10
_CHARACTER_BYTES = 6  # of a control character in JSON
_FORWARD = frozenset({"publish", "merge", "commit", "cherry-pick"})
_GONE = bytes(32)


@dataclass(frozen=True, slots=True)
class Verdict(Shown):
    """The verdict of one gate on one candidate.

    Attributes:
        gate: Name of the gate.
        passed: Whether the candidate passed.
        severity: ``error`` or ``warn``.
        reason: Why the candidate did not pass; "" if it passed.
        commit: The judged candidate; a later candidate with equal inputs is not judged again.
        seconds: Duration.
        at: Time, ISO 8601, UTC.
        died: The check failed by an error, a signal or its timeout, without a refusal. Such a
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
        """Whether the verdict refuses the candidate."""
        return not self.passed and self.severity == "error"


VERDICT = Schema(Verdict, "verdict")


@dataclass(frozen=True, slots=True)
class Judgement(Shown):
    """The verdicts of all gates on one candidate.

    Attributes:
        commit: The candidate.
        target: Head of the branch at that time.
        into: Name of the branch.
        action: The operation that would move it: ``publish``, ``merge``, ``commit``, …
        run: Key of the run that publishes; "" if none does.
        attempt: Attempt of the run.
        at: Time, ISO 8601, UTC.
        verdicts: The verdicts, in the order of the gates.
        reused: Names of the gates that did not run, because they had judged the same inputs.
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
        """Whether a gate refuses the candidate."""
        return any(verdict.refuses for verdict in self.verdicts)

    def encode(self) -> bytes:
        """Return the judgement as stored bytes, with bounded verdicts."""
        short = bounded(self.verdicts)
        apart = {} if short == self.verdicts else {_APART: True}
        return _JUDGEMENT.encode(replace(self, verdicts=short), **apart)

    @staticmethod
    def decode(raw: bytes) -> "Judgement":
        """Return a stored judgement, or raise CorruptionError."""
        return _JUDGEMENT.decode(raw)


_JUDGEMENT = Schema(Judgement, "judgement")


def bounded(verdicts: Sequence[Verdict]) -> tuple[Verdict, ...]:
    """Return verdicts that fit into a record together: their reasons are cut, their facts left out."""
    if len(encode_json(array(VERDICT).to_json(tuple(verdicts)))) <= _MOST_BYTES:
        return tuple(verdicts)
    share = _MOST_BYTES // len(verdicts) // _CHARACTER_BYTES
    return tuple(
        replace(verdict, reason=shortened(verdict.reason, max(share, 1)), facts={})
        for verdict in verdicts
    )


class Verdicts:
    """The stored verdicts of one repository."""

    def __init__(self, stores: Stores) -> None:
        self._kv = stores.kv
        self._partition = f"verdicts:{stores.uid}"

    def find(self, judged: str) -> Verdict | None:
        """Return the verdict on the inputs whose hash is `judged`, or None."""
        stored = self._kv.get(self._partition, _VERDICT + judged.encode())
        return None if stored is None else VERDICT.decode(stored.value)

    def keep(self, judgement: Judgement, now: datetime, verdicts: Mapping[str, Verdict]) -> None:
        """Store a judgement, and verdicts by the hash of their inputs, in one round trip."""
        short = bounded(judgement.verdicts) != judgement.verdicts
        recent = f"{_END_OF_TIME - unix_us(now):020d}-{judgement.commit}"
        self._kv.set_many(
            self._partition,
            [
                *(
                    (_VERDICT + judged.encode(), VERDICT.encode(verdict))
                    for judged, verdict in verdicts.items()
                ),
                *(
                    (f"told/{judgement.commit}/{number:06d}".encode(), VERDICT.encode(verdict))
                    for number, verdict in enumerate(judgement.verdicts if short else ())
                ),
                (_JUDGED + judgement.commit.encode(), judgement.encode()),
                (_RECENT + recent.encode(), b"{}"),
            ],
        )

    def on(self, commit: str) -> Judgement | None:
        """Return the last judgement on a commit, or None."""
        stored = self._kv.get(self._partition, _JUDGED + commit.encode())
        if stored is None:
            return None
        judgement = Judgement.decode(stored.value)
        if _APART not in decode_json(stored.value, "judgement"):
            return judgement
        told = self._kv.scan_below(self._partition, f"told/{commit}/".encode())
        whole = (VERDICT.decode(value) for _, value in islice(told, len(judgement.verdicts)))
        return replace(judgement, verdicts=tuple(whole))

    def recent(self) -> Iterator[Judgement]:
        """Yield the last judgement on each commit, the latest first."""
        seen = set()
        for key, _ in self._kv.scan(self._partition, _RECENT):
            if not key.startswith(_RECENT):
                return
            commit = read_key(key.rpartition(b"-")[2], "judgement")
            judgement = None if commit in seen else self.on(commit)
            seen.add(commit)
            if judgement is not None:
                yield judgement


def hash_inputs(stores: Stores, candidate: Candidate, gate: Gate, rule: str) -> str:
    """Return the hash of a gate's fingerprint and of all inputs that it declares.

    The hash covers the action, because a gate may allow removals only in a revert.
    """
    commit, target, run = candidate.commit, candidate.target, candidate.run
    values: Mapping[str, Callable[[], Any]] = {
        "message": lambda: commit.message,
        "committer": lambda: commit.committer,
        "metadata": lambda: dict(commit.metadata),
        "parents": lambda: list(commit.parents),
        "created": lambda: unix_us(commit.created),
        "commit": lambda: commit.id,
        "target": lambda: target.id,
        "run": lambda: [run.key, dict(run.metadata)],
        "attempt": lambda: run.attempt,
        HISTORY: lambda: last_touch(stores, target.id, gate.prefixes),
        CONTENT: lambda: [
            [content(stores, tree, prefix) for tree in (commit.metarange, target.metarange)]
            for prefix in gate.prefixes
        ],
        CHANGES: lambda: _changes(stores, candidate, gate.prefixes),
    }
    # an action that can move the branch to any commit is judged for each move
    action = [candidate.action]
    if candidate.action not in _FORWARD:
        action += [commit.id, target.id]
    judged = {
        "gate": gate.name,
        "severity": gate.severity,
        "code": rule,
        "prefixes": gate.prefixes,
        "read": {name: values[name]() for name in gate.inputs},
        "into": candidate.into,
        "action": action,
    }
    return sha256(encode_json(judged)).hexdigest()


def _changes(stores: Stores, candidate: Candidate, prefixes: tuple[str, ...]) -> str:
    """Return a hash of the changes below prefixes, and of whether any file is below each."""
    before, after = candidate.target.metarange, candidate.commit.metarange
    digest = sha256()
    for prefix in prefixes:
        digest.update(b"some" if candidate.has_below(prefix) else b"none")
        raw = path_key(prefix) if prefix else b""
        for change in diff(stores.ranges, before, after, prefix=raw):
            for value in (change.left_value, change.right_value):
                digest.update(_GONE if value is None else sha256(value).digest())
            digest.update(sha256(change.key).digest())
    return digest.hexdigest()


def content(stores: Stores, metarange: str, prefix: str) -> str:
    """Return a hash of the paths and value records of a tree below a prefix.

    The hash does not depend on how the tree is cut into ranges. A range that is entirely below the
    prefix counts by its total. Only the ranges at the edges are read.
    """
    raw = path_key(prefix) if prefix else b""
    stop = prefix_end(raw)
    count, size, totals = 0, 0, list[bytes]()
    for info in read_metarange(stores.ranges, metarange).within(raw, stop):
        if info.min_key.startswith(raw) and info.max_key.startswith(raw):
            count, size = count + info.count, size + info.size
            totals.append(info.total)
            continue
        for key, identifier, value in stores.ranges.open_range(info, numbered=True).records():
            if key.startswith(raw):
                count, size = count + 1, size + len(key) + len(value)
                totals.append(identifier)
    return sha256(f"{count} {size} ".encode() + add_totals(totals)).hexdigest()
