"""Hard reset: a branch is put at another commit, and what is staged on it goes."""

from dataclasses import replace

from graveler.model import BranchRecord, Commit
from graveler.refs import move, resolve_to_name
from graveler.repository.merging import refuse_unpublished
from graveler.repository.stores import Stores
from graveler.repository.writing import check_fence

__all__ = ["reset_hard"]


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
    """
    refs = stores.refs
    refs.protection.check(name, "reset")
    dropped: tuple[str, ...] = ()
    token = ""

    def change(record: BranchRecord) -> BranchRecord:
        nonlocal dropped, token
        check_fence(record, "")
        target = resolve_to_name(refs, to)
        refuse_unpublished(stores, target, refs.commits.get(record.commit_id))
        dropped = (record.staging_token, *record.sealed_tokens)
        token = stores.ids.unique()
        return replace(record, commit_id=target.id, staging_token=token, sealed_tokens=())

    def landed(now: BranchRecord) -> bool:
        # nobody else writes this token; where it is gone too, resetting again is as good
        return token in (now.staging_token, *now.sealed_tokens)

    record = move(refs, name, change, action="reset", landed=landed)
    for old in dropped:
        stores.staging.drop(old)
    return refs.commits.get(record.commit_id)
