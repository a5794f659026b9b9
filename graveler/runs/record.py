"""The record of a run, with its encoding, its inputs, and the handle of one attempt."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from functools import lru_cache
from typing import Any, Self

from graveler.base.records import (
    Digest,
    DigestOrNone,
    Name,
    Schema,
    array,
    decode_json,
    encode_json,
)
from graveler.display import Shown
from graveler.errors import CorruptionError, GateFailedError, GravelerError, InvalidInputError
from graveler.gates import Verdict
from graveler.gates.verdicts import bounded
from graveler.runs.state import Publish, RunEvent, RunState, next_state, with_publish

LEASE = timedelta(minutes=15)
"""Default lease: how long an attempt may be silent before it counts as dead."""
TTL = timedelta(days=14)
"""Default time to live of a parked run."""

LIVE = (RunState.OPEN, RunState.PUBLISHING, RunState.PARKED)
"""The states of a run that is not over."""

_MOST_INPUTS = 64
_MOST_COMMITS = 256
_REFUSALS_KEPT = 20
_LONGEST_REASON = 2000


@dataclass(frozen=True, slots=True, order=True)
class Input:
    """One input of a run.

    Attributes:
        commit: The commit that was read.
        prefix: Start of the paths; "" for the whole tree.
    """

    commit: str
    prefix: str


_INPUTS = array(Schema(Input).row())


@dataclass(frozen=True, slots=True)
class Refusal:
    """One refused publish.

    Attributes:
        at: Time.
        reason: The error's message.
        gates: The gates that refused; empty if no gate did.
    """

    at: datetime
    reason: str
    gates: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class RunRecord(Shown):
    """The record of a run, which outlives its branch.

    Attributes:
        key: Name of the run, any text.
        state: Its state.
        attempt: Number of the present attempt, from 1.
        fence: Unique to the present attempt.
        branch: Its branch.
        into: The branch it publishes to.
        base: Commit from which the present branch was forked.
        head: Head of the run's branch when it was last parked or published.
        candidate: While publishing, the commit that is to become the target's head.
        publishes: The publishes of all attempts, the newest last; at most 50. The state, like
            `reason` and `verdicts`, is that of the present attempt.
        reason: Why the run was parked or abandoned.
        verdicts: The latest verdicts of the gates.
        metadata: Metadata of the opener.
        forked: The attempt that forked the branch; later attempts resumed it.
        born: Birth of the branch, which identifies it in the log of moves after its deletion; ""
            for runs of the first version.
        owner: Opener of the present attempt, if several processes are one opener.
        owners: Openers of earlier attempts, which are over.
        created: First opening.
        opened: Opening of the present attempt.
        updated: Last change.
        lease: How long the attempt may be silent.
        lease_until: End of the lease, unless it is renewed.
        lapsed: Whether the attempt ended because its lease expired.
        ttl: How long the run is kept when it is parked.
        on_failure: ``park`` or ``drop``: what happens to an attempt that fails or is silent.
        fresh: Whether a step deletes a file whose earlier bytes are gone, instead of failing.
        inputs: Inputs of the attempts since the fork.
        refusals: Refused publishes, the newest last; at most 20.
        nonce: Unique to every write.
    """

    key: str
    state: RunState
    attempt: int
    fence: str
    branch: Name
    into: Name
    base: Digest
    created: datetime
    opened: datetime
    updated: datetime
    lease_until: datetime
    head: DigestOrNone = ""
    candidate: DigestOrNone = ""
    publishes: tuple[Publish, ...] = ()
    reason: str = ""
    verdicts: tuple[Verdict, ...] = ()
    metadata: Mapping[str, str] = field(default_factory=dict)
    forked: int = 1
    born: str = ""
    owner: str = ""
    owners: tuple[str, ...] = ()
    lease: timedelta = LEASE
    lapsed: bool = False
    ttl: timedelta = TTL
    on_failure: str = "park"
    fresh: bool = False
    inputs: tuple[Input, ...] = ()
    refusals: tuple[Refusal, ...] = ()
    nonce: str = ""

    @property
    def published(self) -> Publish | None:
        """The latest publish that was not rolled back, in any state of the run.

        A record does not show a reset, or a revert by other means than `Runs.rollback`.
        `Runs.on_targets` compares it with the targets.
        """
        stand = (item for item in reversed(self.publishes) if not (item.rollback or item.lost))
        return next(stand, None)

    @property
    def commit(self) -> str:
        """The commit of `published`; "" if nothing of the run is on a target."""
        return "" if self.published is None else self.published.commit

    @property
    def on_target(self) -> str:
        """The run's work on its target by `published`, as text: ``main has 1a2b3c4d5e6f of attempt 1``."""
        publish = self.published
        if publish is None:
            return f"{self.into} has nothing of it"
        return f"{publish.into} has {publish.commit[:12]} of attempt {publish.attempt}"

    @property
    def heads(self) -> tuple[str, ...]:
        """The heads of the publishes, the newest last; some may no longer stand."""
        return tuple(publish.head for publish in self.publishes)

    @property
    def rollback(self) -> str:
        """The commit that reverted the latest publish; "" while the publish stands."""
        return self.publishes[-1].rollback if self.publishes else ""

    @property
    def resumed(self) -> bool:
        """Whether the present attempt resumed the commits of earlier ones."""
        return self.attempt > self.forked

    @property
    def live(self) -> bool:
        """Whether the run is not over: open, publishing or parked."""
        return self.state in LIVE

    @property
    def expires(self) -> datetime | None:
        """The end of its lease, or of its time to live if parked; None for a run that is over."""
        if not self.live:
            return None
        return self.updated + self.ttl if self.state is RunState.PARKED else self.lease_until

    def expired(self, now: datetime) -> bool:
        """Return whether its lease, or its time to live if parked, is over at `now`."""
        expires = self.expires
        return expires is not None and expires < now


@dataclass(frozen=True, slots=True)
class RunOutline:
    """A part of the record of a run, which is read faster; see `RunRecord`."""

    key: str
    state: RunState
    branch: Name
    into: Name
    reason: str = ""
    refusals: tuple[Refusal, ...] = ()


def was_refused(run: RunOutline | RunRecord) -> bool:
    """Return whether a run is parked because a publish of it was refused."""
    parked = run.state is RunState.PARKED and run.refusals != ()
    return parked and run.refusals[-1].reason == run.reason


@dataclass(frozen=True, slots=True)
class RunHandle:
    """The handle of one attempt, for another process, as through XCom, Pipes or a queue.

    It has no secret: any process that can open the lake can use it. The handle of an earlier
    attempt is stale, and writes through it are refused.

    Attributes:
        location: The lake, as `graveler.open` takes it.
        repository: Name of the repository.
        key: What the run is called.
        branch: Name of the run's branch.
        attempt: The attempt.
        fence: Unique to the attempt.
    """

    location: str
    repository: str
    key: str
    branch: str
    attempt: int
    fence: str

    @classmethod
    def of(cls, record: RunRecord, *, location: str, repository: str) -> Self:
        """Return the handle of the present attempt of a run."""
        return cls(location, repository, record.key, record.branch, record.attempt, record.fence)

    def to_json(self) -> str:
        """Return the handle as text."""
        return _HANDLE.encode(self).decode("utf-8", "surrogatepass")

    @classmethod
    def from_json(cls, text: str) -> "RunHandle":
        """Return the handle of its JSON text, or raise InvalidInputError."""
        try:
            return _HANDLE.decode(text.encode("utf-8", "surrogatepass"))
        except CorruptionError as error:
            raise InvalidInputError(f"not a run handle ({error}): {text[:80]!r}") from error


_HANDLE = Schema(RunHandle, "run handle")


def folded(inputs: Iterable[Input]) -> tuple[Input, ...]:
    """Return the inputs, sorted, without those that another input covers.

    If there are more than 64, the deepest folders are replaced by their parents until there are at
    most 64, or until each commit has one. If there are more than 256 commits, some are dropped. A
    prefix that is too wide is safe. An unbounded list is not.
    """
    reads = _uncovered(set(inputs))
    most = max(_MOST_INPUTS, len({read.commit for read in reads}))
    while len(reads) > most and any(read.prefix for read in reads):
        deepest = max(read.prefix.count("/") for read in reads)
        widened = {_parent(read) if read.prefix.count("/") == deepest else read for read in reads}
        reads = _uncovered(widened)
    return tuple(sorted(reads)[:_MOST_COMMITS])


def _uncovered(inputs: set[Input]) -> list[Input]:
    kept: list[Input] = []
    for read in sorted(inputs):
        last = kept[-1] if kept else None
        if last is None or last.commit != read.commit or not read.prefix.startswith(last.prefix):
            kept.append(read)
    return kept


def _parent(read: Input) -> Input:
    folder, slash, _ = read.prefix.rstrip("/").rpartition("/")
    return Input(read.commit, folder + slash)


def encode_inputs(inputs: Iterable[Input]) -> str:
    """Return inputs as text for the metadata of a commit."""
    return encode_json(_INPUTS.to_json(tuple(inputs))).decode()


def decode_inputs(text: str) -> tuple[Input, ...]:
    """Return the inputs of the text in a commit's metadata."""
    what = "inputs of a commit"
    return _INPUTS.read(decode_json(text.encode("utf-8", "surrogatepass"), what), what)


def after(record: RunRecord, event: RunEvent, **changes: Any) -> RunRecord:
    """Return the record after an event, with these changes."""
    return replace(record, state=next_state(record.key, record.state, event), **changes)


def published(record: RunRecord, publish: Publish) -> RunRecord:
    """Return the record of a run after a publish."""
    return after(
        record,
        RunEvent.LANDED,
        head=publish.head,
        publishes=with_publish(record.publishes, publish),
        verdicts=publish.verdicts,
        candidate="",
        reason="",
    )


def refusal_of(error: GravelerError, at: datetime, *, most: int = _LONGEST_REASON) -> Refusal:
    """Return what a record keeps of a refused publish."""
    verdicts = error.verdicts if isinstance(error, GateFailedError) else ()
    gates = tuple(verdict.gate for verdict in verdicts if verdict.refuses)
    return Refusal(at, str(error)[:most], gates)


def refused(record: RunRecord, error: GravelerError, at: datetime) -> RunRecord:
    """Return the record of a run after a refused publish."""
    verdicts = error.verdicts if isinstance(error, GateFailedError) else record.verdicts
    refusals = (*record.refusals, refusal_of(error, at))[-_REFUSALS_KEPT:]
    return replace(record, verdicts=verdicts, refusals=refusals)


def shortened(reason: str) -> str:
    """Return a reason at the length that a record keeps."""
    return reason[:_LONGEST_REASON]


RUN = Schema(
    RunRecord,
    "run record",
    types={
        "inputs": _INPUTS,
        "refusals": array(Schema(Refusal).row()),
        "publishes": array(Schema(Publish, apart=("lost",), added=("rollback",))),
    },
    added=("head", "candidate", "fresh"),
)


_OUTLINE = Schema(RunOutline, "run record", types={"refusals": array(Schema(Refusal).row())})
decode_outline = lru_cache(maxsize=1 << 12)(_OUTLINE.decode)
"""Returns the outline of these bytes; a page shows the same ones again."""


def encode_run(record: RunRecord) -> bytes:
    """Return a record as bytes."""
    return RUN.encode(replace(record, verdicts=bounded(record.verdicts)))


def decode_run(raw: bytes) -> RunRecord:
    """Return the record of these bytes, or raise CorruptionError."""
    return RUN.decode(raw)
