"""The record of a run, the terms on which it was opened, and the handle of one attempt."""

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from datetime import datetime, timedelta
from typing import Final, Self, TypedDict

from graveler.arguments import BranchLike, Duration, branch_text, choice, duration, pairs, run_key
from graveler.errors import CorruptionError, InvalidInputError
from graveler.fields import Fields
from graveler.gates import Verdict
from graveler.names import check_caller_pairs
from graveler.records import decode_json, encode_json
from graveler.runs.state import RunState

LEASE: Final = timedelta(minutes=15)
"""Default lease: how long an attempt may be silent before it counts as dead."""
TTL: Final = timedelta(days=14)
"""Default time to live of a parked run."""

LIVE: Final = (RunState.OPEN, RunState.PUBLISHING, RunState.PARKED)
"""The states of a run that is not over."""


@dataclass(frozen=True, slots=True, order=True)
class Input:
    """One input of a run.

    Attributes:
        commit: The commit that was read.
        prefix: Start of the paths; "" for the whole tree.
    """

    commit: str
    prefix: str


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
class RunRecord:
    """The record of a run, which outlives its branch.

    Attributes:
        key: Name of the run, any text.
        state: Its state.
        attempt: Number of the present attempt, from 1.
        fence: Unique to the present attempt.
        branch: Its branch.
        into: The branch it publishes to.
        base: Commit that the present branch was forked from.
        head: Head of the run's branch when it was last parked or published.
        candidate: While publishing: the commit the target is to become.
        commit: Once published: the merge commit.
        rounds: Heads that were published and not rolled back, the newest last; at most 50.
        reason: Why the run was parked or abandoned.
        verdicts: The latest verdicts of the gates.
        metadata: Pairs of the opener.
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
        inputs: Inputs of the attempts since the fork.
        refusals: Refused publishes, the newest last; at most 20.
        rollback: Once rolled back: the reverting commit.
        nonce: Unique to every write.
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
class RunHandle:
    """The handle of one attempt, for another process: through XCom, Pipes or a queue.

    It holds no secret: any process that can open the lake can use it. The handle of an earlier
    attempt is stale, and writes through it are refused.
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
        """Return the handle of its JSON text, or raise InvalidInputError."""
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


class RunTerms(TypedDict, total=False):
    """The keyword arguments that every call takes that opens a run.

    Attributes:
        into: The branch to publish to (``main``): a user's branch, not that of a run or a step.
        metadata: Pairs kept on the run and on its commits; see `Origin`.
        on_failure: What happens to an attempt that is closed unpublished or whose lease expires:
            ``park`` (the default) keeps its commits for the next attempt, ``drop`` does not.
        lease: How long the attempt may be silent before it counts as dead (15 minutes): a
            timedelta, or text (``36h``). Its work renews the lease; so does `Run.renew`.
        ttl: How long a parked run is kept (14 days).
    """

    into: str | BranchLike
    metadata: Mapping[str, str] | None
    on_failure: str
    lease: Duration
    ttl: Duration


@dataclass(frozen=True, slots=True)
class Terms:
    """The terms of one run, checked.

    Attributes:
        key: Name of the run.
        into: As in `RunTerms`; so are `metadata`, `on_failure`, `lease` and `ttl`.
        owner: The opener's name, where several processes are one opener; else "".
        accepts: Called with the run's record before an attempt is opened, with None for a new
            run; an exception refuses the attempt.
    """

    key: str
    into: str = "main"
    metadata: Mapping[str, str] = field(default_factory=dict)
    on_failure: str = "park"
    lease: timedelta = LEASE
    ttl: timedelta = TTL
    owner: str = ""
    accepts: Callable[[RunRecord | None], None] | None = None

    @classmethod
    def of(  # noqa: PLR0913 - the terms of a run
        cls,
        key: str,
        *,
        into: str | BranchLike = "main",
        metadata: Mapping[str, str] | None = None,
        on_failure: str = "park",
        lease: Duration = LEASE,
        ttl: Duration = TTL,
        owner: str = "",
        accepts: Callable[[RunRecord | None], None] | None = None,
    ) -> Self:
        """Return the terms as a caller gives them.

        Raises:
            InvalidInputError: An argument is invalid; the message names it.
        """
        key = run_key(key)
        return cls(
            key=key,
            into=branch_text(into, "into"),
            metadata=check_caller_pairs(f"run {key!r}", pairs(metadata, "metadata")),
            on_failure=choice(on_failure, "on_failure", ("park", "drop")),
            lease=duration(lease, "lease", zero=False),
            ttl=duration(ttl, "ttl", zero=False),
            owner=owner,
            accepts=accepts,
        )
