"""Opening, parking and abandoning runs.

Opening fences every earlier attempt: one compare-and-set on the run's branch raises the
attempt and replaces the staging token, so that what a stale writer stages afterwards
lands where nothing reads, and its second look at the record tells it so.
"""

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Final

from graveler.errors import (
    AlreadyExistsError,
    FencedError,
    InternalError,
    InvalidInputError,
    RefNotFoundError,
)
from graveler.model import BranchRecord
from graveler.names import check_caller_pairs, run_branch
from graveler.refs import is_ancestor, move
from graveler.repository import branching
from graveler.repository.stores import Stores
from graveler.runs.record import RunRecord, RunRecords
from graveler.runs.state import RunEvent, RunState, next_state

__all__ = [
    "abandon",
    "drop_branch",
    "drop_branches",
    "frozen",
    "look_again",
    "open_run",
    "opened",
    "park",
    "settle_publish",
    "take_branch",
]

_RESUMED: Final = (RunState.OPEN, RunState.PARKED)
_OWNERS_KEPT: Final = 100
_PARKED: Final = "parked:"


def open_run(
    stores: Stores, records: RunRecords, key: str, *, into: str, metadata: Mapping[str, str]
) -> RunRecord:
    """Open a new attempt of the run `key` and return its record.

    An open or parked run goes on from what is committed on its branch; a new, published or
    abandoned one gets a branch forked from the target's present head.

    Raises:
        RefNotFoundError: No such target.
        InvalidInputError: The key is empty, or the run waits to be published elsewhere.
        FencedError: A newer attempt was opened at the same moment.
    """

    def change(record: RunRecord | None) -> RunRecord:
        return opened(stores, records, key, record, into=into, metadata=metadata)

    record = records.update(key, change)
    take_branch(stores, record)
    now = look_again(stores, records, record)
    if now.fence != record.fence:
        raise FencedError(f"run {key!r} is at attempt {now.attempt}, opened since")
    drop_step_branches(stores, record, up_to=record.attempt - 1)
    return record


def opened(  # noqa: PLR0913 - an attempt's constants
    stores: Stores,
    records: RunRecords,
    key: str,
    record: RunRecord | None,
    *,
    into: str,
    metadata: Mapping[str, str],
    owner: str = "",
) -> RunRecord:
    """Return what `record` becomes when a new attempt is opened."""
    if not key.strip():
        raise InvalidInputError("run key is empty: name the run by what it makes, as its hour")
    target = stores.refs.branches.get(into)
    if record is not None:
        record = settle_publish(stores, records, record)
    state = RunState.NONE if record is None else record.state
    resumed = state in _RESUMED
    check_caller_pairs(f"run {key!r}", metadata)
    if record is not None and resumed and record.into != into:
        raise InvalidInputError(
            f"run {key!r} is {state} and publishes to {record.into!r}, not {into!r}: "
            "abandon it first, or give the run another key"
        )
    now = stores.clock.now()
    fresh = RunRecord(
        key=key,
        state=next_state(key, state, RunEvent.OPENED),
        attempt=1,
        fence=stores.ids.unique(),
        branch=run_branch(key),
        into=into,
        base=target.commit_id,
        created=now,
        updated=now,
        metadata=dict(metadata),
        owner=owner,
    )
    if record is None:
        return fresh
    return replace(
        fresh,
        attempt=record.attempt + 1,
        base=record.base if resumed else fresh.base,
        created=record.created,
        previous=record.previous,
        metadata=fresh.metadata or dict(record.metadata),
        forked=record.forked if resumed else record.attempt + 1,
        owners=(*record.owners, record.owner)[-_OWNERS_KEPT:] if record.owner else record.owners,
    )


def take_branch(stores: Stores, record: RunRecord) -> None:
    """Make the run's branch this attempt's: by creation, or by one compare-and-set.

    Processes that opened the attempt together may all do it: the first one's is kept. What
    is committed there stays if it is of this round; what an earlier round published or gave
    up does not.

    Raises:
        FencedError: A newer attempt has the branch, or this one was parked meanwhile.
    """
    fresh = BranchRecord(
        name=record.branch,
        commit_id=record.base,
        staging_token=stores.ids.unique(),
        attempt=record.attempt,
        fence=record.fence,
        hidden=True,
    )
    dropped: tuple[str, ...] = ()

    def resumes(there: BranchRecord) -> bool:
        return there.attempt >= record.forked

    def change(there: BranchRecord) -> BranchRecord:
        nonlocal dropped
        dropped = ()
        if there.fence in (record.fence, frozen(record.fence)):
            return there
        if there.attempt >= record.attempt:
            raise FencedError(
                f"run {record.key!r}: attempt {there.attempt} was opened or parked while attempt "
                f"{record.attempt} was opening"
            )
        dropped = (there.staging_token, *there.sealed_tokens)
        return replace(fresh, commit_id=there.commit_id) if resumes(there) else fresh

    while True:
        try:
            move(stores.refs, record.branch, change, landed=lambda now: now.fence == record.fence)
        except RefNotFoundError:
            try:
                stores.refs.branches.create(fresh)
            except AlreadyExistsError:
                continue  # made between our look and our write: take it over
        break
    for token in dropped:
        stores.staging.drop(token)


def look_again(stores: Stores, records: RunRecords, record: RunRecord) -> RunRecord:
    """Return the record as it is once the branch is taken.

    Where the run was published or given up between our look and our write, the branch was
    gone, and we made it anew: then it goes again, for nobody will go on from it.
    """
    now = records.get(record.key)
    if now.state in (RunState.PUBLISHED, RunState.REAPED) or now.forked > record.attempt:
        drop_branch(stores, record.branch, up_to=record.attempt)
    return now


def frozen(fence: str) -> str:
    """Return the fence of a branch whose run is being published: it takes no more writes."""
    return f"{fence}:publishing"


def _rewritten(there: BranchRecord) -> BranchRecord:
    return replace(there)  # equal but for the nonce it will get


def settle_publish(stores: Stores, records: RunRecords, record: RunRecord) -> RunRecord:
    """Find out whether a publish that was left in the middle landed; return the run as it is.

    A run that is not being published is returned as it is.
    """
    while record.state is RunState.PUBLISHING:
        landed = _has_landed(stores, record)
        change = partial(_settled, candidate=record.candidate, landed=landed)
        record = records.update(record.key, change)
        if record.state is RunState.PUBLISHED:
            drop_branches(stores, record)
    return record


def _has_landed(stores: Stores, record: RunRecord) -> bool:
    """Return whether the candidate is in the target; if not, it never will be.

    The target's record is first written again under a new nonce, so that a compare-and-set
    that is still on its way loses; only then is it certain.
    """
    try:
        target = move(stores.refs, record.into, _rewritten, landed=lambda _: True)
    except RefNotFoundError:
        return False
    return is_ancestor(stores.refs.commits, record.candidate, target.commit_id)


def _settled(there: RunRecord | None, *, candidate: str, landed: bool) -> RunRecord:
    if there is None:
        raise InternalError(f"the record of a run is gone while {candidate} was settled")
    if there.state is not RunState.PUBLISHING or there.candidate != candidate:
        return there  # what was found out is about another candidate: look again
    if landed:
        return replace(
            there,
            state=next_state(there.key, there.state, RunEvent.LANDED),
            commit=candidate,
            previous=there.head,
            candidate="",
            reason="",
        )
    state = next_state(there.key, there.state, RunEvent.LOST)
    return replace(there, state=state, candidate="")


def park(stores: Stores, records: RunRecords, key: str, *, fence: str, reason: str) -> RunRecord:
    """Set the run aside: staged writes go, the committed head stays for a newer attempt.

    Calling it twice, or after the publish, is no error.

    Raises:
        FencedError: A newer attempt owns the run.
    """
    record = records.get(key)
    if record.fence != fence:
        raise FencedError(f"run {key!r} is at attempt {record.attempt}, opened since")
    record = settle_publish(stores, records, record)
    if record.state is not RunState.OPEN:
        return record
    dropped: tuple[str, ...] = ()

    def fence_off(there: BranchRecord) -> BranchRecord:
        nonlocal dropped
        if there.attempt > record.attempt:
            raise FencedError(f"run {key!r} is at attempt {there.attempt}, opened since")
        dropped = (there.staging_token, *there.sealed_tokens)
        return replace(
            there,
            staging_token=stores.ids.unique(),
            sealed_tokens=(),
            fence=_PARKED + stores.ids.unique(),
        )

    def landed(now: BranchRecord) -> bool:
        return now.fence.startswith(_PARKED) or now.attempt > record.attempt

    branch = move(stores.refs, record.branch, fence_off, landed=landed)
    for token in dropped:
        stores.staging.drop(token)
    drop_step_branches(stores, record, up_to=record.attempt)

    def change(there: RunRecord | None) -> RunRecord:
        if there is None or there.fence != fence:
            raise FencedError(f"run {key!r} was opened again while it was parked")
        return replace(
            there,
            state=next_state(key, there.state, RunEvent.PARKED),
            head=branch.commit_id,
            reason=reason or there.reason,
        )

    return records.update(key, change)


def abandon(
    stores: Stores, records: RunRecords, key: str, *, reason: str, attempt: int | None = None
) -> RunRecord:
    """Give a run up: its branch goes, its record stays.

    Args:
        stores: The repository.
        records: Its runs.
        key: The run.
        reason: Why.
        attempt: The attempt that gives up; None for somebody who decides over all of them.

    Raises:
        RunStateError: The run is published.
        FencedError: A newer attempt owns the run.
    """

    def change(there: RunRecord | None) -> RunRecord:
        there = settle_publish(stores, records, there or records.get(key))
        if attempt is not None and there.attempt != attempt:
            raise FencedError(f"run {key!r} is at attempt {there.attempt}, opened since")
        return replace(
            there,
            state=next_state(key, there.state, RunEvent.ABANDONED),
            fence=stores.ids.unique(),
            reason=reason or there.reason,
        )

    record = records.update(key, change)
    drop_branches(stores, record)
    return record


def drop_branch(stores: Stores, name: str, *, up_to: int) -> None:
    """Remove a run's or a step's branch if it is of attempt `up_to` or an earlier one."""
    branching.drop_branch(stores, name, lambda there: there.attempt <= up_to)


def drop_step_branches(stores: Stores, record: RunRecord, *, up_to: int) -> None:
    """Remove the steps' branches of those attempts: what did not join the run leaves nothing."""
    prefix = record.branch + "."
    for name in [there.name for there in stores.refs.branches.starting_with(prefix)]:
        drop_branch(stores, name, up_to=up_to)


def drop_branches(stores: Stores, record: RunRecord) -> None:
    """Remove all branches of this attempt and earlier ones, the run being over."""
    drop_step_branches(stores, record, up_to=record.attempt)
    drop_branch(stores, record.branch, up_to=record.attempt)
