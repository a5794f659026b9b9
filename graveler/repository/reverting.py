"""Revert and cherry-pick: what one commit changed, taken back or done again, as a commit.

Both are three-way merges into the branch's head in which the commit and its parent stand for
base and source: to take a commit back is to merge its parent's tree over its own.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

from graveler.committed import differing_spans
from graveler.errors import InvalidInputError, NoChangesError, ThrottledError
from graveler.model import Commit
from graveler.refs import advance, backoff
from graveler.repository.merging import merge_trees, refuse_unpublished
from graveler.repository.stores import Stores
from graveler.repository.writing import check_fence

__all__ = ["Wanted", "cherry_pick", "revert"]

_ATTEMPTS: Final = 200
_OURS: Final = "graveler."


@dataclass(frozen=True, slots=True)
class Wanted:
    """What the caller says of the commit to make.

    Attributes:
        message: None for one that says what was done.
        metadata: The caller's pairs.
        committer: Who.
        strategy: ``source-wins`` (what is taken back or picked) or ``dest-wins`` (the branch)
            in a conflict; None for neither.
        allow_empty: Make a commit also where nothing changes.
    """

    message: str | None
    metadata: Mapping[str, str]
    committer: str
    strategy: str | None
    allow_empty: bool


def revert(
    stores: Stores, name: str, commit: Commit, *, parent: int | None, wanted: Wanted
) -> Commit:
    """Make a commit on the branch that takes back what `commit` changed.

    Args:
        stores: The repository.
        name: The branch; what is staged on it stays staged.
        commit: Whose changes.
        parent: Which parent's side stays, from 1; needed for a merge.
        wanted: What the caller says of the commit to make.

    Raises:
        InvalidInputError: No such parent, or a merge and none is named.
        MergeConflictError: Something changed the same paths since; the branch stays.
        NoChangesError: The branch has nothing of it.
        ProtectedBranchError: The branch takes no reverts.
        FencedError: The branch belongs to a run.
        RunStateError: The commit is work of a run that was not published.
    """
    before = _parent(stores, commit, parent, "revert")
    wanted = replace(
        wanted,
        message=wanted.message or f'revert "{_title(commit)}"\n\nTakes back commit {commit.id}.',
        metadata={**wanted.metadata, "graveler.revert": commit.id},
    )
    return _land(stores, name, "revert", base=commit, source=before, wanted=wanted)


def cherry_pick(
    stores: Stores, name: str, commit: Commit, *, parent: int | None, wanted: Wanted
) -> Commit:
    """Make a commit on the branch that does again what `commit` changed.

    Message and metadata are the commit's where the caller gives none.

    Args:
        stores: The repository.
        name: The branch; what is staged on it stays staged.
        commit: Whose changes.
        parent: Since which parent, from 1; needed for a merge.
        wanted: What the caller says of the commit to make.

    Raises:
        InvalidInputError: No such parent, or a merge and none is named.
        MergeConflictError: The branch changed the same paths; it stays as it is.
        NoChangesError: The branch has all of it.
        ProtectedBranchError: The branch takes no cherry-picks.
        FencedError: The branch belongs to a run.
        RunStateError: The commit is work of a run that was not published.
    """
    before = _parent(stores, commit, parent, "cherry-pick")
    theirs = {key: text for key, text in commit.metadata.items() if not key.startswith(_OURS)}
    wanted = replace(
        wanted,
        message=commit.message if wanted.message is None else wanted.message,
        metadata={**theirs, **wanted.metadata, "graveler.cherry-pick": commit.id},
    )
    return _land(stores, name, "cherry-pick", base=before, source=commit, wanted=wanted)


def _title(commit: Commit) -> str:
    return next(iter(commit.message.splitlines()), "") or commit.id[:12]


def _parent(stores: Stores, commit: Commit, number: int | None, what: str) -> Commit:
    """Return the parent that the commit's changes are counted from."""
    count = len(commit.parents)
    if not count:
        raise InvalidInputError(
            f"{what} of {commit.id[:12]}: it is a first commit and has no parent to compare with"
        )
    if number is None and count > 1:
        parents = ", ".join(
            f"{at} is {identifier[:12]}" for at, identifier in enumerate(commit.parents, 1)
        )
        raise InvalidInputError(
            f"{what} of {commit.id[:12]}: it is a merge, say which parent its changes are counted "
            f"from ({parents}; 1 is the branch that was merged into)"
        )
    if number is not None and not 1 <= number <= count:
        raise InvalidInputError(
            f"{what} of {commit.id[:12]}: parent {number}: it has {count}, counted from 1"
        )
    parent = stores.refs.commits.get(commit.parents[(number or 1) - 1])
    stores.refs.expired.check_nameable(parent.id)
    return parent


def _land(
    stores: Stores, name: str, action: str, *, base: Commit, source: Commit, wanted: Wanted
) -> Commit:
    """Merge `source` over `base` into the branch; on a new head again, where the race is lost."""
    refs = stores.refs
    refs.protection.check(name, "revert")
    with refs.turn(name):
        for attempt in range(_ATTEMPTS):
            record, predicate = refs.branches.get_for_update(name)
            check_fence(record, "")
            head = refs.commits.get(record.commit_id)
            for commit in (base, source):
                refuse_unpublished(stores, commit, head)
                refs.expired.check_nameable(commit.id)
            made = _build(stores, head, f"{action} on {name}", base, source, wanted)
            stores.ask_gates(action, name, made, head)
            if advance(refs, replace(record, commit_id=made.id), predicate, action=action):
                return made
            backoff(stores.clock, stores.ids, attempt)
    raise ThrottledError(f"branch {name!r} is busy: lost {_ATTEMPTS} races; try again")


def _build(
    stores: Stores, head: Commit, what: str, base: Commit, source: Commit, wanted: Wanted
) -> Commit:
    tree = merge_trees(
        stores,
        base=base.metarange,
        source=source.metarange,
        dest=head.metarange,
        strategy=wanted.strategy,
        what=what,
    )
    if tree == head.metarange and not wanted.allow_empty:
        raise NoChangesError(f"{what}: it would change nothing")
    return stores.refs.commits.add(
        metarange=tree,
        parents=(head.id,),
        message=wanted.message or "",
        committer=wanted.committer,
        created=stores.clock.now(),
        metadata=wanted.metadata,
        spans=differing_spans(stores.ranges, head.metarange, tree),
    )
