"""Creating and deleting branches, undo, and restoring deleted tags."""

from collections.abc import Callable
from dataclasses import replace
from datetime import datetime, timedelta

from graveler.base.names import check_users_branch
from graveler.errors import (
    AlreadyExistsError,
    FencedError,
    InvalidInputError,
    PreconditionFailedError,
    RefNotFoundError,
)
from graveler.model import BranchRecord, Commit, Dropped
from graveler.publishing.landing import Tip, land
from graveler.reads.stores import Stores
from graveler.refs.branches import check_fence
from graveler.refs.expression import resolve_beside
from graveler.refs.mover import move, remove
from graveler.refs.moves import UNDONE, number_of_moves
from graveler.refs.reflog import moves_ago, tag_moves
from graveler.refs.settings import PROTECTION
from graveler.repository.resets import has_moved, latest_move, staged_again
from graveler.repository.writes import unfinished
from graveler.repository.writes.borrowed import holding


def create_branch(
    stores: Stores,
    name: str,
    source: str,
    *,
    exist_ok: bool,
    hidden: bool = False,
    ttl: timedelta | None = None,
) -> BranchRecord:
    """Create a branch at the commit of `source`. This is one write, and nothing is copied."""
    check_users_branch(name)
    rules_at = stores.refs.settings.place(PROTECTION)
    head, (found,) = resolve_beside(stores.refs, source, rules_at)
    if PROTECTION.of(found).may_require_gates(name) and stores.refs.branches.find(name) is None:
        from graveler.publishing.panel import enforce

        enforce(stores, "create", name, head, first_base(stores, head))
    try:
        ends = _end(stores, ttl)
        return stores.refs.branches.start(name, head.id, hidden=hidden, ends=ends)
    except AlreadyExistsError:
        if not exist_ok:
            raise
        return stores.refs.branches.get(name)


def first_base(stores: Stores, head: Commit) -> Commit:
    """Return the commit with which gates compare the first head: the head of the default branch.

    A comparison of the first head with itself would hide its content from gates that check changes.
    """
    default = stores.refs.branches.find(stores.default_branch)
    return head if default is None else stores.refs.commits.get(default.commit_id)


def _end(stores: Stores, ttl: timedelta | None) -> datetime | None:
    return None if ttl is None else stores.clock.now() + ttl


def expire_branch(stores: Stores, name: str, ttl: timedelta | None) -> BranchRecord:
    """Move the end of a branch to a time from now, or take it away."""
    if name == stores.default_branch and ttl is not None:
        raise InvalidInputError(f"branch {name!r} is the default branch: it does not end")
    ends = _end(stores, ttl)

    def change(record: BranchRecord) -> BranchRecord:
        check_fence(record, "")
        return record if record.ends == ends else replace(record, ends=ends)

    return move(stores.refs, name, change, landed=lambda now: now.ends == ends)


def delete_branch(
    stores: Stores, name: str, *, unless: Callable[[BranchRecord], str] = lambda _: ""
) -> str:
    """Remove a branch. Its commits stay, and its staged writes until garbage is collected.

    Args:
        unless: Returns a reason for which the branch stays, "" for none.

    Returns:
        The reason for which it stays, or "".
    """
    reason = ""
    if name == stores.default_branch:
        raise InvalidInputError(f"branch {name!r} is the default branch: it cannot be deleted")

    def is_users(record: BranchRecord) -> bool:
        if record.fence:
            raise FencedError(f"branch {name!r} belongs to a run: abandon the run instead")
        nonlocal reason
        reason = unless(record)
        if not reason:
            stores.refs.protection.check(name, "delete")
        return not reason

    remove(stores.refs, name, is_users, must_exist=True)
    if not reason:
        unfinished.settle(stores, name, "")
    return reason


def undo(stores: Stores, name: str, to: int) -> Commit:
    """Move the branch to its commit of `to` moves ago. A deleted branch is created there.

    The log of moves has the earlier commits of the branch. An undo is also a move in the log, so
    the next undo reverses it.

    Staged writes stay staged. Those that resets among these moves dropped are staged again, beneath
    them, and so are those of a deleted branch, until garbage collection has removed them.
    """
    if to < 1:
        raise InvalidInputError(f"undo of {name!r} to {to}: give how many moves ago, from 1")
    record = stores.refs.branches.find(name)
    commit_id = moves_ago(stores.refs, name, to)
    if commit_id is None:
        raise RefNotFoundError(
            f"undo of {name!r}: it did not exist {to} {'move' if to == 1 else 'moves'} ago: choose another "
            f"line of `graveler reflog {name}` with --to"
        )
    target = stores.refs.commits.get(commit_id)
    stores.refs.expired.check_nameable(target.id)
    if record is None:
        return _undelete(stores, name, target)
    latest = latest_move(record)
    since = number_of_moves(record) - to
    dropped = [each for each in reversed(record.dropped) if each.move >= since]

    def build(tip: Tip) -> BranchRecord | None:
        if (tip.record.born, latest_move(tip.record)) != (record.born, latest):
            raise PreconditionFailedError(
                f"undo of {name!r}: the branch was moved meanwhile and stays where it is; "
                f"look at `graveler reflog {name}`, then try again"
            )
        back = staged_again(stores, tip.record, tip.head, dropped, hold)
        if back is tip.record and tip.head.id == target.id:
            return None
        return replace(back, commit_id=target.id)

    def landed(now: BranchRecord) -> bool:
        return has_moved(now, latest, UNDONE, target.id)

    with holding(stores) as hold:
        land(stores, name, UNDONE, build, guard="reset", landed=landed)
        hold.token = ""  # the token now belongs to the branch
    return target


def _undelete(stores: Stores, name: str, target: Commit) -> Commit:
    life = next(stores.refs.moves.lives(name))
    if life.run:
        raise FencedError(
            f"undo of {name!r}: the branch was a run's: open the run again, or make a branch of "
            f"your own from commit {target.id[:12]}"
        )
    from graveler.publishing.panel import enforce

    enforce(stores, UNDONE, name, target, first_base(stores, target))
    staged = [Dropped(0, 0, life.staged)]
    try:
        with holding(stores) as hold:
            empty = BranchRecord(name, target.id, stores.ids.unique())
            sealed = staged_again(stores, empty, target, staged, hold).sealed_tokens
            fields = {"hidden": life.hidden, "sealed_tokens": sealed}
            stores.refs.branches.start(name, target.id, action=UNDONE, **fields)
            hold.token = ""  # the token now belongs to the branch
    except AlreadyExistsError:
        raise PreconditionFailedError(
            f"undo of {name!r}: a branch of that name was made meanwhile; it stays as it is"
        ) from None
    return target


def undelete_tag(stores: Stores, name: str) -> Commit:
    """Restore a deleted tag with the commit that it last named."""
    line = next(tag_moves(stores.refs, name), None)
    if line is None:
        raise RefNotFoundError(f"no tag {name!r}, and none is in the log of moves")
    if line.before is None:
        raise AlreadyExistsError(f"tag {name!r} was not deleted: it names commit {line.after}")
    commit = stores.refs.commits.get(line.before)
    stores.refs.expired.check_nameable(commit.id)
    stores.refs.tags.create(name, commit.id, action=UNDONE)
    return commit
