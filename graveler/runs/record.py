"""The record of a run, and the handle that names one attempt of it."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from datetime import datetime
from typing import Final, Self

from graveler.clock import Clock, IdSource
from graveler.errors import (
    CorruptionError,
    FencedError,
    InvalidInputError,
    OutcomeUnknownError,
    PreconditionFailedError,
    RunNotFoundError,
    ThrottledError,
)
from graveler.gates import Verdict
from graveler.identity import unix_us
from graveler.kv.store import ABSENT, KVStore, Stored
from graveler.names import run_branch
from graveler.records import decode_json, encode_json, from_unix_us
from graveler.refs import backoff
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
        forked: The attempt that forked the branch; later ones went on from what it held.
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
    forked: int = 1
    owner: str = ""
    owners: tuple[str, ...] = ()
    nonce: str = ""

    @property
    def resumed(self) -> bool:
        """Whether the present attempt goes on from what earlier ones committed."""
        return self.attempt > self.forked


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
    except (KeyError, TypeError, ValueError, OverflowError) as error:
        raise CorruptionError(f"run record cannot be read: {raw[:120]!r}") from error


@dataclass(frozen=True, slots=True)
class _Try:
    """The newest try of a step: of which attempt of the run, which one, and its fence."""

    attempt: int
    number: int
    fence: str


_NO_TRY: Final = _Try(0, 0, "")


def _decode_try(raw: bytes) -> _Try:
    found = decode_json(raw, "step record")
    try:
        return _Try(**found)
    except TypeError as error:
        raise CorruptionError(f"step record cannot be read: {raw[:120]!r}") from error


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
        return self._read(key, self._kv.get(self._partition, _RUN + run_branch(key).encode()))

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

        `change` runs again after a lost race; what it raises ends the update. Returning the
        record it was given ends the update with nothing written.
        """
        name = _RUN + run_branch(key).encode()
        for attempt in range(_ATTEMPTS):
            stored = self._kv.get(self._partition, name)
            record = self._read(key, stored)
            changed = change(record)
            if changed is record:
                return changed
            new = replace(changed, updated=self._clock.now(), nonce=self._ids.unique())
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

    @staticmethod
    def _read(key: str, stored: Stored | None) -> RunRecord | None:
        if stored is None:
            return None
        record = _decode(stored.value)
        if record.key != key:
            raise InvalidInputError(
                f"run {key!r} and run {record.key!r} have one branch name ({record.branch}): "
                "change the key"
            )
        return record

    def next_try(self, step_branch: str, run_attempt: int) -> tuple[int, str]:
        """Count a try of a step; return its number and its fence, both unique to it.

        Raises:
            FencedError: A newer attempt of the run has started the step.
        """
        name = _STEP + step_branch.encode()
        for attempt in range(_ATTEMPTS):
            stored = self._kv.get(self._partition, name)
            last = _NO_TRY if stored is None else _decode_try(stored.value)
            if last.attempt > run_attempt:
                raise FencedError(
                    f"step {step_branch!r}: attempt {last.attempt} of the run has started it; "
                    f"this is attempt {run_attempt}"
                )
            new = _Try(run_attempt, last.number + 1, self._ids.unique())
            predicate = ABSENT if stored is None else stored.predicate
            value = encode_json(asdict(new))
            try:
                self._kv.set_if(self._partition, name, value, predicate)
            except (PreconditionFailedError, OutcomeUnknownError):
                backoff(self._clock, self._ids, attempt)  # a number that is skipped does no harm
                continue
            return new.number, new.fence
        raise ThrottledError(f"step {step_branch!r} is busy: lost {_ATTEMPTS} races; try again")

    def last_try_fence(self, step_branch: str) -> str:
        """Return the fence of the newest try of a step, or ""."""
        stored = self._kv.get(self._partition, _STEP + step_branch.encode())
        return "" if stored is None else _decode_try(stored.value).fence
