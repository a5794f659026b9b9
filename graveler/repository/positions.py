"""Creating, deleting and resetting branches, undo, and restoring deleted tags."""

from dataclasses import replace

from graveler.base.names import check_users_branch
from graveler.errors import (
    AlreadyExistsError,
    FencedError,
    InvalidInputError,
    PreconditionFailedError,
    RefNotFoundError,
)
from graveler.model import BranchRecord, Commit, Move
from graveler.publishing.landing import Tip, land
from graveler.publishing.panel import enforce
from graveler.reads.stores import Stores
from graveler.refs.branches import check_fence, owned
from graveler.refs.expression import resolve_beside, resolve_to_name
from graveler.refs.mover import move, remove
from graveler.refs.reflog import moves_ago, tag_moves
from graveler.refs.settings import PROTECTION
from graveler.repository.origins import refuse_removed, refuse_unpublished
from graveler.repository.writes import unfinished

_RESET = "reset"
_UNDO = "undo"


def create_branch(
    stores: Stores, name: str, source: str, *, exist_ok: bool, hidden: bool = False
) -> BranchRecord:
    """Create a branch at the commit of `source`. This is one write, and nothing is copied."""
    check_users_branch(name)
    rules_at = stores.refs.settings.place(PROTECTION)
    head, (found,) = resolve_beside(stores.refs, source, rules_at)
    if PROTECTION.of(found).may_require_gates(name) and stores.refs.branches.find(name) is None:
        enforce(stores, "create", name, head, first_base(stores, head))
    try:
        return stores.refs.branches.start(name, head.id, hidden=hidden)
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


def delete_branch(stores: Stores, name: str) -> None:
    """Remove a branch and its staged writes. Its commits stay."""
    if name == stores.default_branch:
        raise InvalidInputError(f"branch {name!r} is the default branch: it cannot be deleted")

    def is_users(record: BranchRecord) -> bool:
        if record.fence:
            raise FencedError(f"branch {name!r} belongs to a run: abandon the run instead")
        stores.refs.protection.check(name, "delete")
        return True

    tokens = remove(stores.refs, name, is_users, must_exist=True)
    stores.staging.drop(*tokens)
    unfinished.settle(stores, name, "")


def reset(stores: Stores, name: str, *, fence: str = "") -> None:
    """Discard the staged writes of the branch."""
    dropped: tuple[str, ...] = ()
    token = ""

    def change(record: BranchRecord) -> BranchRecord:
        nonlocal dropped, token
        check_fence(record, fence)
        dropped = (record.staging_token, *record.sealed_tokens)
        token = stores.ids.unique()
        return replace(record, staging_token=token, sealed_tokens=())

    def landed(now: BranchRecord) -> bool:
        # only this reset writes this token. If the token is gone too, a second reset is harmless
        return token in (now.staging_token, *now.sealed_tokens)

    with owned(name, fence):
        move(stores.refs, name, change, landed=landed)
    stores.staging.drop(*dropped)
    unfinished.settle(stores, name, fence)


def reset_hard(stores: Stores, name: str, to: str) -> Commit:
    """Move the branch to the commit of `to` and discard the staged writes, in one step.

    The step also replaces the live token. Writes that were acknowledged before it are discarded. A
    writer that checks the branch after it repeats its write.

    Args:
        to: A ref expression, resolved against the state of the branch at the time of the move.
    """
    token = ""
    latest: Move | None = None
    target: Commit | None = None

    def build(tip: Tip) -> BranchRecord:
        nonlocal token, latest, target
        latest = _latest(tip.record)
        target = resolve_to_name(stores.refs, to)
        refuse_unpublished(stores, target, tip.head)
        refuse_removed(stores, target, tip.head)
        token = stores.ids.unique()
        return replace(tip.at(target), staging_token=token, sealed_tokens=())

    def landed(now: BranchRecord) -> bool:
        # the log decides, independent of later moves. If the head stayed, the token decides
        return token in (now.staging_token, *now.sealed_tokens) or (
            target is not None and _has_moved(now, latest, _RESET, target.id)
        )

    result = land(stores, name, _RESET, build, guard="reset", landed=landed)
    stores.staging.drop(result.tip.record.staging_token, *result.tip.record.sealed_tokens)
    unfinished.settle(stores, name, "")
    return result.head


def _latest(record: BranchRecord) -> Move | None:
    return record.moves[-1] if record.moves else None


def _has_moved(now: BranchRecord, latest: Move | None, action: str, commit_id: str) -> bool:
    """Return whether the log has a move with this action and commit after the move `latest`."""
    since = now.moves.index(latest) + 1 if latest in now.moves else 0
    return any((move.action, move.commit) == (action, commit_id) for move in now.moves[since:])


def undo(stores: Stores, name: str, to: int) -> Commit:
    """Move the branch to its commit of `to` moves ago. A deleted branch is created there.

    The log of moves has the earlier commits of the branch. An undo is also a move in the log, so
    the next undo reverses it.

    Staged writes stay staged. Staged writes of a deleted branch are lost.
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
    latest = _latest(record)

    def build(tip: Tip) -> BranchRecord | None:
        if (tip.record.born, _latest(tip.record)) != (record.born, latest):
            raise PreconditionFailedError(
                f"undo of {name!r}: the branch was moved meanwhile and stays where it is; "
                f"look at `graveler reflog {name}`, then try again"
            )
        return None if tip.head.id == target.id else tip.at(target)

    def landed(now: BranchRecord) -> bool:
        return _has_moved(now, latest, _UNDO, target.id)

    land(stores, name, _UNDO, build, guard="reset", landed=landed)
    return target


def _undelete(stores: Stores, name: str, target: Commit) -> Commit:
    life = next(stores.refs.moves.lives(name))
    if life.run:
        raise FencedError(
            f"undo of {name!r}: the branch was a run's: open the run again, or make a branch of "
            f"your own from commit {target.id[:12]}"
        )
    enforce(stores, _UNDO, name, target, first_base(stores, target))
    try:
        stores.refs.branches.start(name, target.id, hidden=life.hidden, action=_UNDO)
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
    stores.refs.tags.create(name, commit.id, action=_UNDO)
    return commit
