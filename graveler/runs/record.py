"""The record of a run, and the handle that names one attempt of it."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from datetime import datetime, timedelta
from typing import Final, Self

from graveler.errors import CorruptionError, InvalidInputError
from graveler.fields import Fields
from graveler.gates import Verdict
from graveler.records import decode_json, encode_json
from graveler.runs.state import RunState

__all__ = ["LEASE", "LIVE", "TTL", "Input", "Refusal", "RunHandle", "RunRecord"]

LEASE: Final = timedelta(minutes=15)
"""How long an attempt may be silent before it counts as dead."""
TTL: Final = timedelta(days=14)
"""How long a parked run is kept for a newer attempt."""

LIVE: Final = (RunState.OPEN, RunState.PUBLISHING, RunState.PARKED)
"""The states of a run that is not over."""


@dataclass(frozen=True, slots=True, order=True)
class Input:
    """What a run has read.

    Attributes:
        commit: The commit it was read from.
        prefix: Start of the paths; "" for the whole tree.
    """

    commit: str
    prefix: str


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why a publish was refused.

    Attributes:
        at: When.
        reason: What was said.
        gates: The gates that refused; none where it was not for a gate.
    """

    at: datetime
    reason: str
    gates: tuple[str, ...] = ()


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
        head: Head of the run's branch when it was last parked or published.
        candidate: While publishing: the commit the target is to become.
        commit: Once published: the merge commit.
        rounds: Heads that were published and not taken back, the newest last, 50 at the most.
        reason: Why it was parked or abandoned.
        verdicts: What the gates said last.
        metadata: The opener's pairs.
        forked: The attempt that forked the branch; later ones went on from what it held.
        born: Birth of the branch, by which the log of moves knows it once it is gone; "" for
            runs of the first version.
        owner: Who opened the present attempt, where several processes are one opener.
        owners: Who opened earlier ones; their time is over.
        created: First opening.
        opened: When the present attempt was opened.
        updated: Last change.
        lease: How long the attempt may be silent.
        lease_until: Until when it counts as alive, unless it is renewed.
        lapsed: The attempt was ended because its lease was over, not by who had opened it.
        ttl: How long the run is kept once it is parked.
        on_failure: ``park`` or ``drop``: what becomes of an attempt that fails or falls silent.
        inputs: What the attempts since the fork have read.
        refusals: Why publishes were refused, the newest last; old ones are forgotten.
        rollback: Once rolled back: the commit that took it back.
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
    opened: datetime
    updated: datetime
    lease_until: datetime
    head: str = ""
    candidate: str = ""
    commit: str = ""
    rounds: tuple[str, ...] = ()
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
    inputs: tuple[Input, ...] = ()
    refusals: tuple[Refusal, ...] = ()
    rollback: str = ""
    nonce: str = ""

    @property
    def resumed(self) -> bool:
        """Whether the present attempt goes on from what earlier ones committed."""
        return self.attempt > self.forked

    @property
    def live(self) -> bool:
        """Whether the run is not over: open, publishing or parked."""
        return self.state in LIVE

    @property
    def expires(self) -> datetime | None:
        """When its lease, or its time of being parked, is over; None for a run that is over."""
        if not self.live:
            return None
        return self.updated + self.ttl if self.state is RunState.PARKED else self.lease_until

    def expired(self, now: datetime) -> bool:
        """Return whether its lease, or its time of being parked, is over at `now`."""
        expires = self.expires
        return expires is not None and expires < now


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

    @classmethod
    def of(cls, record: RunRecord, *, location: str, repository: str) -> Self:
        """Return the handle of the present attempt of a run."""
        return cls(location, repository, record.key, record.branch, record.attempt, record.fence)

    def to_json(self) -> str:
        """Return the handle as text."""
        return encode_json(asdict(self)).decode("utf-8", "surrogatepass")

    @classmethod
    def from_json(cls, text: str) -> Self:
        """Return the handle of such a text, or raise InvalidInputError."""
        what = "run handle"
        try:
            found = Fields(decode_json(text.encode("utf-8", "surrogatepass"), what), what)
            return cls(
                location=found.text("location"),
                repository=found.text("repository"),
                key=found.text("key"),
                branch=found.text("branch"),
                attempt=found.number("attempt"),
                fence=found.text("fence"),
            )
        except CorruptionError as error:
            raise InvalidInputError(f"not a run handle ({error}): {text[:80]!r}") from error
