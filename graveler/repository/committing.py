"""Commit: seal the live token, build the tree off to the side, move the branch in one step.

Up to the last compare-and-set no reader sees a change, and every step before it may be
repeated: a crash at any point leaves the branch as it was, with its writes still staged.
A committer that loses the race rebuilds on the branch's current head.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from graveler.committed import apply
from graveler.errors import (
    NoChangesError,
    OutcomeUnknownError,
    PreconditionFailedError,
    ThrottledError,
)
from graveler.kv.store import Predicate
from graveler.model import BranchRecord, Commit
from graveler.records import staged_changes
from graveler.refs import advance, backoff, move
from graveler.repository.stores import Stores
from graveler.repository.writing import check_fence, owned

__all__ = ["commit"]

_ATTEMPTS: Final = 200


def _seal(stores: Stores, name: str, fence: str) -> tuple[BranchRecord, BranchRecord]:
    """Give the branch a new live token and put the old one behind the sealed ones.

    Returns:
        The record as we first saw it, and as it is sealed. Nothing is sealed where nothing is
        staged; where another committer was quicker, what we first saw live is his.
    """
    looks: list[BranchRecord] = []

    def change(record: BranchRecord) -> BranchRecord:
        check_fence(record, fence)
        looks.append(record)
        live = record.staging_token
        if stores.staging.is_empty(live):
            return record
        return replace(
            record,
            staging_token=stores.ids.unique(),
            sealed_tokens=(*record.sealed_tokens, live),
        )

    def landed(now: BranchRecord) -> bool:
        return now.staging_token != looks[-1].staging_token

    record = move(stores.refs, name, change, landed=landed)
    return looks[0], record


@dataclass(frozen=True, slots=True)
class _Details:
    """What the caller says of the commit."""

    message: str
    metadata: Mapping[str, str]
    committer: str
    allow_empty: bool


def commit(  # noqa: PLR0913 - the fields of a commit
    stores: Stores,
    name: str,
    *,
    fence: str,
    message: str,
    metadata: Mapping[str, str],
    committer: str,
    allow_empty: bool,
) -> Commit:
    """Commit what is staged on the branch.

    Returns:
        The commit; where another committer took all the writes meanwhile, the branch's head,
        which holds them.

    Raises:
        NoChangesError: Nothing is staged that differs from the head.
        ProtectedBranchError: The branch takes merges only.
        FencedError: A newer attempt of the run owns the branch.
    """
    if not fence:
        stores.refs.protection.check(name)
    with owned(name, fence):
        return _commit(stores, name, fence, _Details(message, metadata, committer, allow_empty))


def _commit(stores: Stores, name: str, fence: str, details: _Details) -> Commit:
    seen, sealed = _seal(stores, name, fence)
    for attempt in range(_ATTEMPTS):
        made = _try_commit(stores, name, fence, seen, sealed, details)
        if made is not None:
            return made
        backoff(stores.clock, stores.ids, attempt)
    raise ThrottledError(f"branch {name!r} is busy: lost {_ATTEMPTS} races; try again")


def _try_commit(
    stores: Stores,
    name: str,
    fence: str,
    seen: BranchRecord,
    sealed: BranchRecord,
    details: _Details,
) -> Commit | None:
    """Commit the sealed tokens on the branch's present head; None where the race was lost."""
    mine = frozenset((*sealed.sealed_tokens, seen.staging_token))
    record, predicate = stores.refs.branches.get_for_update(name)
    check_fence(record, fence)
    tokens = [token for token in record.sealed_tokens if token in mine]
    if not tokens and record.staging_token != seen.staging_token:  # another one has taken them
        if record.commit_id == seen.commit_id:
            raise NoChangesError(f"branch {name!r}: what was staged was discarded meanwhile")
        return stores.refs.commits.get(record.commit_id)
    if not tokens and not details.allow_empty:
        raise NoChangesError(f"branch {name!r}: nothing is staged")
    parent = stores.refs.commits.get(record.commit_id)
    tree = _tree(stores, parent, tokens)
    rest = tuple(token for token in record.sealed_tokens if token not in mine)
    made = None
    if tree != parent.metarange or details.allow_empty:
        made = stores.refs.commits.add(
            metarange=tree,
            parents=(parent.id,),
            message=details.message,
            committer=details.committer,
            created=stores.clock.now(),
            metadata=details.metadata,
        )
    if made is None:
        moved = _cleared(stores, replace(record, sealed_tokens=rest), predicate)
    else:
        moved = advance(
            stores.refs,
            replace(record, sealed_tokens=rest, commit_id=made.id),
            predicate,
            action="commit",
        )
    if not moved:
        return None
    for token in tokens:
        stores.staging.drop(token)
    if made is None:
        raise NoChangesError(f"branch {name!r}: what is staged equals the head")
    return made


def _tree(stores: Stores, parent: Commit, oldest_first: Sequence[str]) -> str:
    if not oldest_first:
        return parent.metarange
    changes = staged_changes(stores.staging.scan(oldest_first[::-1]))
    return apply(stores.ranges, parent.metarange, changes, stores.splitting).metarange


def _cleared(stores: Stores, record: BranchRecord, predicate: Predicate) -> bool:
    try:
        stores.refs.branches.replace(record, predicate)
    except (PreconditionFailedError, OutcomeUnknownError):
        return False  # what landed has taken our tokens along: looking again is safe
    return True
