"""Opening a run.

Opening fences every earlier attempt: one compare-and-set on the run's branch raises the
attempt and replaces the staging token, so that what a stale writer stages afterwards
lands where nothing reads, and its second look at the record tells it so.
"""

import logging
import shlex
from dataclasses import replace
from typing import Final

from graveler.errors import (
    AlreadyExistsError,
    ExpiredError,
    FencedError,
    InvalidInputError,
    RefNotFoundError,
)
from graveler.model import BranchRecord, Commit
from graveler.names import run_branch
from graveler.refs import move
from graveler.repository.stores import Stores
from graveler.runs.lifecycle import drop_branch, drop_step_branches, frozen, settle_publish
from graveler.runs.record import RunRecord
from graveler.runs.records import RunRecords
from graveler.runs.state import RunEvent, RunState, next_state
from graveler.runs.terms import Terms

__all__ = ["look_again", "open_run", "opened", "take_branch", "tell_resumed", "was_deleted"]

_RESUMED: Final = (RunState.OPEN, RunState.PARKED)
_OVER: Final = (RunState.PUBLISHED, RunState.ROLLED_BACK, RunState.REAPED)
_OWNERS_KEPT: Final = 100
_SHORT: Final = 12
_log = logging.getLogger(__name__)


def open_run(stores: Stores, records: RunRecords, key: str, terms: Terms) -> RunRecord:
    """Open a new attempt of the run `key` and return its record.

    An open or parked run goes on from what is committed on its branch; a new, published,
    rolled back or abandoned one gets a branch forked from the target's present head.

    Raises:
        RefNotFoundError: No such target.
        InvalidInputError: The key is empty, the target is the branch of a run or of a step, or
            the run waits to be published elsewhere.
        FencedError: A newer attempt was opened at the same moment.
    """

    def change(record: RunRecord | None) -> RunRecord:
        return opened(stores, records, key, record, terms)

    terms.check(key, stores.clock.now())
    record = records.update(key, change)
    take_branch(stores, record)
    now = look_again(stores, records, record)
    if now.fence != record.fence:
        raise FencedError(f"run {key!r} is at attempt {now.attempt}, opened since")
    drop_step_branches(stores, record, up_to=record.attempt - 1)
    tell_resumed(stores, record)
    return record


def tell_resumed(stores: Stores, record: RunRecord) -> None:
    """Log that a resumed attempt does not read its target as it is now, where that has moved."""
    target = stores.refs.branches.find(record.into) if record.resumed else None
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


def opened(
    stores: Stores, records: RunRecords, key: str, record: RunRecord | None, terms: Terms
) -> RunRecord:
    """Return what `record` becomes when a new attempt is opened."""
    target = stores.refs.branches.get(terms.into)
    _check_takes_runs(records, key, target)
    if record is not None:
        record = settle_publish(stores, records, record)
    if terms.accepts is not None:
        terms.accepts(record)
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
    )
    if record is None:
        return fresh
    ended = record.owner and record.owner != terms.owner
    fresh = replace(
        fresh,
        attempt=record.attempt + 1,
        created=record.created,
        rounds=record.rounds,
        metadata=fresh.metadata or dict(record.metadata),
        forked=record.attempt + 1,
        owners=(*record.owners, record.owner)[-_OWNERS_KEPT:] if ended else record.owners,
        refusals=record.refusals,
    )
    if not resumed:
        return fresh
    return replace(
        fresh,
        base=record.base,
        head=record.head,
        forked=record.forked,
        born=record.born,
        inputs=record.inputs,
    )


def _check_takes_runs(records: RunRecords, key: str, target: BranchRecord) -> None:
    """Refuse a branch of a run or of a step: its owner would publish what others wrote there.

    Raises:
        InvalidInputError: It is one.
    """
    if not target.fence:
        return
    owner = records.owner_of(target.name)
    whose = "a run" if owner is None else f"run {owner.key!r}"
    raise InvalidInputError(
        f"run {key!r}: into {target.name!r}: that branch belongs to {whose} (attempt "
        f"{target.attempt}), which alone writes to it: publish into a branch of your own"
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
            head = _last_known(stores, record) if record.resumed else record.base
            # one that was deleted and is made again is born by another name
            born = record.fence if record.resumed else record.born
            try:
                stores.refs.branches.create(replace(fresh, commit_id=head, born=born))
            except AlreadyExistsError:
                continue  # made between our look and our write: take it over
        break
    for token in dropped:
        stores.staging.drop(token)


def was_deleted(stores: Stores, record: RunRecord) -> bool:
    """Return whether the branch of the present attempt was there, and somebody deleted it."""
    if stores.refs.branches.find(record.branch) is not None:
        return False
    births = {record.born, record.fence}
    return any(life.born in births for life in stores.refs.moves.lives(record.branch))


def _last_known(stores: Stores, record: RunRecord) -> str:
    """Return where a branch of a resumed run that is not there begins: nothing committed is lost.

    That is where it was deleted, by the log of moves; else where it was parked; else its base.
    """
    deleted = [
        life.moves[-1].commit
        for life in stores.refs.moves.lives(record.branch)
        if life.moves and life.born >= record.born
    ]
    for head in (*deleted, record.head):
        commit = stores.refs.commits.find(head) if head else None
        if commit is None or not _is_of_this_round(commit, record):
            continue
        try:
            stores.refs.expired.check_nameable(head)
        except ExpiredError:
            continue
        return head
    return record.base


def _is_of_this_round(commit: Commit, record: RunRecord) -> bool:
    return (
        commit.metadata.get("graveler.run") == record.key
        and int(commit.metadata.get("graveler.attempt", "0")) >= record.forked
    )


def look_again(stores: Stores, records: RunRecords, record: RunRecord) -> RunRecord:
    """Return the record as it is once the branch is taken.

    Where the run was published or given up between our look and our write, the branch was
    gone, and we made it anew: then it goes again, for nobody will go on from it.
    """
    now = records.get(record.key)
    if now.state in _OVER or now.forked > record.attempt:
        drop_branch(stores, record.branch, up_to=record.attempt)
    return now
