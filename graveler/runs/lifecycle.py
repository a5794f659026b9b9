"""The end of an attempt, by park, abandon or a settled publish, and the renewal of its lease."""

from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import partial
from typing import Final

from graveler.errors import FencedError, InternalError, RefNotFoundError
from graveler.model import BranchRecord
from graveler.reads.stores import Stores
from graveler.refs import is_ancestor, move
from graveler.runs.branch import drop_branches, drop_step_branches
from graveler.runs.inputs import folded
from graveler.runs.record import Input, Refusal, RunHandle, RunRecord
from graveler.runs.records import RunRecords
from graveler.runs.state import RunEvent, RunState, next_state

_PARKED: Final = "parked:"
_REFUSALS_KEPT: Final = 20
_LONGEST_REASON: Final = 2000
_ROUNDS_KEPT: Final = 50
_BRANCHLESS: Final = (RunState.PUBLISHED, RunState.ROLLED_BACK)

Unless = Callable[[RunRecord], bool]
"""Returns whether to leave the run of a record alone."""


def _rewritten(there: BranchRecord) -> BranchRecord:
    return replace(there)  # a copy gets a new nonce


def settle_publish(stores: Stores, records: RunRecords, record: RunRecord) -> RunRecord:
    """Settle a publish that was interrupted: find out whether it landed, and return the record.

    A run that is not being published does not change.
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
    """Return whether the candidate is in the target; if it is not, it never will be.

    The target's record is first rewritten with a new nonce, so that a compare-and-set that is
    still in flight loses.
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
        return there  # the result is about another candidate: check again
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
    """Return the rounds of the record after `head` is published."""
    return (*record.rounds, head)[-_ROUNDS_KEPT:]


def renew(
    records: RunRecords, run: RunHandle, inputs: Iterable[Input] = (), *, early: bool = False
) -> RunRecord:
    """Renew the lease of an attempt and record its inputs.

    Nothing is written if nothing changes: the run is published, or the lease was just renewed.
    Because clocks may differ, the end of a lease is never moved to an earlier time.

    Args:
        records: The repository's runs.
        run: The attempt.
        inputs: The inputs to record.
        early: Also renew a lease of which less than a third is over.

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
    """Return the error for an attempt that is over; the message says how it ended."""
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
    """Park the run: drop staged writes, keep the committed head for a newer attempt.

    A second call, or a call after the publish, is not an error.

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
    """Drop the staged writes of the run's branch, refuse further writes, and return its head."""
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
        return record.head or record.base  # never made, or deleted meanwhile
    stores.staging.drop(*dropped)
    return branch.commit_id


def abandon(  # noqa: PLR0913 - the conditions of the call
    stores: Stores,
    records: RunRecords,
    key: str,
    *,
    reason: str,
    attempt: int | None = None,
    mine: RunHandle | None = None,
    unless: Unless = lambda _: False,
) -> RunRecord:
    """Abandon a run: delete its branch, keep its record.

    Args:
        stores: The repository.
        records: The run records of the repository.
        key: The run.
        reason: Why.
        attempt: Only if this is the present attempt.
        mine: Only if this is the present attempt; without `attempt` and `mine`, any attempt.
        unless: Checked in the atomic step; if it returns True, the run does not change.

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
    """End the attempt: park or drop what is not published.

    A second call, or a call of an attempt that is over, does nothing.
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
