"""The reaper of runs that were not ended: by lease, and by time to live.

It needs no server: opening a run checks a few runs that are due, and `Runs.reap` checks all of
them. Each run is reaped by one compare-and-set on its record. An opener, or the attempt itself
when it renews its lease, may win that compare-and-set instead.
"""

import logging
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from itertools import islice
from typing import Final

from graveler.errors import (
    FencedError,
    GravelerError,
    OutcomeUnknownError,
    RetryableError,
    RunStateError,
)
from graveler.model import BranchRecord
from graveler.reads.stores import Stores
from graveler.refs import is_ancestor
from graveler.runs import lifecycle
from graveler.runs.branch import drop_branch
from graveler.runs.index import Appointment
from graveler.runs.record import LEASE, RunHandle, RunRecord
from graveler.runs.records import RunRecords
from graveler.runs.state import RunState

_LOOKED_AT: Final = 8
_OUTDATED: Final = timedelta(days=1)
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Reaped:
    """What the reaper did, or would do, to one run.

    Attributes:
        key: The run.
        branch: The run's branch, or a branch that the run left behind.
        from_state: State before.
        to_state: State after.
        reason: Why.
    """

    key: str
    branch: str
    from_state: RunState
    to_state: RunState
    reason: str


def reap(
    stores: Stores,
    records: RunRecords,
    *,
    dry_run: bool,
    now: datetime,
    limit: int | None,
    everything: bool,
) -> list[Reaped]:
    """Reap every run that is due, and the branches that finished runs left.

    A run that fails is left for the next call; the first error is raised after all were checked.
    """
    errors: list[GravelerError] = []
    if everything:
        found = _reap_all(stores, records, errors, dry_run=dry_run, now=now)
    else:
        found = _reap_due(stores, records, errors, dry_run=dry_run, now=now)
    done = list(islice(found, None if limit is None else max(limit, 0)))
    if errors:
        raise errors[0]
    return done


def reap_due(stores: Stores, records: RunRecords, *, but: str) -> None:
    """Reap the first few runs that are due; called by other operations, so it never fails.

    The run of the branch `but` is left alone. Failures are rescheduled so that they do not block
    later entries; if the store fails, nothing changes.
    """
    now = stores.clock.now()
    try:
        for appointment in list(islice(records.index.due(now), _LOOKED_AT)):
            if appointment.branch == but:
                continue
            try:
                list(_keep(stores, records, appointment, now))
            except (RetryableError, OutcomeUnknownError):
                raise
            except GravelerError as error:
                _log.warning("the run of branch %s is overdue: %s", appointment.branch, error)
                records.index.put_off(appointment, now + LEASE)
    except GravelerError as error:
        _log.warning("runs that are overdue could not be looked at: %s", error)


def _reap_due(
    stores: Stores,
    records: RunRecords,
    errors: list[GravelerError],
    *,
    dry_run: bool,
    now: datetime,
) -> Iterator[Reaped]:
    """Check only the runs that are due."""
    seen: set[str] = set()
    for appointment in records.index.due(now):
        try:
            if not dry_run:
                yield from _keep(stores, records, appointment, now)
            elif appointment.branch not in seen:
                seen.add(appointment.branch)
                record = records.find_branch(appointment.branch)
                yield from _check(stores, records, record, now, dry_run=True)
        except GravelerError as error:
            errors.append(error)


def _reap_all(
    stores: Stores,
    records: RunRecords,
    errors: list[GravelerError],
    *,
    dry_run: bool,
    now: datetime,
) -> Iterator[Reaped]:
    """Check all runs, and all branches and rows that runs have left."""
    for record in records.each():
        try:
            if isinstance(record, GravelerError):
                raise record
            if record.live:
                yield from _check(stores, records, record, now, dry_run=dry_run)
        except GravelerError as error:
            errors.append(error)
    for branch in stores.refs.branches.of_runs(""):
        owner = records.owner_of(branch.name)
        if owner is not None:
            yield from _drop(stores, owner, branch, dry_run=dry_run)
    if not dry_run:
        records.drop_outdated_rows(now - _OUTDATED)


def _keep(
    stores: Stores, records: RunRecords, appointment: Appointment, now: datetime
) -> Iterator[Reaped]:
    """Check a run that is due, and reschedule its appointment.

    An opener writes the appointment before the record. The appointment of a finished run is
    therefore kept for one more lease, for a slow opener.
    """
    record = records.find_branch(appointment.branch)
    yield from _check(stores, records, record, now, dry_run=False)
    record = records.find_branch(appointment.branch)
    expires = None if record is None else record.expires
    if record is None or expires is None:
        if appointment.last:
            records.index.settle(appointment)
        else:
            records.index.put_off(appointment, now + LEASE, last=True)
        return
    again = expires + _grace(record)
    # another process is reaping it
    records.index.put_off(appointment, again if again > now else now + LEASE)


def _check(
    stores: Stores, records: RunRecords, record: RunRecord | None, now: datetime, *, dry_run: bool
) -> Iterator[Reaped]:
    """Reap a run if it is due; if it is over, delete the branches that it left."""
    if record is None:
        return
    if not record.live:
        for branch in stores.refs.branches.of_runs(record.branch):
            if records.owner_of(branch.name) == record:
                yield from _drop(stores, record, branch, dry_run=dry_run)
    elif _is_due(record, now):
        done = _expected(stores, record) if dry_run else _reap(stores, records, record, now)
        if done is not None:
            yield done


def _drop(
    stores: Stores, record: RunRecord, branch: BranchRecord, *, dry_run: bool
) -> Iterator[Reaped]:
    """Delete a branch that a finished run left, for example because its process died."""
    if record.live or not branch.fence or branch.attempt > record.attempt:
        return
    if not dry_run:
        drop_branch(stores, branch.name, up_to=record.attempt)
    reason = f"branch left behind when the run became {record.state}"
    yield _logged(Reaped(record.key, branch.name, record.state, record.state, reason))


def _grace(record: RunRecord) -> timedelta:
    """Return the tolerated difference between clocks."""
    return timedelta(0) if record.state is RunState.PARKED else record.lease / 3


def _is_due(record: RunRecord, now: datetime) -> bool:
    return record.expired(now - _grace(record))


def _reap(stores: Stores, records: RunRecords, record: RunRecord, now: datetime) -> Reaped | None:
    """Reap a run that is due; None if another process was first."""
    reason = _reason(record)

    def alive(there: RunRecord) -> bool:
        return not _is_due(there, now)

    try:
        if record.state is RunState.PARKED or record.on_failure == "drop":
            after = lifecycle.abandon(
                stores,
                records,
                record.key,
                reason=reason,
                attempt=record.attempt,
                unless=alive,
            )
        else:
            after = claimed = _claim(stores, records, record, now, reason)
            if claimed.live:
                handle = RunHandle.of(claimed, location=stores.location, repository=stores.name)
                after = lifecycle.park(stores, records, handle, reason=reason)
                if after.fence != claimed.fence:
                    return None  # claimed again and parked by another reaper
    except (FencedError, RunStateError):
        return None
    if after.state is record.state:
        return None
    return _logged(Reaped(record.key, record.branch, record.state, after.state, reason))


def _claim(
    stores: Stores, records: RunRecords, record: RunRecord, now: datetime, reason: str
) -> RunRecord:
    """Fence an attempt whose lease expired, unless it renews the lease first.

    A fenced attempt cannot renew its lease, commit or publish. If this process dies before it
    parks the run, the next reaper claims the run again.

    Raises:
        FencedError: The lease was renewed, or a newer attempt was opened.
    """

    def change(there: RunRecord | None) -> RunRecord:
        there = lifecycle.settle_publish(stores, records, there or records.get(record.key))
        if not there.live:
            return there
        if there.attempt != record.attempt or there.state is not RunState.OPEN:
            raise FencedError(f"run {record.key!r}: somebody else was first")
        if not _is_due(there, now):
            raise FencedError(f"run {record.key!r}: its lease was renewed")
        return replace(there, fence=stores.ids.unique(), reason=reason, lapsed=True)

    return records.update(record.key, change)


def _expected(stores: Stores, record: RunRecord) -> Reaped:
    """Return what the reaper would do."""
    after = RunState.PARKED
    if record.state is RunState.PARKED or record.on_failure == "drop":
        after = RunState.REAPED
    if record.state is RunState.PUBLISHING:
        target = stores.refs.branches.find(record.into)
        if target is not None and is_ancestor(
            stores.refs.commits, record.candidate, target.commit_id
        ):
            after = RunState.PUBLISHED
    return Reaped(record.key, record.branch, record.state, after, _reason(record))


def _reason(record: RunRecord) -> str:
    if record.state is RunState.PARKED:
        since = f"{record.updated:%Y-%m-%d %H:%M} UTC"
        said = f" ({record.reason})" if record.reason else ""
        return f"parked since {since}, longer than its time to live of {record.ttl}{said}"
    return (
        f"attempt {record.attempt} gave no sign of life: its lease ran out at "
        f"{record.lease_until:%Y-%m-%d %H:%M:%S} UTC"
    )


def _logged(reaped: Reaped) -> Reaped:
    _log.info("run %s: %s -> %s: %s", reaped.key, reaped.from_state, reaped.to_state, reaped.reason)
    return reaped
