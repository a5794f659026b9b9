"""Opening, parking and abandoning runs.

Opening fences every earlier attempt: one compare-and-set on the run's branch raises the
attempt and replaces the staging token, so that what a stale writer stages afterwards
lands where nothing reads, and its second look at the record tells it so.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from graveler.errors import AlreadyExistsError, FencedError, InvalidInputError, RefNotFoundError
from graveler.model import BranchRecord
from graveler.names import run_branch
from graveler.refs import is_ancestor, move
from graveler.repository.stores import Stores
from graveler.runs.record import RunRecord, RunRecords
from graveler.runs.state import RunEvent, RunState, next_state

__all__ = [
    "abandon",
    "drop_branch",
    "drop_step_branches",
    "open_run",
    "opened",
    "park",
    "settle_publish",
    "take_branch",
]

_RESUMED: Final = (RunState.OPEN, RunState.PARKED)
_OWNERS_KEPT: Final = 100


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
    drop_step_branches(stores, record)
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
    if record is not None and record.state is RunState.PUBLISHING:
        record = settle_publish(stores, records, record)
    state = RunState.NONE if record is None else record.state
    resumed = state in _RESUMED
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
        resumed=resumed,
        owners=(*record.owners, record.owner)[-_OWNERS_KEPT:] if record.owner else record.owners,
    )


def take_branch(stores: Stores, record: RunRecord) -> None:
    """Make the run's branch this attempt's: by creation, or by one compare-and-set.

    Processes that opened the attempt together may all do it: the first one's is kept.

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

    def change(there: BranchRecord) -> BranchRecord:
        nonlocal dropped
        dropped = ()
        if there.fence == record.fence:
            return there
        if there.attempt >= record.attempt:
            raise FencedError(
                f"run {record.key!r}: attempt {there.attempt} was opened or parked while attempt "
                f"{record.attempt} was opening"
            )
        dropped = (there.staging_token, *there.sealed_tokens)
        return replace(fresh, commit_id=there.commit_id) if record.resumed else fresh

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


def _rewritten(there: BranchRecord) -> BranchRecord:
    return replace(there)  # equal but for the nonce it will get


def settle_publish(stores: Stores, records: RunRecords, record: RunRecord) -> RunRecord:
    """Find out whether a publish that was left in the middle landed; return the run as it is.

    The target's record is first written again under a new nonce, so that a compare-and-set
    that is still on its way loses; only then is it certain whether the candidate is in.
    """
    target = move(stores.refs, record.into, _rewritten, landed=lambda _: True)
    landed = is_ancestor(stores.refs.commits, record.candidate, target.commit_id)

    def change(there: RunRecord | None) -> RunRecord:
        if there is None or there.state is not RunState.PUBLISHING:
            return there or record
        if landed:
            return replace(
                there,
                state=next_state(there.key, there.state, RunEvent.LANDED),
                commit=there.candidate,
                previous=there.head,
                candidate="",
            )
        state = next_state(there.key, there.state, RunEvent.LOST)
        return replace(there, state=state, candidate="")

    return records.update(record.key, change)


def park(stores: Stores, records: RunRecords, key: str, *, fence: str, reason: str) -> RunRecord:
    """Set the run aside: staged writes go, the committed head stays for a newer attempt.

    Calling it twice, or after the publish, is no error.

    Raises:
        FencedError: A newer attempt owns the run.
    """
    record = records.get(key)
    if record.fence != fence:
        raise FencedError(f"run {key!r} is at attempt {record.attempt}, opened since")
    if record.state is RunState.PUBLISHING:
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
            fence="parked:" + stores.ids.unique(),
        )

    branch = move(stores.refs, record.branch, fence_off, landed=lambda now: now.fence != fence)
    for token in dropped:
        stores.staging.drop(token)
    drop_step_branches(stores, record)

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


def abandon(stores: Stores, records: RunRecords, key: str, *, reason: str) -> RunRecord:
    """Give a run up: its branch goes, its record stays.

    Raises:
        RunStateError: The run is published.
    """

    def change(there: RunRecord | None) -> RunRecord:
        there = there or records.get(key)
        if there.state is RunState.PUBLISHING:
            there = settle_publish(stores, records, there)
        return replace(
            there,
            state=next_state(key, there.state, RunEvent.ABANDONED),
            fence=stores.ids.unique(),
            reason=reason or there.reason,
        )

    record = records.update(key, change)
    drop_step_branches(stores, record)
    drop_branch(stores, record.branch)
    return record


def drop_branch(stores: Stores, name: str) -> None:
    """Remove a run's or a step's branch and what is staged on it; no error if it is gone."""
    record = stores.refs.branches.find(name)
    if record is None:
        return
    stores.refs.branches.delete(name)
    for token in (record.staging_token, *record.sealed_tokens):
        stores.staging.drop(token)


def drop_step_branches(stores: Stores, record: RunRecord) -> None:
    """Remove the branches of a run's steps: what did not join the run leaves nothing."""
    prefix = record.branch + "."
    for name in [there.name for there in stores.refs.branches.starting_with(prefix)]:
        drop_branch(stores, name)
