"""The one place that moves or removes a branch: read, change, compare-and-set, repeat."""

from collections.abc import Callable
from dataclasses import replace

from graveler.errors import (
    BackendUnavailableError,
    OutcomeUnknownError,
    PreconditionFailedError,
    RefNotFoundError,
)
from graveler.kv.record_store import changed
from graveler.kv.store import Predicate
from graveler.model import BranchRecord
from graveler.refs.branches import Seen
from graveler.refs.history import is_ancestor
from graveler.refs.refs import Refs
from graveler.retries import retry


def move(
    refs: Refs,
    name: str,
    change: Callable[[BranchRecord], BranchRecord],
    *,
    action: str = "move",
    landed: Callable[[BranchRecord], bool] | None = None,
) -> BranchRecord:
    """Replace the branch record by ``change(record)`` in one atomic step, and return it; see `moved`."""
    return moved(refs, name, change, action=action, landed=landed).record


def moved(  # noqa: PLR0913 - how to read, change and settle
    refs: Refs,
    name: str,
    change: Callable[[BranchRecord], BranchRecord],
    *,
    action: str = "move",
    landed: Callable[[BranchRecord], bool] | None = None,
    read: Callable[[], Seen] | None = None,
    known: Seen | None = None,
) -> Seen:
    """Replace the branch record by ``change(record)`` in one atomic step.

    Args:
        refs: The repository's refs.
        name: The branch.
        change: Makes the new record of the current one. It runs again after a lost race, so
            it must do no harm when repeated; an error that it raises ends the move. If it
            returns the record that it was given, nothing is written.
        action: The action that the log records, if the head changes.
        landed: Returns whether the current record includes the change, for the rare case
            that a reply was lost and another writer has written since.
        read: Returns the present version of the branch, if other records are read with it.
        known: A version for the first try, which may be outdated. The present one is read if
            `change` raises for this one or leaves it as it is.

    Returns:
        The record as written, and its predicate.

    Raises:
        RefNotFoundError: No such branch.
        ThrottledError: 200 races lost in a row.
        OutcomeUnknownError: A reply was lost, and it is unknown whether the change landed.
    """
    present = read or (lambda: refs.branches.get_for_update(name))

    def attempt(number: int) -> Seen | None:
        seen, new = changed(None if number else known, present, change)
        if new is seen.record:
            return seen
        record = seen.record
        # The branch stays the same one, whatever `change` returns: its log continues.
        new = replace(new, born=record.born, moves=record.moves, pages=record.pages)
        try:
            return refs.branches.replace(new, seen.predicate, action=action)
        except PreconditionFailedError:
            return None
        except OutcomeUnknownError as error:
            if landed is None:
                raise
            now = _read_back(refs, name, error)
            return now if landed(now.record) else None

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
        action: The action that the log records.
        landed: Returns, after a lost reply, whether the current record includes the move. None:
            the commit was made for this move, and no branch had it before.

    Returns:
        Whether the branch has the commit; if not, the race was lost and nothing was written.
        After a lost reply, the log or the history decides.

    Raises:
        RefNotFoundError: A reply was lost, and the branch is gone.
    """
    try:
        refs.branches.replace(record, predicate, action=action)
    except PreconditionFailedError:
        return False
    except OutcomeUnknownError as error:
        now = _read_back(refs, record.name, error).record
        if landed is not None:
            return landed(now)
        if any(move.commit == record.commit_id for move in refs.moves.of(now)):
            return True  # even if the branch was moved elsewhere since
        return is_ancestor(refs.commits, record.commit_id, now.commit_id)
    return True


def remove(
    refs: Refs,
    name: str,
    mine: Callable[[BranchRecord], bool],
    *,
    must_exist: bool = False,
    known: Seen | None = None,
) -> tuple[str, ...]:
    """Remove a branch; its commits stay.

    Args:
        refs: The repository's refs.
        name: The branch.
        mine: Returns whether a record may be removed. The removal is atomic with that answer: a
            branch that another process has changed meanwhile stays.
        must_exist: Raise RefNotFoundError if there is no such branch.
        known: A version for the first try, which may be outdated; the caller may remove it.

    Returns:
        The staging tokens of the branch, which no branch names any more; none if it stays.

    Raises:
        ThrottledError: 200 races lost in a row.
    """
    tokens: tuple[str, ...] = ()
    unsure: str | None = None  # the birth of the branch whose removal had no answer

    def attempt(number: int) -> tuple[str, ...] | None:
        nonlocal tokens, unsure
        try:
            first = known if number == 0 else None
            record, predicate = first or refs.branches.get_for_update(name)
        except RefNotFoundError:
            if must_exist and not tokens:
                raise
            return tokens
        if unsure not in {None, record.born}:
            return tokens  # the branch was removed, and this is another one of its name
        if not mine(record):
            return ()
        tokens = (record.staging_token, *record.sealed_tokens)
        try:
            refs.branches.delete(record, predicate)
        except OutcomeUnknownError:
            unsure = record.born
            return None
        except PreconditionFailedError:
            return None
        return tokens

    return retry(refs.clock, refs.ids, f"branch {name!r}", attempt)


def _read_back(refs: Refs, name: str, unknown: OutcomeUnknownError) -> Seen:
    """Return the branch after a lost reply; without an answer the outcome stays unknown."""
    try:
        return refs.branches.get_for_update(name)
    except BackendUnavailableError:
        raise unknown from None
