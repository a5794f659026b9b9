"""The reaper of unfinished runs, by lease and by time to live.

It needs no server: opening a run checks a few runs that are due, and `Runs.reap` checks all of
them. Each run is reaped by one compare-and-set on its record. An opener, or the attempt itself
when it renews its lease, may win that compare-and-set instead.
"""

import logging
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from itertools import islice

from graveler.errors import (
    FencedError,
    GravelerError,
    OutcomeUnknownError,
    RetryableError,
    RunStateError,
)
from graveler.model import BranchRecord
from graveler.runs import lifecycle
from graveler.runs.branch import drop_branch
from graveler.runs.record import LEASE, RunRecord
from graveler.runs.records import Appointment, RunRecords
from graveler.runs.state import RunState

_CHECKED = 8
_OUTDATED = timedelta(days=1)
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Reaped:
    """The action, or planned action, of the reaper on one run.

    Attributes:
        key: The run.
        branch: The run's branch, or a branch that the run left behind.
        from_state: State before.
        to_state: State after.
        reason: The reason.
    """

    key: str
    branch: str
    from_state: RunState
    to_state: RunState
    reason: str


def reap(
    records: RunRecords, *, dry_run: bool, now: datetime, limit: int | None, everything: bool
) -> list[Reaped]:
    """Reap every run that is due, and the branches that finished runs left.

    A run that cannot be reaped is left for the next call. The first error is raised after all runs
    were checked.
    """
    reaper = _Reaper(records, now, dry_run)
    reaped = reaper.reap_all() if everything else reaper.reap_due()
    done = list(islice(reaped, None if limit is None else max(limit, 0)))
    if reaper.errors:
        raise reaper.errors[0]
    return done


def reap_due(records: RunRecords, *, but: str) -> bool:
    """Reap the first few runs that are due, and return whether none is left.

    Other operations call it, so it never fails.

    The run of the branch `but` is skipped. Failures are rescheduled so that they do not block later
    entries. If the store fails, nothing changes.
    """
    now = records.stores.clock.now()
    reaper = _Reaper(records, now, dry_run=False)
    try:
        appointments = list(islice(records.index.due(now), _CHECKED))
        for appointment in appointments:
            if appointment.branch == but:
                continue
            try:
                list(reaper.keep(appointment))
            except (RetryableError, OutcomeUnknownError):
                raise
            except GravelerError as error:
                _log.warning("the run of branch %s is overdue: %s", appointment.branch, error)
                records.index.put_off(appointment, now + LEASE)
    except GravelerError as error:
        _log.warning("overdue runs could not be checked: %s", error)
        return False
    return len(appointments) < _CHECKED


@dataclass(frozen=True, slots=True)
class _Reaper:
    """Reaps the runs of one repository."""

    records: RunRecords
    now: datetime
    dry_run: bool
    errors: list[GravelerError] = field(default_factory=list)

    def reap_due(self) -> Iterator[Reaped]:
        seen: set[str] = set()
        for appointment in self.records.index.due(self.now):
            try:
                if not self.dry_run:
                    yield from self.keep(appointment)
                elif appointment.branch not in seen:
                    seen.add(appointment.branch)
                    yield from self._check(self.records.find_branch(appointment.branch))
            except GravelerError as error:
                self.errors.append(error)

    def reap_all(self) -> Iterator[Reaped]:
        """Check all runs, and all branches and rows that runs have left."""
        for record in self.records.each():
            try:
                if isinstance(record, GravelerError):
                    raise record
                if record.live:
                    yield from self._check(record)
            except GravelerError as error:
                self.errors.append(error)
        for branch in self.records.stores.refs.branches.of_runs(""):
            owner = self.records.owner_of(branch.name)
            if owner is not None:
                yield from self._drop(owner, branch)
        if not self.dry_run:
            self.records.drop_outdated_rows(self.now - _OUTDATED)

    def keep(self, appointment: Appointment) -> Iterator[Reaped]:
        """Check a run that is due, and reschedule its appointment.

        An opener writes the appointment before the record. The appointment of a finished run is
        therefore kept for one more lease, for a slow opener.
        """
        index = self.records.index
        yield from self._check(self.records.find_branch(appointment.branch))
        record = self.records.find_branch(appointment.branch)
        expires = None if record is None else record.expires
        if record is None or expires is None:
            if appointment.last:
                index.drop(appointment.row)
            else:
                index.put_off(appointment, self.now + LEASE, last=True)
            return
        again = expires + _grace(record)
        # if the time is not later, another process is reaping the run
        index.put_off(appointment, again if again > self.now else self.now + LEASE)

    def _check(self, record: RunRecord | None) -> Iterator[Reaped]:
        """Reap a run if it is due; if it is over, delete the branches that it left."""
        if record is None:
            return
        if not record.live:
            for branch in self.records.stores.refs.branches.of_runs(record.branch):
                if self.records.owner_of(branch.name) == record:
                    yield from self._drop(record, branch)
        elif self._is_due(record):
            done = self._expected(record) if self.dry_run else self._reap(record)
            if done is not None:
                yield done

    def _drop(self, record: RunRecord, branch: BranchRecord) -> Iterator[Reaped]:
        """Delete a branch that a finished run left, for example because its process died."""
        if record.live or not branch.fence or branch.attempt > record.attempt:
            return
        if not self.dry_run:
            drop_branch(self.records.stores, branch.name, up_to=record.attempt)
        reason = f"branch left behind when the run became {record.state}"
        yield _logged(Reaped(record.key, branch.name, record.state, record.state, reason))

    def _is_due(self, record: RunRecord) -> bool:
        return record.expired(self.now - _grace(record))

    def _reap(self, record: RunRecord) -> Reaped | None:
        """Reap a run that is due; None if another process was first."""
        reason = _reason(record)
        try:
            if _is_dropped(record):
                after = lifecycle.abandon(
                    self.records,
                    record.key,
                    reason=reason,
                    attempt=record.attempt,
                    unless=lambda now: not self._is_due(now),
                )
            else:
                after = claimed = self._claim(record, reason)
                if claimed.live:
                    after = lifecycle.park(
                        self.records, self.records.handle(claimed), reason=reason
                    )
                    if after.fence != claimed.fence:
                        return None  # another reaper has claimed it again and parked it
        except (FencedError, RunStateError):
            return None
        if after.state is record.state:
            return None
        return _logged(Reaped(record.key, record.branch, record.state, after.state, reason))

    def _claim(self, record: RunRecord, reason: str) -> RunRecord:
        """Fence an attempt whose lease expired, unless it renews the lease first.

        A fenced attempt cannot renew its lease, commit or publish. If this process dies before it
        parks the run, the next reaper claims the run again.
        """

        def change(now: RunRecord) -> RunRecord:
            now = lifecycle.settle_publish(self.records, now)
            if not now.live:
                return now
            if now.attempt != record.attempt or now.state is not RunState.OPEN:
                raise FencedError(f"run {record.key!r}: another process was first")
            if not self._is_due(now):
                raise FencedError(f"run {record.key!r}: its lease was renewed")
            return replace(now, fence=self.records.stores.ids.unique(), reason=reason, lapsed=True)

        return self.records.update(record.key, change)

    def _expected(self, record: RunRecord) -> Reaped:
        after = RunState.REAPED if _is_dropped(record) else RunState.PARKED
        if lifecycle.observe_publish(self.records, record).state is RunState.PUBLISHED:
            after = RunState.PUBLISHED
        return Reaped(record.key, record.branch, record.state, after, _reason(record))


def _is_dropped(record: RunRecord) -> bool:
    return record.state is RunState.PARKED or record.on_failure == "drop"


def _grace(record: RunRecord) -> timedelta:
    """Return the tolerated difference between clocks."""
    return timedelta(0) if record.state is RunState.PARKED else record.lease / 3


def _reason(record: RunRecord) -> str:
    if record.state is RunState.PARKED:
        since = f"{record.updated:%Y-%m-%d %H:%M} UTC"
        why = f" ({record.reason})" if record.reason else ""
        return f"parked since {since}, longer than its time to live of {record.ttl}{why}"
    return (
        f"attempt {record.attempt} gave no sign of life: its lease ran out at "
        f"{record.lease_until:%Y-%m-%d %H:%M:%S} UTC"
    )


def _logged(reaped: Reaped) -> Reaped:
    _log.info("run %r: %s -> %s: %r", reaped.key, reaped.from_state, reaped.to_state, reaped.reason)
    return reaped
