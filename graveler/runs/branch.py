"""The branch of a run: taken over by an attempt, frozen for a publish, dropped at the end."""

from dataclasses import replace

from graveler.errors import AlreadyExistsError, ExpiredError, FencedError, RefNotFoundError
from graveler.model import BranchRecord, Commit
from graveler.reads.stores import Stores
from graveler.refs import move, remove
from graveler.runs.record import RunRecord


def frozen(fence: str) -> str:
    """Return the fence of a branch whose run is being published, which refuses writes."""
    return f"{fence}:publishing"


def take_branch(stores: Stores, record: RunRecord) -> None:
    """Make the run's branch this attempt's: by creation, or by one compare-and-set.

    Several processes that open the attempt together may call it; the first branch is kept.
    Commits of the present round stay, those of a round that was published or abandoned do not.

    Raises:
        FencedError: A newer attempt has the branch, or this attempt was parked meanwhile.
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
            # a branch that was deleted and is made again has another birth
            born = record.fence if record.resumed else record.born
            try:
                stores.refs.branches.create(replace(fresh, commit_id=head, born=born))
            except AlreadyExistsError:
                continue  # made between our read and our write: take it over
        break
    stores.staging.drop(*dropped)


def was_deleted(stores: Stores, record: RunRecord) -> bool:
    """Return whether the branch of the present attempt existed and was deleted."""
    if stores.refs.branches.find(record.branch) is not None:
        return False
    births = {record.born, record.fence}
    return any(life.born in births for life in stores.refs.moves.lives(record.branch))


def _last_known(stores: Stores, record: RunRecord) -> str:
    """Return the start of the missing branch of a resumed run, so that no commit is lost.

    That is the commit at which it was deleted, by the log of moves; else the commit at which the
    run was parked; else its base.
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


def drop_branch(stores: Stores, name: str, *, up_to: int) -> None:
    """Delete a run's or a step's branch if it belongs to attempt `up_to` or an earlier one."""
    tokens = remove(
        stores.refs, name, lambda record: bool(record.fence) and record.attempt <= up_to
    )
    stores.staging.drop(*tokens)


def drop_step_branches(stores: Stores, record: RunRecord, *, up_to: int) -> None:
    """Delete the step branches of those attempts; a step that did not join leaves nothing."""
    prefix = record.branch + "."
    for name in [there.name for there in stores.refs.branches.of_runs(prefix)]:
        drop_branch(stores, name, up_to=up_to)


def drop_branches(stores: Stores, record: RunRecord) -> None:
    """Delete all branches of this attempt and of earlier ones, because the run is over."""
    drop_step_branches(stores, record, up_to=record.attempt)
    drop_branch(stores, record.branch, up_to=record.attempt)
