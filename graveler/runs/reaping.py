"""Clearing up after runs that nobody ends: by lease, and by time to live.

Nothing needs a server for it: opening a run looks at a few of those whose time has come, and
`Runs.reap` at all. What is done to a run is decided in one compare-and-set on its record, which
an opener, or the attempt itself by a sign of life, may win instead.
"""

import logging
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from itertools import chain, islice
from typing import Final

from graveler.errors import FencedError, GravelerError, RunStateError
from graveler.model import BranchRecord
from graveler.refs import is_ancestor
from graveler.repository.stores import Stores
from graveler.runs import lifecycle
from graveler.runs.record import LEASE, RunHandle, RunRecord
from graveler.runs.records import RunRecords
from graveler.runs.state import RunState

__all__ = ["Reaped", "reap", "reap_due"]

_LOOKED_AT: Final = 8
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Reaped:
    """What was done, or would be, about one run.

    Attributes:
        key: The run.
        branch: Its branch, or that of a step, where only a branch was left behind.
        from_state: Where the run stood.
        to_state: Where it stands.
        reason: Why.
    """

    key: str
    branch: str
    from_state: RunState
    to_state: RunState
    reason: str


def reap(
    stores: Stores, records: RunRecords, *, dry_run: bool, now: datetime, limit: int | None
) -> list[Reaped]:
    """Reap every run whose time is over, and the branches of runs that are over.

    What fails is left for the next time; the first error is raised when all were looked at.
    """
    over: dict[str, RunRecord] = {}
    errors: list[GravelerError] = []
    found = chain(
        _reap_all(stores, records, over, errors, dry_run=dry_run, now=now),
        _drop_left_behind(stores, over, dry_run=dry_run),
    )
    done = list(islice(found, None if limit is None else max(limit, 0)))
    if errors:
        raise errors[0]
    return done


def _reap_all(
    stores: Stores,
    records: RunRecords,
    over: dict[str, RunRecord],
    errors: list[GravelerError],
    *,
    dry_run: bool,
    now: datetime,
) -> Iterator[Reaped]:
    """Reap the runs that are due; fill in those that are over, and what went wrong."""
    for record in records.each():
        if isinstance(record, GravelerError):
            errors.append(record)
        elif not record.live:
            over[record.branch] = record
        elif _is_due(record, now):
            try:
                found = (
                    _foreseen(stores, record) if dry_run else _reap(stores, records, record, now)
                )
            except GravelerError as error:
                errors.append(error)
                continue
            if found is not None:
                yield found


def _drop_left_behind(
    stores: Stores, over: dict[str, RunRecord], *, dry_run: bool
) -> Iterator[Reaped]:
    for branch, record in _left_behind(stores, over):
        if not dry_run:
            lifecycle.drop_branch(stores, branch.name, up_to=record.attempt)
        reason = f"branch left behind when the run became {record.state}"
        yield _told(Reaped(record.key, branch.name, record.state, record.state, reason))


def reap_due(stores: Stores, records: RunRecords, *, but: str) -> None:
    """Look at the first few runs whose time has come; for those who come by, so it never fails.

    The run of the branch `but` is left alone, however short its lease.

    Each is looked at again when its time comes anew. One that cannot be reaped is put off, lest
    it hide those after it.
    """
    now = stores.clock.now()
    try:
        for at, branch in list(records.due(now, _LOOKED_AT)):
            if branch == but:
                continue
            again = _look(stores, records, branch, now)
            if again is not None:
                records.expect(branch, again)
            records.forget(branch, at)
    except GravelerError as error:
        _log.warning("runs that are overdue could not be looked at: %s", error)


def _look(stores: Stores, records: RunRecords, branch: str, now: datetime) -> datetime | None:
    """Reap the run of that branch if it is due; return when to look again, None for never."""
    try:
        record = records.find_branch(branch)
        if record is not None and _is_due(record, now):
            _reap(stores, records, record, now)
            record = records.find_branch(branch)
    except GravelerError as error:
        _log.warning("the run of branch %s is overdue and could not be reaped: %s", branch, error)
        return now + LEASE
    if record is None or record.expires is None:
        return None
    again = record.expires + _grace(record)
    return again if again > now else now + LEASE  # somebody else is at it


def _grace(record: RunRecord) -> timedelta:
    """Return by how much clocks may differ without harm."""
    return timedelta(0) if record.state is RunState.PARKED else record.lease / 3


def _is_due(record: RunRecord, now: datetime) -> bool:
    return record.expired(now - _grace(record))


def _reap(stores: Stores, records: RunRecords, record: RunRecord, now: datetime) -> Reaped | None:
    """Do what is due; None where somebody else was first."""
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
                    return None  # claimed once more, and parked, by another reaper
    except (FencedError, RunStateError):
        return None
    if after.state is record.state:
        return None
    return _told(Reaped(record.key, record.branch, record.state, after.state, reason))


def _claim(
    stores: Stores, records: RunRecords, record: RunRecord, now: datetime, reason: str
) -> RunRecord:
    """Take the attempt from whoever had it, unless it gives a sign of life first.

    From here on the attempt is fenced: it cannot renew its lease, commit or publish. Who dies
    before he has parked the run leaves it as it was found, and the next one claims it again.

    Raises:
        FencedError: It has given one, or a newer attempt was opened.
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


def _foreseen(stores: Stores, record: RunRecord) -> Reaped:
    """Return what would be done."""
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


def _left_behind(
    stores: Stores, over: dict[str, RunRecord]
) -> Iterator[tuple[BranchRecord, RunRecord]]:
    """Yield the branches that runs which are over have left, as one does that dies at its end."""
    for branch in stores.refs.branches.of_runs(""):
        name = branch.name
        while name not in over and "." in name:
            name = name.rpartition(".")[0]
        record = over.get(name)
        if record is not None and branch.fence and branch.attempt <= record.attempt:
            yield branch, record


def _told(reaped: Reaped) -> Reaped:
    _log.info("run %s: %s -> %s: %s", reaped.key, reaped.from_state, reaped.to_state, reaped.reason)
    return reaped
