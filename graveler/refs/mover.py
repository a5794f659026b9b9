"""Moving and removing a branch: read, change, compare-and-set, repeat."""

from collections.abc import Callable
from dataclasses import replace

from graveler.base.retries import retry
from graveler.errors import (
    BackendUnavailableError,
    OutcomeUnknownError,
    PreconditionFailedError,
    RefNotFoundError,
)
from graveler.kv.record_store import Version, changed
from graveler.kv.store import Predicate
from graveler.model import BranchRecord
from graveler.refs.history import is_ancestor
from graveler.refs.refs import Refs


def move(
    refs: Refs,
    name: str,
    change: Callable[[BranchRecord], BranchRecord],
    *,
    action: str = "move",
    landed: Callable[[BranchRecord], bool] | None = None,
) -> BranchRecord:
    """Replace the branch record by ``change(record)`` atomically, and return it. See `moved`."""
    return moved(refs, name, change, action=action, landed=landed).record


def moved(
    refs: Refs,
    name: str,
    change: Callable[[BranchRecord], BranchRecord],
    *,
    action: str = "move",
    landed: Callable[[BranchRecord], bool] | None = None,
    read: Callable[[], Version[BranchRecord]] | None = None,
    known: Version[BranchRecord] | None = None,
) -> Version[BranchRecord]:
    """Replace the branch record by ``change(record)`` in one atomic step.

    Args:
        change: Returns the new record for the current one. It runs again after a lost race, so it
            must be safe to repeat. An error that it raises ends the move. If it returns its
            argument, nothing is written.
        landed: Returns whether the current record includes the change, for the rare case that a
            reply was lost and another writer has written since.
        known: A version for the first attempt, which may be outdated. The current version is read
            if `change` raises for it or returns it unchanged.
    """
    present = read or (lambda: refs.branches.get_for_update(name))

    def attempt(number: int) -> Version[BranchRecord] | None:
        seen, new = changed(None if number else known, present, change)
        if new is seen.record:
            return seen
        record = seen.record
        # the identity of the branch stays for any result of `change`: its log continues
        new = replace(
            new, born=record.born, moves=record.moves, pages=record.pages, rewound=record.rewound
        )
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
    """Move a branch to a commit, if it matches `predicate`.

    Args:
        landed: Returns, after a lost reply, whether the current record includes the move. None
            means that the commit was made for this move, and no branch had it before.

    Returns:
        Whether the branch has the commit. If not, the race was lost and nothing was written.
        After a lost reply, the log or the history decides.
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
            return True  # even if the branch has moved again since
        return is_ancestor(refs.commits, record.commit_id, now.commit_id)
    return True


def remove(
    refs: Refs,
    name: str,
    mine: Callable[[BranchRecord], bool],
    *,
    must_exist: bool = False,
    known: Version[BranchRecord] | None = None,
) -> tuple[str, ...]:
    """Remove a branch. Its commits stay.

    Args:
        mine: Returns whether a record may be removed. The removal is atomic with this check: a
            branch that another process has changed meanwhile stays.
        known: A version for the first attempt, which may be outdated. The caller may remove it.

    Returns:
        The staging tokens of the removed branch, or none if the branch stays.
    """
    tokens: tuple[str, ...] = ()
    unsure: str | None = None  # the birth of a branch whose removal got no reply

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
            return tokens  # the branch was removed, and this is a new one with its name
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


def _read_back(refs: Refs, name: str, unknown: OutcomeUnknownError) -> Version[BranchRecord]:
    """Return the branch after a lost reply. Without an answer, raise `unknown`."""
    try:
        return refs.branches.get_for_update(name)
    except BackendUnavailableError:
        raise unknown from None
