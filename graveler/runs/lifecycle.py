"""The end of an attempt, by park, abandon or a settled publish, and the renewal of its lease."""

import logging
from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import partial

from graveler.committed.claims import claims_of, same_work
from graveler.committed.diff import same_records
from graveler.errors import FencedError, GravelerError, PermissionDeniedError, RefNotFoundError
from graveler.model import Commit
from graveler.reads.stores import Stores
from graveler.refs.history import is_ancestor
from graveler.refs.mover import move
from graveler.runs.branch import drop_branches, drop_step_branches, fence_off
from graveler.runs.record import (
    Input,
    RunHandle,
    RunRecord,
    after,
    folded,
    published,
    refused,
    shortened,
)
from graveler.runs.records import RunRecords
from graveler.runs.state import Publish, RunEvent, RunState

_log = logging.getLogger(__name__)


def settle_publish(records: RunRecords, record: RunRecord) -> RunRecord:
    """Settle an interrupted publish: find out whether it landed, and return the record.

    A run that is not being published does not change.
    """
    while record.state is RunState.PUBLISHING:
        landed = None
        if _has_landed(records, record):
            candidate = records.stores.refs.commits.get(record.candidate)
            landed = publish_of(records, record, candidate, head=record.head)
        change = partial(_settled, candidate=record.candidate, landed=landed)
        record = records.update(record.key, change)
        if record.state is RunState.PUBLISHED:
            drop(records, record)
    return record


def observe_publish(records: RunRecords, record: RunRecord) -> RunRecord:
    """Return the record that `settle_publish` would write now, if its candidate has landed.

    Nothing is written, so the publish of a living process continues.
    """
    if record.state is not RunState.PUBLISHING:
        return record
    refs = records.stores.refs
    target = refs.branches.find(record.into)
    if target is None or not is_ancestor(refs.commits, record.candidate, target.commit_id):
        return record
    candidate = refs.commits.get(record.candidate)
    return published(record, publish_of(records, record, candidate, head=record.head))


def publish_of(
    records: RunRecords, record: RunRecord, commit: Commit, *, head: str, landed: bool = True
) -> Publish:
    """Return the publish of the present attempt, with the verdicts of its record."""
    return Publish(
        commit=commit.id,
        head=head,
        into=record.into,
        attempt=record.attempt,
        at=records.stores.clock.now(),
        changed=landed and _changes(records.stores, record, commit),
        verdicts=record.verdicts,
    )


def _changes(stores: Stores, record: RunRecord, commit: Commit) -> bool:
    """Return whether a commit changes files of its first parent, or the work of the run.

    A run that claims again what it claims changes the order of the claims, but not its work.
    """
    parent = stores.refs.commits.get(commit.parents[0])
    if not same_work(stores.ranges, claims_of(parent), claims_of(commit), record.branch):
        return True
    return commit.spans != () and not same_records(
        stores.ranges, parent.metarange, commit.metarange
    )


def _has_landed(records: RunRecords, record: RunRecord) -> bool:
    """Return whether the candidate is in the target; if not, it never lands.

    The target's record is first rewritten with a new nonce, so that a compare-and-set that is still in
    flight loses.
    """
    refs = records.stores.refs
    try:
        target = move(refs, record.into, replace, landed=lambda _: True)
    except RefNotFoundError:
        return False
    return is_ancestor(refs.commits, record.candidate, target.commit_id)


def _settled(record: RunRecord, *, candidate: str, landed: Publish | None) -> RunRecord:
    if record.state is not RunState.PUBLISHING or record.candidate != candidate:
        return record  # the result is about another candidate: check again
    if landed is not None:
        return published(record, landed)
    return after(record, RunEvent.LOST, candidate="")


def drop(records: RunRecords, record: RunRecord) -> None:
    """Delete the branches and the appointment of a run that is over.

    What the store does not let this user delete is left.
    """
    try:
        drop_branches(records.stores, record)
        records.index.forget(record)
    except PermissionDeniedError as error:
        _log.warning("run %r is over, and its branch stays: %s", record.key, error)


def renew(
    records: RunRecords, run: RunHandle, inputs: Iterable[Input] = (), *, early: bool = False
) -> RunRecord:
    """Renew the lease of an attempt and record its inputs.

    Nothing is written if nothing changes: the run is published, or the lease was just renewed.
    Because clocks may differ, the end of a lease is never moved to an earlier time.
    """
    inputs = tuple(inputs)

    def change(record: RunRecord) -> RunRecord:
        record = own(record, run)
        if record.state in (RunState.PUBLISHED, RunState.ROLLED_BACK):
            return record
        if not record.live or record.state is RunState.PARKED:
            raise _over(record, run)
        now = records.stores.clock.now()
        until = record.lease_until
        if early or until - now < record.lease * 2 / 3:
            until = max(until, now + record.lease)
        read = folded((*record.inputs, *inputs)) if inputs else record.inputs
        if until == record.lease_until and read == record.inputs:
            return record
        return replace(record, lease_until=until, inputs=read)

    return records.update(run.key, change)


def own(record: RunRecord, run: RunHandle | RunRecord) -> RunRecord:
    """Return the record if it is still that of this attempt."""
    if (record.fence, record.attempt) != (run.fence, run.attempt):
        raise _over(record, run)
    return record


def _over(record: RunRecord, run: RunHandle | RunRecord) -> FencedError:
    if record.attempt == run.attempt:
        return FencedError(
            f"run {run.key!r}: attempt {run.attempt} is over, the run is {record.state} "
            f"({record.reason or 'no reason given'}): open a new attempt"
        )
    return FencedError(
        f"run {run.key!r} is at attempt {record.attempt}, opened since; this is attempt "
        f"{run.attempt}: stop"
    )


def park(
    records: RunRecords, run: RunHandle, *, reason: str, refusal: GravelerError | None = None
) -> RunRecord:
    """Park the run: drop staged writes, keep the committed head for a newer attempt.

    A second call, or a call after the publish, is not an error.
    """
    stores = records.stores
    record = records.get(run.key)
    if record.fence != run.fence:
        if record.attempt == run.attempt and record.state is RunState.PARKED:
            return record  # the reaper has parked it
        raise _over(record, run)
    record = settle_publish(records, record)
    if record.state is not RunState.OPEN:
        return record
    head = fence_off(stores, record)
    drop_step_branches(stores, record, up_to=record.attempt)

    def change(record: RunRecord) -> RunRecord:
        record = own(record, run)
        if refusal is not None:
            record = refused(record, refusal, stores.clock.now())
        why = shortened(reason) or record.reason
        return after(record, RunEvent.PARKED, head=head, reason=why)

    return records.update(run.key, change)


def abandon(
    records: RunRecords,
    key: str,
    *,
    reason: str,
    attempt: int | None = None,
    mine: RunHandle | None = None,
    unless: Callable[[RunRecord], bool] = lambda _: False,
) -> RunRecord:
    """Abandon a run: delete its branch, keep its record."""
    left = False

    def change(record: RunRecord) -> RunRecord:
        nonlocal left
        record = settle_publish(records, record)
        if attempt is not None and record.attempt != attempt:
            raise FencedError(f"run {key!r} is at attempt {record.attempt}, opened since")
        if mine is not None and record.attempt != mine.attempt:
            raise _over(record, mine)
        left = unless(record)
        if left or record.state is RunState.REAPED:
            return record
        if mine is not None and record.fence != mine.fence:
            raise _over(record, mine)
        why = shortened(reason) or record.reason
        return after(record, RunEvent.ABANDONED, fence=records.stores.ids.unique(), reason=why)

    record = records.update(key, change)
    if not left:
        drop(records, record)
    return record


def close(records: RunRecords, run: RunHandle, *, reason: str) -> RunRecord:
    """End the attempt: park or drop an unpublished run.

    A second call, or a call of an attempt that is over, does nothing.
    """
    record = records.get(run.key)
    if record.attempt != run.attempt or not record.live:
        return record
    try:
        record = park(records, run, reason=reason)
        if record.state is RunState.PARKED and record.on_failure == "drop":
            record = abandon(
                records, run.key, reason=reason, mine=run, unless=lambda now: not now.live
            )
    except FencedError:
        return records.get(run.key)
    return record
