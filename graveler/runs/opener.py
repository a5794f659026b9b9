"""The opening of a run: a new attempt, or the present attempt of an owner of several processes.

A new attempt fences every earlier one: one compare-and-set on the run's branch raises the attempt
and replaces the staging token. The compare-and-set on the run's record decides which process opens the
attempt; every process of the owner then makes the branch, so that none waits for a dead one.
"""

import logging
import shlex
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import Any, Self, TypedDict, Unpack, cast

from graveler.base import arguments as args
from graveler.base.arguments import BranchLike, Duration, Home
from graveler.base.names import check_caller_pairs, run_branch
from graveler.errors import ExpiredError, FencedError, InvalidInputError
from graveler.kv.record_store import ABSENT_VERSION, Version
from graveler.model import BranchRecord
from graveler.reads.stores import Stores
from graveler.runs.branch import drop_branch, drop_step_branches, take_branch, was_deleted
from graveler.runs.history import is_displaced, is_rewound
from graveler.runs.lifecycle import settle_publish
from graveler.runs.record import LEASE, TTL, RunRecord
from graveler.runs.records import RunRecords
from graveler.runs.state import RunEvent, RunState, next_state

_RESUMED = (RunState.OPEN, RunState.PARKED)
_OVER = (RunState.PUBLISHED, RunState.ROLLED_BACK, RunState.REAPED)
_CLOSED = (RunState.PARKED, RunState.REAPED, RunState.ROLLED_BACK)
_OWNERS_KEPT = 100
_SHORT = 12
_log = logging.getLogger(__name__)


class RunTerms(TypedDict, total=False):
    """The keyword arguments of every call that opens a run.

    Attributes:
        into: The branch to publish to (``main``): a user's branch, not that of a run or a step.
        metadata: Metadata of the run and of its commits; see `Origin`.
        on_failure: What happens to an attempt that is closed unpublished, replaced by a newer one, or
            whose lease expires: ``park`` (the default) keeps its commits for the next attempt, ``drop``
            does not.
        lease: How long the attempt may be silent before it counts as dead (15 minutes): a
            timedelta, or text (``36h``). Its work renews the lease; so does `Run.renew`.
        ttl: How long a parked run is kept (14 days).
        fresh: Start from the target's present head, also if the run is open or parked. A step
            deletes a file whose earlier bytes are expired, instead of failing.
    """

    into: str | BranchLike
    metadata: Mapping[str, str] | None
    on_failure: str
    lease: Duration
    ttl: Duration
    fresh: bool


@dataclass(frozen=True, slots=True)
class Terms:
    """The checked terms of one run."""

    key: str
    into: str = "main"
    metadata: Mapping[str, str] = field(default_factory=dict)
    on_failure: str = "park"
    lease: timedelta = LEASE
    ttl: timedelta = TTL
    fresh: bool = False
    owner: str = ""
    accepts: Callable[[RunRecord | None], None] | None = None

    @classmethod
    def of(
        cls,
        key: str,
        *,
        within: Home | None = None,
        owner: str = "",
        accepts: Callable[[RunRecord | None], None] | None = None,
        **terms: Unpack[RunTerms],
    ) -> Self:
        """Return the terms that a caller gives; `within` is the repository of the run."""
        given: Any = cls(args.run_key(key), owner=owner, accepts=accepts, **cast(Any, terms))
        checked: Self = replace(
            given,
            into=args.branch_text(given.into, "into", within=within),
            metadata=check_caller_pairs(f"run {key!r}", args.pairs(given.metadata, "metadata")),
            on_failure=args.choice(given.on_failure, "on_failure", ("park", "drop")),
            lease=args.duration(given.lease, "lease", zero=False),
            ttl=args.duration(given.ttl, "ttl", zero=False),
            fresh=args.flag(given.fresh, "fresh"),
            accepts=args.optional(args.function, accepts, "accepts"),
        )
        return checked


def open_run(records: RunRecords, terms: Terms) -> RunRecord:
    """Open a new attempt of the run `key` and return its record.

    An open or parked run resumes with the commits of its branch, unless it was opened with
    ``on_failure="drop"``. Any other run gets a branch forked from the present head of the target.
    """
    key, refs = terms.key, records.stores.refs
    known, target, branch = refs.together.read(
        records.place(key), refs.branches.place(terms.into), refs.branches.place(run_branch(key))
    )
    targets = [target]

    def change(record: RunRecord | None) -> RunRecord:
        seen = targets.pop() if targets else None
        return _opened(records, record, terms, None if seen is None else seen.record)

    records.read(key, known)
    record = records.updated(key, change, known or ABSENT_VERSION, opens=True).record
    now = _take_branch(records, record, branch or ABSENT_VERSION)
    if now.fence != record.fence:
        raise FencedError(f"run {key!r} is at attempt {now.attempt}, opened since")
    if record.attempt > 1:
        drop_step_branches(records.stores, record, up_to=record.attempt - 1)
    _log_resumed(records, record)
    return record


def open_or_attach(records: RunRecords, terms: Terms) -> RunRecord:
    """Return the record of the owner's attempt, opened by this call or an earlier one."""
    key, owner = terms.key, terms.owner
    attaches = True

    def change(record: RunRecord | None) -> RunRecord:
        nonlocal attaches
        attaches = record is not None and _is_owned(record, owner)
        if record is not None and attaches:
            return record
        return _opened(records, record, terms)

    record = records.find(key)
    if record is None or not _is_owned(record, owner):
        record = records.updated(key, change, opens=True).record
    if record.state is not RunState.OPEN:
        return record  # the branch already exists
    if attaches and was_deleted(records.stores, record):
        _check_is_over(records.get(key), record)
        now = _look_again(records, record)
    else:
        now = _take_branch(records, record, None)
    if not _is_owned(now, owner):
        raise FencedError(f"run {key!r} is at attempt {now.attempt}, opened since")
    if not attaches:
        _log_resumed(records, now)
    return now


def _check_is_over(now: RunRecord, record: RunRecord) -> None:
    """Refuse an attempt whose branch was deleted although the attempt was not ended."""
    if now.fence == record.fence and now.state is RunState.OPEN:
        raise FencedError(
            f"run {record.key!r}: its branch {record.branch!r} was deleted, and with it what was "
            f"staged there: attempt {record.attempt} cannot continue. Start a new attempt; it keeps "
            "everything committed"
        )


def _is_owned(record: RunRecord, owner: str) -> bool:
    """Return whether the present attempt is the owner's; refuse an owner whose attempt is over.

    If the attempt of an owner ended because its lease expired, for example while a step waited for
    its retry, the owner opens the next attempt, unless another owner has opened one.
    """
    if owner in record.owners:
        raise FencedError(
            f"run {record.key!r} is at attempt {record.attempt}, opened since {owner} had it: stop"
        )
    if record.owner != owner or (record.lapsed and record.live):
        return False
    if record.state in _CLOSED:
        raise FencedError(
            f"run {record.key!r}: the attempt of {owner} is over, it is {record.state} "
            f"({record.reason or 'no reason given'}): start a new one"
        )
    return True


def _opened(
    records: RunRecords,
    record: RunRecord | None,
    terms: Terms,
    target: BranchRecord | None = None,
) -> RunRecord:
    """Return the record of a new attempt that replaces `record`; the target is read if not given."""
    stores, key = records.stores, terms.key
    target = target or stores.refs.branches.get(terms.into)
    _check_takes_runs(records, key, target)
    if record is not None:
        record = settle_publish(records, record)
        dropped = record.on_failure == "drop" or (
            record.state in _RESUMED and not terms.fresh and _lost_its_fork(stores, record)
        )
        if record.state in _RESUMED and dropped:
            record = replace(record, state=RunState.REAPED)  # its branch is not resumed
    if terms.accepts is not None:
        terms.accepts(record)
    if record is not None and record.state in _RESUMED and terms.fresh:
        record = replace(record, state=RunState.REAPED)
    state = RunState.NONE if record is None else record.state
    resumed = state in _RESUMED
    if record is not None and resumed and record.into != terms.into:
        raise InvalidInputError(
            f"run {key!r} is {state} and publishes to {record.into!r}, not {terms.into!r}: "
            "abandon it first, or give the run another key"
        )
    now = stores.clock.now()
    fence = stores.ids.unique()
    fresh = RunRecord(
        key=key,
        state=next_state(key, state, RunEvent.OPENED),
        attempt=1,
        fence=fence,
        branch=run_branch(key),
        into=terms.into,
        base=target.commit_id,
        created=now,
        opened=now,
        updated=now,
        lease_until=now + terms.lease,
        born=fence,
        metadata=dict(terms.metadata),
        owner=terms.owner,
        lease=terms.lease,
        ttl=terms.ttl,
        on_failure=terms.on_failure,
        fresh=terms.fresh,
    )
    if record is None:
        return fresh
    ended = record.owner and record.owner != terms.owner
    fresh = replace(
        fresh,
        attempt=record.attempt + 1,
        created=record.created,
        publishes=record.publishes,
        metadata=fresh.metadata or dict(record.metadata),
        forked=record.attempt + 1,
        owners=(*record.owners, record.owner)[-_OWNERS_KEPT:] if ended else record.owners,
        refusals=record.refusals,
    )
    if not resumed:
        return fresh
    return replace(
        fresh,
        base=target.commit_id if _is_bare(stores, record) else record.base,
        head=record.head,
        forked=record.forked,
        born=record.born,
        inputs=record.inputs,
    )


def _is_bare(stores: Stores, record: RunRecord) -> bool:
    """Return whether nothing is committed on the run's branch, which then starts from the target."""
    branch = stores.refs.branches.find(record.branch)
    return branch is not None and branch.commit_id == record.base


def _lost_its_fork(stores: Stores, record: RunRecord) -> bool:
    """Return whether the target has lost the fork of the run's branch, which is then not resumed."""
    target = stores.refs.branches.find(record.into)
    if target is None:
        return False
    dest = stores.refs.commits.get(target.commit_id)
    if is_rewound(stores, record, dest):
        reason = f"{record.into!r} was put back to before commit {record.base[:_SHORT]}"
    elif is_displaced(stores, record, dest):
        reason = f"{record.into!r} has lost or gained a publish of the run since the fork"
    elif _has_lost_files(stores, record):
        reason = "the last commit of its branch is expired"
    else:
        return False
    _log.warning(
        "run %r: %s: the next attempt starts from %s as it is now, not from the branch of attempt %d, "
        "which was forked from that commit",
        record.key,
        reason,
        record.into,
        record.attempt,
    )
    return True


def _has_lost_files(stores: Stores, record: RunRecord) -> bool:
    """Return whether the head of the run's branch is expired: a key-value store was restored."""
    branch = stores.refs.branches.find(record.branch)
    try:
        stores.refs.expired.check_readable(branch.commit_id if branch is not None else record.base)
    except ExpiredError:
        return True
    return False


def _check_takes_runs(records: RunRecords, key: str, target: BranchRecord) -> None:
    """Refuse the branch of a run or a step: its owner would publish the writes of others."""
    if not target.fence:
        return
    owner = records.owner_of(target.name)
    whose = "a run" if owner is None else f"run {owner.key!r}"
    raise InvalidInputError(
        f"run {key!r}: into {target.name!r}: that branch belongs to {whose} (attempt "
        f"{target.attempt}), which alone writes to it: publish into a branch of your own"
    )


def _take_branch(records: RunRecords, record: RunRecord, known: Version[Any] | None) -> RunRecord:
    """Take the run's branch for this attempt, and return the present record after that."""
    named, found = records.stores.refs.name_and_read(records.place(record.key))
    take_branch(records.stores, record, known=known, named=named)
    return _look_again(records, record, records.read(record.key, found[0]) if found else None)


def _look_again(records: RunRecords, record: RunRecord, now: RunRecord | None = None) -> RunRecord:
    """Return the present record after the branch was taken; it is read if it is not given.

    If the run was published or abandoned between the read and the write, this process has made its
    branch again. The branch is then deleted, because no attempt will resume from it.
    """
    now = now or records.get(record.key)
    if now.state in _OVER or now.forked > record.attempt:
        drop_branch(records.stores, record.branch, up_to=record.attempt)
    return now


def _log_resumed(records: RunRecords, record: RunRecord) -> None:
    """Log that a resumed attempt reads an older commit of its target, if the target has moved."""
    refs = records.stores.refs
    target = refs.branches.find(record.into) if record.resumed else None
    if target is None or target.commit_id == record.base:
        return
    _log.warning(
        "run %s: attempt %d resumes a branch that was forked from %s at %s, and reads it as it was "
        "then, though it is at %s now; to start afresh: graveler run abandon %s, then run all of "
        "its tasks again",
        record.key,
        record.attempt,
        record.into,
        record.base[:_SHORT],
        target.commit_id[:_SHORT],
        shlex.quote(record.key),
    )
