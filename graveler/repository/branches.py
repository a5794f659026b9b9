"""Branches: create, reset, hard reset, delete."""

from dataclasses import replace
from typing import Final

from graveler.errors import (
    AlreadyExistsError,
    FencedError,
    InvalidInputError,
)
from graveler.model import BranchRecord, Commit, Move
from graveler.names import check_users_branch
from graveler.publishing.landing import Tip, land
from graveler.publishing.panel import enforce
from graveler.reads.stores import Stores
from graveler.refs import move, remove, resolve_to_name
from graveler.refs.branches import check_fence, owned
from graveler.repository.merge.merges import refuse_unpublished

_ATTEMPTS: Final = 200
_RESET: Final = "reset"


def create_branch(
    stores: Stores, name: str, source: str, *, exist_ok: bool, hidden: bool = False
) -> BranchRecord:
    """Create a branch at the commit that `source` names: one write, nothing is copied.

    Raises:
        AlreadyExistsError: The name is taken, and `exist_ok` is not set.
        InvalidInputError: The name is invalid, or reserved for the branch of a run.
        GateFailedError: A gate that branches of the name require refuses what it would hold.
    """
    check_users_branch(name)
    head = resolve_to_name(stores.refs, source)
    if stores.refs.protection.may_require_gates(name) and stores.refs.branches.find(name) is None:
        enforce(stores, "create", name, head, begun_from(stores, head))
    try:
        return stores.refs.branches.create(
            BranchRecord(
                name=name,
                commit_id=head.id,
                staging_token=stores.ids.unique(),
                hidden=hidden,
            )
        )
    except AlreadyExistsError:
        if not exist_ok:
            raise
        return stores.refs.branches.get(name)


def begun_from(stores: Stores, head: Commit) -> Commit:
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
        # nobody else writes this token; where it is gone too, resetting again is as good
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
    seen: Move | None = None
    target: Commit | None = None

    def build(tip: Tip) -> BranchRecord:
        nonlocal token, seen, target
        seen = tip.record.moves[-1] if tip.record.moves else None
        target = resolve_to_name(stores.refs, to)
        refuse_unpublished(stores, target, tip.head)
        token = stores.ids.unique()
        return replace(tip.at(target), staging_token=token, sealed_tokens=())

    def landed(now: BranchRecord) -> bool:
        # the log tells, whatever others did since; where the head stayed, our token does
        since = now.moves.index(seen) + 1 if seen in now.moves else 0
        return token in (now.staging_token, *now.sealed_tokens) or any(
            target is not None and (later.action, later.commit) == (_RESET, target.id)
            for later in now.moves[since:]
        )

    done = land(stores, name, _RESET, build, guard="reset", landed=landed)
    stores.staging.drop(done.tip.record.staging_token, *done.tip.record.sealed_tokens)
    return done.commit or done.tip.head
