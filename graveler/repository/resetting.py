"""Hard reset: a branch is put at another commit, and what is staged on it goes."""

from dataclasses import replace
from typing import Final

from graveler.model import BranchRecord, Commit, Move
from graveler.refs import resolve_to_name
from graveler.repository.landing import Tip, land
from graveler.repository.merging import refuse_unpublished
from graveler.repository.stores import Stores

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
            target is not None and (later.action, later.commit) == (_ACTION, target.id)
            for later in now.moves[since:]
        )

    done = land(stores, name, _ACTION, build, guard="reset", landed=landed)
    for old in (done.tip.record.staging_token, *done.tip.record.sealed_tokens):
        stores.staging.drop(old)
    return done.commit or done.tip.head
