"""The one place that moves a branch: read, change, compare-and-set, repeat."""

from collections.abc import Callable
from dataclasses import replace
from typing import Final

from graveler.clock import Clock, IdSource
from graveler.errors import OutcomeUnknownError, PreconditionFailedError, ThrottledError
from graveler.kv.store import Predicate
from graveler.model import BranchRecord
from graveler.refs.history import is_ancestor
from graveler.refs.refs import Refs

__all__ = ["advance", "backoff", "move"]

ATTEMPTS: Final = 200
_FIRST_WAIT_S: Final = 0.001
_LONGEST_WAIT_S: Final = 0.1


def backoff(clock: Clock, ids: IdSource, attempt: int) -> None:
    """Wait before try `attempt` + 1: full jitter under a bound that doubles up to 0.1 s."""
    clock.sleep(ids.jitter() * min(_LONGEST_WAIT_S, _FIRST_WAIT_S * 2 ** min(attempt, 10)))


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
    for attempt in range(ATTEMPTS):
        record, predicate = refs.branches.get_for_update(name)
        new = change(record)
        if new is record:
            return record
        # whatever the change made of the record, it is the same branch: its log goes on
        new = replace(new, born=record.born, moves=record.moves, pages=record.pages)
        try:
            return refs.branches.replace(new, predicate, action=action)
        except PreconditionFailedError:
            backoff(refs.clock, refs.ids, attempt)
        except OutcomeUnknownError:
            if landed is None:
                raise
            now = refs.branches.get(name)
            if landed(now):
                return now
    raise ThrottledError(f"branch {name!r} is busy: lost {ATTEMPTS} races; try again")


def advance(refs: Refs, record: BranchRecord, predicate: Predicate, *, action: str) -> bool:
    """Move a branch to a commit made for it, if it is as `predicate` says.

    Args:
        refs: The repository's refs.
        record: The record with the new head, a commit that no branch had before.
        predicate: Of the record it replaces.
        action: What the log says of it.

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
    except OutcomeUnknownError:
        now = refs.branches.get(record.name)
        if any(move.commit == record.commit_id for move in refs.moves.of(now)):
            return True  # also where the branch was moved elsewhere since
        return is_ancestor(refs.commits, record.commit_id, now.commit_id)
    return True
