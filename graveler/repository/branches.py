"""Branches: create, delete, reset, hard reset, undo; and deleted tags."""

from dataclasses import replace
from typing import Final

from graveler.errors import (
    AlreadyExistsError,
    FencedError,
    InvalidInputError,
    PreconditionFailedError,
    RefNotFoundError,
)
from graveler.model import BranchRecord, Commit, Move
from graveler.names import check_users_branch
from graveler.publishing.landing import Tip, land
from graveler.publishing.panel import enforce
from graveler.reads.stores import Stores
from graveler.refs import move, moves_ago, remove, resolve_beside, resolve_to_name, tag_moves
from graveler.refs.branches import check_fence, owned
from graveler.refs.settings import PROTECTION
from graveler.repository.merges import refuse_unpublished

_RESET: Final = "reset"
_UNDO: Final = "undo"


def create_branch(
    stores: Stores, name: str, source: str, *, exist_ok: bool, hidden: bool = False
) -> BranchRecord:
    """Create a branch at the commit that `source` names: one write, nothing is copied.

    Raises:
        AlreadyExistsError: The name is taken, and `exist_ok` is not set.
        InvalidInputError: The name is invalid, or reserved for the branch of a run.
        GateFailedError: A gate that branches of the name require refuses its content.
    """
    check_users_branch(name)
    rules_at = stores.refs.settings.place(PROTECTION)
    head, (found,) = resolve_beside(stores.refs, source, rules_at)
    rules = PROTECTION.default if found is None else found.record
    if rules.may_require_gates(name) and stores.refs.branches.find(name) is None:
        enforce(stores, "create", name, head, _first_base(stores, head))
    try:
        return stores.refs.branches.start(name, head.id, hidden=hidden)
    except AlreadyExistsError:
        if not exist_ok:
            raise
        return stores.refs.branches.get(name)


def _first_base(stores: Stores, head: Commit) -> Commit:
    """Return what gates compare the first head of a branch with: the default branch's head.

    Compared with itself, it would hide all that it brings from gates that look at changes.
    """
    default = stores.refs.branches.find(stores.default_branch)
    return head if default is None else stores.refs.commits.get(default.commit_id)


def delete_branch(stores: Stores, name: str) -> None:
    """Remove a branch and what is staged on it; its commits stay.

    Raises:
        RefNotFoundError: No such branch.
        InvalidInputError: It is the repository's default branch.
        FencedError: It belongs to a run: abandon the run.
        ProtectedBranchError: It may not be deleted.
    """
    if name == stores.default_branch:
        raise InvalidInputError(f"branch {name!r} is the default branch: it cannot be deleted")

    def is_users(record: BranchRecord) -> bool:
        if record.fence:
            raise FencedError(f"branch {name!r} belongs to a run: abandon the run instead")
        stores.refs.protection.check(name, "delete")
        return True

    tokens = remove(stores.refs, name, is_users, must_exist=True)
    stores.staging.drop(*tokens)


def reset(stores: Stores, name: str, *, fence: str = "") -> None:
    """Discard what is staged on the branch."""
    dropped: tuple[str, ...] = ()
    token = ""

    def change(record: BranchRecord) -> BranchRecord:
        nonlocal dropped, token
        check_fence(record, fence)
        dropped = (record.staging_token, *record.sealed_tokens)
        token = stores.ids.unique()
        return replace(record, staging_token=token, sealed_tokens=())

    def landed(now: BranchRecord) -> bool:
        # no other process writes this token; if it is gone too, a second reset is harmless
        return token in (now.staging_token, *now.sealed_tokens)

    with owned(name, fence):
        move(stores.refs, name, change, landed=landed)
    stores.staging.drop(*dropped)


def reset_hard(stores: Stores, name: str, to: str) -> Commit:
    """Put the branch at the commit that `to` names and discard what is staged, in one step.

    The step replaces the live token as well: a write that was acknowledged before it is gone
    with it, and a writer that looks at the branch after it writes again.

    Args:
        stores: The repository.
        name: The branch.
        to: A ref expression, resolved against the branch as it is when it moves.

    Raises:
        ProtectedBranchError: The branch may not be moved so.
        FencedError: The branch belongs to a run.
        RunStateError: The commit is work of a run that was not published.
        GateFailedError: A gate that the branch requires refuses; it did not move.
    """
    token = ""
    latest: Move | None = None
    target: Commit | None = None

    def build(tip: Tip) -> BranchRecord:
        nonlocal token, latest, target
        latest = _latest(tip.record)
        target = resolve_to_name(stores.refs, to)
        refuse_unpublished(stores, target, tip.head)
        token = stores.ids.unique()
        return replace(tip.at(target), staging_token=token, sealed_tokens=())

    def landed(now: BranchRecord) -> bool:
        # the log decides, whatever others did since; if the head stayed, the token does
        return token in (now.staging_token, *now.sealed_tokens) or (
            target is not None and _has_moved(now, latest, _RESET, target.id)
        )

    result = land(stores, name, _RESET, build, guard="reset", landed=landed)
    stores.staging.drop(result.tip.record.staging_token, *result.tip.record.sealed_tokens)
    return result.head


def _latest(record: BranchRecord) -> Move | None:
    return record.moves[-1] if record.moves else None


def _has_moved(now: BranchRecord, latest: Move | None, action: str, commit_id: str) -> bool:
    """Return whether the log has such a move after the move `latest`."""
    since = now.moves.index(latest) + 1 if latest in now.moves else 0
    return any((move.action, move.commit) == (action, commit_id) for move in now.moves[since:])


def undo(stores: Stores, name: str, to: int) -> Commit:
    """Put the branch where it was `to` moves ago; create it there if it was deleted.

    The log of moves records where the branch was. An undo is a move too and stands in the log, so
    that the next undo reverses it.

    What is staged stays staged. What was staged when the branch was deleted is lost.

    Raises:
        RefNotFoundError: The log does not go back that far, or the branch did not exist then.
        PreconditionFailedError: The branch moved meanwhile, and stays as it is.
        FencedError: The branch is or was a run's.
        ProtectedBranchError: The branch may not be moved so.
        GateFailedError: A gate that the branch requires refuses; it did not move.
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
    enforce(stores, _UNDO, name, target, _first_base(stores, target))
    try:
        stores.refs.branches.start(name, target.id, hidden=life.hidden, action=_UNDO)
    except AlreadyExistsError:
        raise PreconditionFailedError(
            f"undo of {name!r}: a branch of that name was made meanwhile; it stays as it is"
        ) from None
    return target


def undelete_tag(stores: Stores, name: str) -> Commit:
    """Restore a deleted tag, for the commit that it named last.

    Raises:
        RefNotFoundError: The log has no such tag.
        AlreadyExistsError: There is a tag of that name.
    """
    line = next(tag_moves(stores.refs, name), None)
    if line is None:
        raise RefNotFoundError(f"no tag {name!r}, and none is in the log of moves")
    if line.before is None:
        raise AlreadyExistsError(f"tag {name!r} was not deleted: it names commit {line.after}")
    commit = stores.refs.commits.get(line.before)
    stores.refs.expired.check_nameable(commit.id)
    stores.refs.tags.create(name, commit.id, action=_UNDO)
    return commit
