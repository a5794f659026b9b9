"""The record of a run, and the handle that names one attempt of it."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from datetime import datetime
from typing import Final, Self

from graveler.clock import Clock, IdSource
from graveler.errors import (
    CorruptionError,
    InvalidInputError,
    OutcomeUnknownError,
    PreconditionFailedError,
    RunNotFoundError,
    ThrottledError,
)
from graveler.gates import Verdict
from graveler.identity import unix_us
from graveler.kv.store import ABSENT, KVStore
from graveler.names import run_branch
from graveler.records import decode_json, encode_json, from_unix_us
from graveler.refs.mover import backoff
from graveler.runs.state import RunState

__all__ = ["RunHandle", "RunRecord", "RunRecords"]

_RUN: Final = b"run/"
_STEP: Final = b"step/"
_ATTEMPTS: Final = 200


@dataclass(frozen=True, slots=True)
class RunRecord:
    """All that is kept of a run; it outlives the branch.

    Attributes:
        key: What the run is called, any text.
        state: Where it stands.
        attempt: How often it was opened.
        fence: Unique to the present attempt.
        branch: Its branch.
        into: The branch it publishes to.
        base: Commit the present branch was forked from.
        head: Head of the run's branch when it was parked or published.
        candidate: While publishing: the commit the target is to become.
        commit: Once published: the merge commit.
        previous: Head of the branch at the last publish, for a run that is run again.
        reason: Why it was parked or abandoned.
        verdicts: What the gates said last.
        metadata: The opener's pairs.
        resumed: The present attempt goes on from what earlier ones committed.
        owner: Who opened the present attempt, where several processes are one opener.
        owners: Who opened earlier ones; their time is over.
        created: First opening.
        updated: Last change.
        nonce: Differs with every write.
    """

    key: str
    state: RunState
    attempt: int
    fence: str
    branch: str
    into: str
    base: str
    created: datetime
    updated: datetime
    head: str = ""
    candidate: str = ""
    commit: str = ""
    previous: str = ""
    reason: str = ""
    verdicts: tuple[Verdict, ...] = ()
    metadata: Mapping[str, str] = field(default_factory=dict)
    resumed: bool = False
    owner: str = ""
    owners: tuple[str, ...] = ()
    nonce: str = ""


@dataclass(frozen=True, slots=True)
class RunHandle:
    """Names one attempt of a run, for another process: through XCom, Pipes, a queue.

    It holds no secret: who may open the lake may use it. A handle of an earlier attempt is
    stale, and what is written through it is refused.
    """

    location: str
    repository: str
    key: str
    branch: str
    attempt: int
    fence: str

    def to_json(self) -> str:
        """Return the handle as text."""
        return encode_json(asdict(self)).decode()

    @classmethod
    def from_json(cls, text: str) -> Self:
        """Return the handle of such a text, or raise InvalidInputError."""
        try:
            raw = decode_json(text.encode(), "run handle")
            return cls(**raw)
        except (CorruptionError, TypeError) as error:
            raise InvalidInputError(f"not a run handle: {text[:80]!r}") from error


def _encode(record: RunRecord) -> bytes:
    raw = {item.name: getattr(record, item.name) for item in fields(record)}
    raw["created"], raw["updated"] = unix_us(record.created), unix_us(record.updated)
    raw["verdicts"] = [asdict(verdict) for verdict in record.verdicts]
    raw["metadata"] = dict(record.metadata)
    return encode_json(raw)


def _decode(raw: bytes) -> RunRecord:
    found = decode_json(raw, "run record")
    try:
        found["state"] = RunState(found["state"])
        found["created"] = from_unix_us(found["created"])
        found["updated"] = from_unix_us(found["updated"])
        found["verdicts"] = tuple(Verdict(**verdict) for verdict in found["verdicts"])
        found["owners"] = tuple(found.get("owners", ()))
        return RunRecord(**found)
    except (KeyError, TypeError, ValueError) as error:
        raise CorruptionError(f"run record cannot be read: {raw[:120]!r}") from error


class RunRecords:
    """The run records of one repository: key-value partition ``runs:<uid>``.

    ``run/<branch name>`` holds a record, ``step/<branch name>`` counts the tries of a step.
    """

    def __init__(self, kv: KVStore, uid: str, *, clock: Clock, ids: IdSource) -> None:
        self._kv = kv
        self._partition = f"runs:{uid}"
        self._clock = clock
        self._ids = ids

    def find(self, key: str) -> RunRecord | None:
        """Return the run of that key, or None."""
        stored = self._kv.get(self._partition, _RUN + run_branch(key).encode())
        return None if stored is None else _decode(stored.value)

    def get(self, key: str) -> RunRecord:
        """Return the run of that key, or raise RunNotFoundError."""
        record = self.find(key)
        if record is None:
            raise RunNotFoundError(f"no run {key!r}: `graveler run list` shows those there are")
        return record

    def list(self) -> Iterator[RunRecord]:
        """Yield every run, by branch name."""
        for key, value in self._kv.scan(self._partition, _RUN):
            if not key.startswith(_RUN):
                return
            yield _decode(value)

    def update(self, key: str, change: Callable[[RunRecord | None], RunRecord]) -> RunRecord:
        """Replace the record by ``change(record)`` in one atomic step and return it.

        `change` runs again after a lost race; what it raises ends the update.
        """
        name = _RUN + run_branch(key).encode()
        for attempt in range(_ATTEMPTS):
            stored = self._kv.get(self._partition, name)
            new = replace(
                change(None if stored is None else _decode(stored.value)),
                updated=self._clock.now(),
                nonce=self._ids.unique(),
            )
            predicate = ABSENT if stored is None else stored.predicate
            try:
                self._kv.set_if(self._partition, name, _encode(new), predicate)
            except PreconditionFailedError:
                backoff(self._clock, self._ids, attempt)
                continue
            except OutcomeUnknownError:
                now = self.find(key)
                if now is None or now.nonce != new.nonce:
                    continue
            return new
        raise ThrottledError(f"run {key!r} is busy: lost {_ATTEMPTS} races; try again")

    def next_try(self, step_branch: str) -> tuple[int, str]:
        """Count a try of a step; return its number and its fence, both unique to it."""
        name = _STEP + step_branch.encode()
        for attempt in range(_ATTEMPTS):
            stored = self._kv.get(self._partition, name)
            last = 0 if stored is None else int(decode_json(stored.value, "step record")["try"])
            fence = self._ids.unique()
            predicate = ABSENT if stored is None else stored.predicate
            value = encode_json({"try": last + 1, "fence": fence})
            try:
                self._kv.set_if(self._partition, name, value, predicate)
            except (PreconditionFailedError, OutcomeUnknownError):
                backoff(self._clock, self._ids, attempt)  # a number that is skipped does no harm
                continue
            return last + 1, fence
        raise ThrottledError(f"step {step_branch!r} is busy: lost {_ATTEMPTS} races; try again")

    def last_try_fence(self, step_branch: str) -> str:
        """Return the fence of the newest try of a step, or ""."""
        stored = self._kv.get(self._partition, _STEP + step_branch.encode())
        return "" if stored is None else str(decode_json(stored.value, "step record")["fence"])
