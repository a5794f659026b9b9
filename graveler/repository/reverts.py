"""Revert and cherry-pick: a commit that inverts or repeats what another commit changed.

Both are three-way merges into the branch's head. A revert takes the commit as base and its parent as
source; a cherry-pick takes the parent as base and the commit as source.
"""

from dataclasses import dataclass, replace
from typing import Final

from graveler.committed import same_records
from graveler.errors import InternalError, InvalidInputError, NoChangesError
from graveler.model import BranchRecord, Commit
from graveler.publishing.landing import CommitSpec, Tip, land, make_commit
from graveler.reads.stores import Stores
from graveler.repository.merges import merge_trees, refuse_unpublished

_OURS: Final = "graveler."


def revert(  # noqa: PLR0913 - what a revert has
    stores: Stores,
    name: str,
    commit: Commit,
    spec: CommitSpec,
    *,
    parent: int | None,
    strategy: str | None,
    allow_empty: bool = False,
) -> Commit:
    """Commit on the branch the inverse of what `commit` changed.

    Args:
        stores: The repository.
        name: The branch; what is staged on it stays staged.
        commit: The commit to revert.
        spec: Of the new commit; an empty message gets a default.
        parent: The parent whose side stays, from 1; required for a merge.
        strategy: ``source-wins`` (what is reverted) or ``dest-wins`` (the branch) in a conflict;
            None for neither.
        allow_empty: Make a commit also where nothing changes.

    Raises:
        InvalidInputError: No such parent, or a merge and none is named.
        MergeConflictError: Something changed the same paths since; the branch stays.
        NoChangesError: The branch has none of these changes.
        ProtectedBranchError: The branch takes no reverts.
        FencedError: The branch belongs to a run.
        RunStateError: The commit is work of a run that was not published.
    """
    before = _parent(stores, commit, parent, "revert")
    spec = replace(
        spec,
        message=spec.message or f'revert "{_title(commit)}"\n\nReverts commit {commit.id}.',
        metadata={**spec.metadata, "graveler.revert": commit.id},
    )
    settled = _Settled(strategy, allow_empty)
    return _land(stores, name, "revert", spec, settled, base=commit, source=before)


def cherry_pick(  # noqa: PLR0913 - what a cherry-pick has
    stores: Stores,
    name: str,
    commit: Commit,
    spec: CommitSpec,
    *,
    parent: int | None,
    strategy: str | None,
    allow_empty: bool = False,
) -> Commit:
    """Make a commit on the branch that does again what `commit` changed.

    Message and metadata are the commit's where the caller gives none.

    Args:
        stores: The repository.
        name: The branch; what is staged on it stays staged.
        commit: Whose changes.
        spec: What the new commit says.
        parent: Since which parent, from 1; needed for a merge.
        strategy: ``source-wins`` (what is picked) or ``dest-wins`` (the branch) in a conflict;
            None for neither.
        allow_empty: Make a commit also where nothing changes.

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
    spec = replace(
        spec,
        message=spec.message or commit.message,
        metadata={**theirs, **spec.metadata, "graveler.cherry-pick": commit.id},
    )
    settled = _Settled(strategy, allow_empty)
    return _land(stores, name, "cherry-pick", spec, settled, base=before, source=commit)


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


@dataclass(frozen=True, slots=True)
class _Settled:
    """How conflicts are settled, and whether a commit without changes is wanted."""

    strategy: str | None
    allow_empty: bool


def _land(  # noqa: PLR0913 - two trees and what becomes of them
    stores: Stores,
    name: str,
    action: str,
    spec: CommitSpec,
    settled: _Settled,
    *,
    base: Commit,
    source: Commit,
) -> Commit:
    """Merge `source` over `base` into the branch."""
    what = f"{action} on {name}"

    def build(tip: Tip) -> BranchRecord:
        for commit in (base, source):
            refuse_unpublished(stores, commit, tip.head)
            stores.refs.expired.check_nameable(commit.id)
        tree = merge_trees(
            stores,
            base=base.metarange,
            source=source.metarange,
            dest=tip.head.metarange,
            strategy=settled.strategy,
            what=what,
            lines=(None, tip.head),
        )
        if not settled.allow_empty and same_records(stores.ranges, tip.head.metarange, tree):
            raise NoChangesError(f"{what}: it would change nothing")
        return tip.at(make_commit(stores, tree=tree, parents=(tip.head,), spec=spec))

    made = land(stores, name, action, build, guard="revert").commit
    if made is None:
        raise InternalError(f"{what} landed nothing")
    return made
