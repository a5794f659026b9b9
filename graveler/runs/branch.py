"""The branch of a run: taken over by an attempt, frozen for a publish, dropped at the end."""

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

from graveler.errors import (
    AlreadyExistsError,
    ExpiredError,
    FencedError,
    RefNotFoundError,
    StateError,
)
from graveler.kv.record_store import ABSENT_VERSION, Version
from graveler.model import BranchRecord, Change, Commit
from graveler.reads.stores import Stores
from graveler.reads.versions import uncommitted, uncommitted_in
from graveler.refs.branches import check_fence, owned
from graveler.refs.history import is_ancestor
from graveler.refs.mover import move, moved, remove
from graveler.repository.writes import unfinished
from graveler.runs.record import RunHandle, RunRecord

_PARKED = "parked:"


def frozen(fence: str) -> str:
    """Return the fence of a branch whose run is being published, which refuses writes."""
    return f"{fence}:publishing"


def take_branch(
    stores: Stores,
    record: RunRecord,
    *,
    known: Version[Any] | None = None,
    named: Callable[[str], None] | None = None,
) -> None:
    """Take the run's branch for this attempt: create it, or take it over by one compare-and-set.

    Several processes that open the attempt together may call it. The first branch is kept. Commits
    of the present round stay, but not those of a round that was published or abandoned.
    """
    fresh = BranchRecord(
        name=record.branch,
        commit_id=record.base,
        staging_token=stores.ids.unique(),
        attempt=record.attempt,
        fence=record.fence,
        hidden=True,
    )

    def change(branch: BranchRecord) -> BranchRecord:
        if branch.fence in (record.fence, frozen(record.fence)):
            return branch
        if branch.attempt >= record.attempt:
            raise FencedError(
                f"run {record.key!r}: attempt {branch.attempt} was opened or parked while attempt "
                f"{record.attempt} was opening"
            )
        head = stores.refs.commits.get(branch.commit_id)
        resumes = branch.attempt >= record.forked and _is_of_this_round(stores, head, record)
        return replace(fresh, commit_id=head.id) if resumes else fresh

    def made() -> BranchRecord:
        if not record.resumed:
            return replace(fresh, born=record.born)
        # a branch that was deleted and is made again has another birth
        return replace(fresh, commit_id=_last_known(stores, record), born=record.fence)

    missing = known is ABSENT_VERSION
    seen = None if missing else known
    create_or_replace(stores, fresh, made, change, named=named, missing=missing, known=seen)


def create_or_replace(
    stores: Stores,
    mine: BranchRecord,
    made: Callable[[], BranchRecord],
    change: Callable[[BranchRecord], BranchRecord],
    *,
    named: Callable[[str], None] | None,
    missing: bool,
    known: Version[BranchRecord] | None = None,
) -> None:
    """Create a branch, or replace its record, until one of the two succeeds."""
    while True:
        try:
            if missing:
                stores.refs.branches.create(made(), named=named)
            else:
                landed = lambda now: now.fence == mine.fence  # noqa: E731
                replace_branch(stores, mine.name, change, landed=landed, known=known)
        except (AlreadyExistsError, RefNotFoundError) as error:
            missing, known = isinstance(error, RefNotFoundError), None
        else:
            return


def replace_branch(
    stores: Stores,
    name: str,
    change: Callable[[BranchRecord], BranchRecord],
    *,
    landed: Callable[[BranchRecord], bool],
    known: Version[BranchRecord] | None = None,
) -> BranchRecord:
    """Replace the record of a branch and return it; a new staging token drops the staged writes."""
    dropped: tuple[str, ...] = ()

    def changed(branch: BranchRecord) -> BranchRecord:
        nonlocal dropped
        new = change(branch)
        same = new.staging_token == branch.staging_token
        dropped = () if same else (branch.staging_token, *branch.sealed_tokens)
        return new

    now = moved(stores.refs, name, changed, landed=landed, known=known).record
    stores.staging.drop(*dropped)
    return now


def was_deleted(stores: Stores, record: RunRecord) -> bool:
    """Return whether the branch of the present attempt existed and was deleted."""
    if stores.refs.branches.find(record.branch) is not None:
        return False
    births = {record.born, record.fence}
    return any(
        life.born.partition(".")[0] in births for life in stores.refs.moves.lives(record.branch)
    )


def _last_known(stores: Stores, record: RunRecord) -> str:
    """Return the start of the missing branch of a resumed run, so that no commit is lost."""
    deleted = [
        life.moves[-1].commit
        for life in stores.refs.moves.lives(record.branch)
        if life.moves and life.born >= record.born
    ]
    for head in (*deleted, record.head):
        commit = stores.refs.commits.find(head) if head else None
        if commit is None or not _is_of_this_round(stores, commit, record):
            continue
        try:
            stores.refs.expired.check_nameable(head)
        except ExpiredError:
            continue
        return head
    return record.base


def _is_of_this_round(stores: Stores, commit: Commit, record: RunRecord) -> bool:
    return (
        commit.metadata.get("graveler.run") == record.key
        and int(commit.metadata.get("graveler.attempt", "0")) >= record.forked
        # a restored dump has publishes of later attempts than the record counts
        and not is_ancestor(stores.refs.commits, commit.id, record.base)
    )


def head_of(stores: Stores, run: RunHandle, branch: BranchRecord | None) -> Commit:
    """Return the head of the run's branch, as it was read."""
    if branch is None:
        raise FencedError(
            f"run {run.key!r}: its branch is gone, the run is over: it was published or given up; "
            "what is to be written after that needs a run of its own"
        )
    check_fence(branch, run.fence)
    return stores.refs.commits.get(branch.commit_id)


def committed_head(stores: Stores, run: RunHandle) -> Commit:
    """Return the head of the run's branch, which may be frozen; uncommitted writes are refused."""
    branch = stores.refs.branches.find(run.branch)
    if branch is not None and branch.fence == frozen(run.fence):
        branch = replace(branch, fence=run.fence)
    head = head_of(stores, run, branch)
    unfinished.check(stores, run.branch, run.fence)
    _refuse_uncommitted(run, uncommitted(stores, run.branch))
    return head


def _refuse_uncommitted(run: RunHandle, changes: Iterable[Change]) -> None:
    left = next(iter(changes), None)
    if left is not None:
        raise StateError(
            f"run {run.key!r} has writes that are not committed ({left.path!r} is one): "
            "commit them or reset the run, then publish"
        )


def freeze(stores: Stores, run: RunHandle, known: Version[Any] | None = None) -> Commit:
    """Refuse further writes on the run's branch and return its head.

    The head has every acknowledged write. Without the freeze, writes of another process of this
    attempt while the gates run would be acknowledged and then dropped with the branch.

    The staged writes are read once, because after the freeze no write is acknowledged and no commit
    lands. Only a newer attempt can move the branch and drop the staged writes. This attempt then
    publishes nothing.
    """
    unfinished.check(stores, run.branch, run.fence)
    closed = frozen(run.fence)

    def close(branch: BranchRecord) -> BranchRecord:
        if branch.fence == closed:
            return branch
        check_fence(branch, run.fence)
        return replace(branch, fence=closed)

    def reopen(branch: BranchRecord) -> BranchRecord:
        return replace(branch, fence=run.fence) if branch.fence == closed else branch

    with owned(run.branch, run.fence):
        branch = moved(
            stores.refs,
            run.branch,
            close,
            landed=lambda now: now.fence == closed,
            known=known,
        ).record
        try:
            _refuse_uncommitted(run, uncommitted_in(stores, branch))
        except StateError:
            move(stores.refs, run.branch, reopen, landed=lambda now: now.fence != closed)
            raise
    return stores.refs.commits.get(branch.commit_id)


def fence_off(stores: Stores, record: RunRecord) -> str:
    """Drop the staged writes of the run's branch, refuse further writes, and return its head."""

    def change(branch: BranchRecord) -> BranchRecord:
        if branch.attempt > record.attempt:
            raise FencedError(f"run {record.key!r} is at attempt {branch.attempt}, opened since")
        return replace(
            branch,
            staging_token=stores.ids.unique(),
            sealed_tokens=(),
            fence=_PARKED + stores.ids.unique(),
        )

    def landed(now: BranchRecord) -> bool:
        return now.fence.startswith(_PARKED) or now.attempt > record.attempt

    try:
        return replace_branch(stores, record.branch, change, landed=landed).commit_id
    except RefNotFoundError:
        return record.head or record.base  # the branch was never made, or was deleted meanwhile


def drop_branch(stores: Stores, name: str, *, up_to: int) -> None:
    """Delete a run's or a step's branch if it belongs to attempt `up_to` or an earlier one."""
    discard_branch(stores, name, lambda now: bool(now.fence) and now.attempt <= up_to)


def discard_branch(stores: Stores, name: str, mine: Callable[[BranchRecord], bool]) -> None:
    """Delete a branch and its staged writes if its present record is the caller's."""
    known = stores.refs.branches.remembered(name)
    if known is not None and not mine(known.record):
        known = None
    tokens = remove(stores.refs, name, mine, known=known)
    stores.staging.drop(*tokens)


def drop_step_branches(stores: Stores, record: RunRecord, *, up_to: int) -> None:
    """Delete the step branches of attempts up to `up_to`; a step that did not join leaves nothing."""
    for step in list(stores.refs.branches.of_runs(record.branch + ".")):
        drop_branch(stores, step.name, up_to=up_to)


def drop_branches(stores: Stores, record: RunRecord) -> None:
    """Delete all branches of this attempt and of earlier ones, because the run is over."""
    drop_step_branches(stores, record, up_to=record.attempt)
    drop_branch(stores, record.branch, up_to=record.attempt)
