"""Hard reset: a branch is put at another commit, and what is staged on it goes."""

from dataclasses import replace
from typing import Final

from graveler.errors import InternalError
from graveler.model import BranchRecord, Commit, Move
from graveler.refs import move, resolve_to_name
from graveler.repository.merging import refuse_unpublished
from graveler.repository.stores import Stores
from graveler.repository.writing import check_fence

__all__ = ["reset_hard"]

_ACTION: Final = "reset"


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
    refs = stores.refs
    refs.protection.check(name, "reset")
    dropped: tuple[str, ...] = ()
    token = ""
    seen: Move | None = None
    target: Commit | None = None

    def change(record: BranchRecord) -> BranchRecord:
        nonlocal dropped, token, seen, target
        check_fence(record, "")
        seen = record.moves[-1] if record.moves else None
        target = resolve_to_name(refs, to)
        head = refs.commits.get(record.commit_id)
        refuse_unpublished(stores, target, head)
        if target.id != head.id:
            stores.ask_gates(_ACTION, name, target, head)
        dropped = (record.staging_token, *record.sealed_tokens)
        token = stores.ids.unique()
        return replace(record, commit_id=target.id, staging_token=token, sealed_tokens=())

    def landed(now: BranchRecord) -> bool:
        # the log tells, whatever others did since; where the head stayed, our token does
        since = now.moves.index(seen) + 1 if seen in now.moves else 0
        return token in (now.staging_token, *now.sealed_tokens) or any(
            target is not None and (later.action, later.commit) == (_ACTION, target.id)
            for later in now.moves[since:]
        )

    move(refs, name, change, action=_ACTION, landed=landed)
    for old in dropped:
        stores.staging.drop(old)
    if target is None:
        raise InternalError(f"branch {name!r} was reset to nothing")
    return target
