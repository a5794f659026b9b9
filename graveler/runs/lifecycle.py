"""How attempts end: parked, abandoned, or found to have been published; and how they stay alive."""

from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import partial
from typing import Final

from graveler.errors import FencedError, InternalError, RefNotFoundError
from graveler.model import BranchRecord
from graveler.refs import is_ancestor, move
from graveler.repository.stores import Stores
from graveler.runs.branch import drop_branches, drop_step_branches
from graveler.runs.inputs import folded
from graveler.runs.record import Input, Refusal, RunHandle, RunRecord
from graveler.runs.records import RunRecords
from graveler.runs.state import RunEvent, RunState, next_state

__all__ = [
    "abandon",
    "close",
    "park",
    "refused",
    "renew",
    "rounds_with",
    "settle_publish",
]

_PARKED: Final = "parked:"
_REFUSALS_KEPT: Final = 20
_LONGEST_REASON: Final = 2000
_ROUNDS_KEPT: Final = 50
_BRANCHLESS: Final = (RunState.PUBLISHED, RunState.ROLLED_BACK)

Unless = Callable[[RunRecord], bool]
"""Says of the present record that its run is to be left alone."""


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
            records.index.forget(record)
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
            rounds=rounds_with(there, there.head),
            candidate="",
            reason="",
        )
    state = next_state(there.key, there.state, RunEvent.LOST)
    return replace(there, state=state, candidate="")


def rounds_with(record: RunRecord, head: str) -> tuple[str, ...]:
    """Return the rounds of the record once `head` was published, too."""
    return (*record.rounds, head)[-_ROUNDS_KEPT:]


def renew(
    records: RunRecords, run: RunHandle, inputs: Iterable[Input] = (), *, early: bool = False
) -> RunRecord:
    """Let the attempt count as alive for a lease from now on, and keep what it has read.

    Nothing is written where that would say nothing new: the run is published, or somebody has
    renewed the lease just now. Clocks may differ: an end is never moved to an earlier time.

    Args:
        records: The repository's runs.
        run: The attempt.
        inputs: What it has read.
        early: Renew a lease of which less than a third is over, too.

    Raises:
        FencedError: The attempt is over.
    """
    inputs = tuple(inputs)

    def change(there: RunRecord | None) -> RunRecord:
        there = _own(there, run)
        if there.state in _BRANCHLESS:
            return there
        if not there.live or there.state is RunState.PARKED:
            raise _over(there, run)
        now = records.now()
        until = there.lease_until
        if early or until - now < there.lease * 2 / 3:
            until = max(until, now + there.lease)
        read = folded((*there.inputs, *inputs)) if inputs else there.inputs
        if until == there.lease_until and read == there.inputs:
            return there
        return replace(there, lease_until=until, inputs=read)

    return records.update(run.key, change)


def _own(there: RunRecord | None, run: RunHandle) -> RunRecord:
    if there is None or there.fence != run.fence:
        raise _over(there, run)
    return there


def _over(there: RunRecord | None, run: RunHandle) -> FencedError:
    """Return the error of an attempt that is over, which says how it ended."""
    if there is None:
        return FencedError(f"run {run.key!r}: its record is gone; this is attempt {run.attempt}")
    if there.attempt == run.attempt:
        return FencedError(
            f"run {run.key!r}: attempt {run.attempt} is over, the run is {there.state} "
            f"({there.reason or 'no reason given'}): open a new attempt"
        )
    return FencedError(
        f"run {run.key!r} is at attempt {there.attempt}, opened since; this is attempt "
        f"{run.attempt}: stop"
    )


def refused(record: RunRecord, refusal: Refusal) -> RunRecord:
    """Return the record with a refusal added."""
    refusal = replace(refusal, reason=refusal.reason[:_LONGEST_REASON])
    return replace(record, refusals=(*record.refusals, refusal)[-_REFUSALS_KEPT:])


def park(
    stores: Stores,
    records: RunRecords,
    run: RunHandle,
    *,
    reason: str,
    refusal: Refusal | None = None,
) -> RunRecord:
    """Set the run aside: staged writes go, the committed head stays for a newer attempt.

    Calling it twice, or after the publish, is no error.

    Raises:
        FencedError: A newer attempt owns the run.
    """
    record = records.get(run.key)
    if record.fence != run.fence:
        if record.attempt == run.attempt and record.state is RunState.PARKED:
            return record  # by the reaper
        raise _over(record, run)
    record = settle_publish(stores, records, record)
    if record.state is not RunState.OPEN:
        return record
    head = _fence_off(stores, record)
    drop_step_branches(stores, record, up_to=record.attempt)

    def change(there: RunRecord | None) -> RunRecord:
        there = _own(there, run)
        if refusal is not None:
            there = refused(there, refusal)
        return replace(
            there,
            state=next_state(run.key, there.state, RunEvent.PARKED),
            head=head,
            reason=reason[:_LONGEST_REASON] or there.reason,
        )

    return records.update(run.key, change)


def _fence_off(stores: Stores, record: RunRecord) -> str:
    """Drop what is staged on the run's branch, let nobody write there, and return its head."""
    dropped: tuple[str, ...] = ()

    def fence_off(there: BranchRecord) -> BranchRecord:
        nonlocal dropped
        if there.attempt > record.attempt:
            raise FencedError(f"run {record.key!r} is at attempt {there.attempt}, opened since")
        dropped = (there.staging_token, *there.sealed_tokens)
        return replace(
            there,
            staging_token=stores.ids.unique(),
            sealed_tokens=(),
            fence=_PARKED + stores.ids.unique(),
        )

    def landed(now: BranchRecord) -> bool:
        return now.fence.startswith(_PARKED) or now.attempt > record.attempt

    try:
        branch = move(stores.refs, record.branch, fence_off, landed=landed)
    except RefNotFoundError:
        return record.head or record.base  # never made, or deleted under the run
    for token in dropped:
        stores.staging.drop(token)
    return branch.commit_id


def abandon(  # noqa: PLR0913 - who gives up, and on what condition
    stores: Stores,
    records: RunRecords,
    key: str,
    *,
    reason: str,
    attempt: int | None = None,
    mine: RunHandle | None = None,
    unless: Unless = lambda _: False,
) -> RunRecord:
    """Give a run up: its branch goes, its record stays.

    Args:
        stores: The repository.
        records: Its runs.
        key: The run.
        reason: Why.
        attempt: Only if this is the present attempt.
        mine: Only if this is the present attempt; with neither, whichever it is.
        unless: Asked in the atomic step that gives up: the run is left alone.

    Raises:
        RunStateError: The run is published.
        FencedError: A newer attempt owns the run.
    """
    left = False

    def change(there: RunRecord | None) -> RunRecord:
        nonlocal left
        there = settle_publish(stores, records, there or records.get(key))
        if attempt is not None and there.attempt != attempt:
            raise FencedError(f"run {key!r} is at attempt {there.attempt}, opened since")
        if mine is not None and there.attempt != mine.attempt:
            raise _over(there, mine)
        left = unless(there)
        if left or there.state is RunState.REAPED:
            return there
        if mine is not None and there.fence != mine.fence:
            raise _over(there, mine)
        return replace(
            there,
            state=next_state(key, there.state, RunEvent.ABANDONED),
            fence=stores.ids.unique(),
            reason=reason[:_LONGEST_REASON] or there.reason,
        )

    record = records.update(key, change)
    if not left:
        drop_branches(stores, record)
        records.index.forget(record)
    return record


def close(stores: Stores, records: RunRecords, run: RunHandle, *, reason: str) -> RunRecord:
    """End the attempt, however it went: what is not published is parked, or dropped.

    May be called twice, late, and by an attempt that is over: then nothing happens.
    """
    record = records.get(run.key)
    if record.attempt != run.attempt or not record.live:
        return settle_publish(stores, records, record) if record.attempt == run.attempt else record
    try:
        record = park(stores, records, run, reason=reason)
        if record.state is RunState.PARKED and record.on_failure == "drop":
            record = abandon(stores, records, run.key, reason=reason, mine=run, unless=_is_over)
    except FencedError:
        return records.get(run.key)
    return record


def _is_over(record: RunRecord) -> bool:
    return not record.live
