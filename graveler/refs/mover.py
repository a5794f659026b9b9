"""The one place that moves a branch: read, change, compare-and-set, repeat."""

from collections.abc import Callable
from dataclasses import replace

from graveler.errors import (
    BackendUnavailableError,
    OutcomeUnknownError,
    PreconditionFailedError,
)
from graveler.kv.store import Predicate
from graveler.model import BranchRecord
from graveler.refs.history import is_ancestor
from graveler.refs.refs import Refs
from graveler.retries import retry

__all__ = ["advance", "move"]


def move(
    refs: Refs,
    name: str,
    change: Callable[[BranchRecord], BranchRecord],
    *,
    action: str = "move",
    landed: Callable[[BranchRecord], bool] | None = None,
) -> BranchRecord:
    """Replace the branch record by ``change(record)`` in one atomic step.

    Args:
        refs: The repository's refs.
        name: The branch.
        change: Makes the new record from the present one. Runs again after a lost race, so
            it must do no harm when repeated; what it raises ends the move. Returning the
            record it was given ends the move with nothing written.
        action: What the log says of it, if the head becomes another one.
        landed: Says of the present record whether our change is in it, for the rare case
            that a reply was lost and somebody else wrote since.

    Returns:
        The record as written.

    Raises:
        RefNotFoundError: No such branch.
        ThrottledError: 200 races lost in a row.
        OutcomeUnknownError: A reply was lost and nothing tells whether the change landed.
    """

    def attempt(_number: int) -> BranchRecord | None:
        record, predicate = refs.branches.get_for_update(name)
        new = change(record)
        if new is record:
            return record
        # whatever the change made of the record, it is the same branch: its log goes on
        new = replace(new, born=record.born, moves=record.moves, pages=record.pages)
        try:
            return refs.branches.replace(new, predicate, action=action)
        except PreconditionFailedError:
            return None
        except OutcomeUnknownError as error:
            if landed is None:
                raise
            now = _read_back(refs, name, error)
            return now if landed(now) else None

    return retry(refs.clock, refs.ids, f"branch {name!r}", attempt)


def advance(
    refs: Refs,
    record: BranchRecord,
    predicate: Predicate,
    *,
    action: str,
    landed: Callable[[BranchRecord], bool] | None = None,
) -> bool:
    """Move a branch to a commit, if it is as `predicate` says.

    Args:
        refs: The repository's refs.
        record: The record with the new head.
        predicate: Of the record it replaces.
        action: What the log says of it.
        landed: Says of the present record, after a lost reply, whether the move is in it. Without
            one the commit is made for this move: no branch had it before.

    Returns:
        Whether the commit is in; if not, the race was lost and nothing was written. After a
        lost reply, the log or history tells.

    Raises:
        RefNotFoundError: A reply was lost, and the branch is gone.
    """
    try:
        refs.branches.replace(record, predicate, action=action)
    except PreconditionFailedError:
        return False
    except OutcomeUnknownError as error:
        now = _read_back(refs, record.name, error)
        if landed is not None:
            return landed(now)
        if any(move.commit == record.commit_id for move in refs.moves.of(now)):
            return True  # also where the branch was moved elsewhere since
        return is_ancestor(refs.commits, record.commit_id, now.commit_id)
    return True


def _read_back(refs: Refs, name: str, unknown: OutcomeUnknownError) -> BranchRecord:
    """Return the branch after a lost reply; without an answer the outcome stays unknown."""
    try:
        return refs.branches.get(name)
    except BackendUnavailableError:
        raise unknown from None
