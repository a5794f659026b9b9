"""Making, resetting and deleting branches."""

from dataclasses import replace

from graveler.errors import AlreadyExistsError, FencedError, InvalidInputError
from graveler.model import BranchRecord
from graveler.refs import move, resolve
from graveler.repository.stores import Stores
from graveler.repository.writing import check_fence, owned

__all__ = ["create_branch", "delete_branch", "reset"]


def create_branch(stores: Stores, name: str, source: str, *, exist_ok: bool) -> BranchRecord:
    """Make a branch whose head is what `source` names; costs one write, copies nothing.

    Raises:
        AlreadyExistsError: The name is taken, and `exist_ok` is not set.
    """
    head = resolve(stores.refs, source)
    try:
        return stores.refs.branches.create(
            BranchRecord(name=name, commit_id=head.id, staging_token=stores.ids.unique())
        )
    except AlreadyExistsError:
        if not exist_ok:
            raise
        return stores.refs.branches.get(name)


def delete_branch(stores: Stores, name: str) -> None:
    """Remove a branch and what is staged on it; its commits stay.

    Raises:
        InvalidInputError: It is the repository's default branch.
        FencedError: It belongs to a run: abandon the run.
    """
    if name == stores.default_branch:
        raise InvalidInputError(f"branch {name!r} is the default branch: it cannot be deleted")
    record = stores.refs.branches.get(name)
    if record.fence:
        raise FencedError(f"branch {name!r} belongs to a run: abandon the run instead")
    stores.refs.branches.delete(name)
    for token in (record.staging_token, *record.sealed_tokens):
        stores.staging.drop(token)


def reset(stores: Stores, name: str, *, fence: str = "") -> None:
    """Discard what is staged on the branch."""
    dropped: tuple[str, ...] = ()

    def change(record: BranchRecord) -> BranchRecord:
        nonlocal dropped
        check_fence(record, fence)
        dropped = (record.staging_token, *record.sealed_tokens)
        return replace(record, staging_token=stores.ids.unique(), sealed_tokens=())

    with owned(name, fence):
        move(stores.refs, name, change, landed=lambda now: now.staging_token not in dropped)
    for token in dropped:
        stores.staging.drop(token)
