"""Merge: a three-way merge of trees, then one compare-and-set of the destination."""

from dataclasses import dataclass
from typing import Final

from graveler.committed import Earlier, Resolve, merge
from graveler.errors import (
    ConflictError,
    InvalidInputError,
    MergeConflictError,
    RunStateError,
)
from graveler.model import BranchRecord, Commit, Conflict
from graveler.refs import line_outside, merge_base
from graveler.repository.landing import CommitSpec, Tip, land, make_commit
from graveler.repository.stores import Stores

__all__ = [
    "STRATEGIES",
    "MergeResult",
    "build_merge",
    "merge_into",
    "merge_trees",
    "refuse_unpublished",
]

STRATEGIES: Final = (None, "source-wins", "dest-wins")
_SHOWN: Final = 5


@dataclass(frozen=True, slots=True)
class MergeResult:
    """What a merge did.

    Attributes:
        commit: The merge commit, or the destination's head where nothing had to be done.
        already: The destination held the source before.
    """

    commit: Commit
    already: bool


def merge_trees(  # noqa: PLR0913 - three trees and how to settle them
    stores: Stores,
    *,
    base: str,
    source: str,
    dest: str,
    strategy: str | None,
    what: str,
    resolve: Resolve | None = None,
    earlier: Earlier | None = None,
) -> str:
    """Return the metarange of the merged tree.

    Raises:
        MergeConflictError: Both sides changed a path, differently; it lists them all.
        InvalidInputError: An unknown strategy.
    """
    if strategy not in STRATEGIES:
        raise InvalidInputError(f"strategy {strategy!r}: give one of {STRATEGIES}")
    merged = merge(
        stores.ranges,
        base,
        source,
        dest,
        strategy=strategy,
        splitting=stores.splitting,
        resolve=resolve,
        earlier=earlier,
    )
    if merged.conflicts:
        raise MergeConflictError(_conflict_message(what, merged.conflicts), merged.conflicts)
    return merged.metarange


def _conflict_message(what: str, conflicts: tuple[Conflict, ...]) -> str:
    shown = ", ".join(repr(conflict.path) for conflict in conflicts[:_SHOWN])
    more = f" and {len(conflicts) - _SHOWN} more" if len(conflicts) > _SHOWN else ""
    paths = "path was" if len(conflicts) == 1 else "paths were"
    return (
        f"{what}: {len(conflicts)} {paths} changed differently on both sides ({shown}{more}): "
        "change one side, or merge with strategy source-wins or dest-wins"
    )


def build_merge(
    stores: Stores,
    *,
    source: Commit,
    dest: Commit,
    spec: CommitSpec,
    strategy: str | None,
    earlier: Commit | None = None,
) -> Commit | None:
    """Return the stored commit that merges `source` into `dest`, or None if `dest` holds it.

    No branch moves: the commit is what the destination would become. Where the destination
    moved on after that, give what was made as `earlier`: only what changed since is merged
    again.
    """
    commits = stores.refs.commits
    base = merge_base(commits, source.id, dest.id)
    if base is None:
        raise ConflictError(f"{source.id[:12]} and {dest.id[:12]} have no history in common")
    if base.id == source.id:
        return None
    tree = merge_trees(
        stores,
        base=base.metarange,
        source=source.metarange,
        dest=dest.metarange,
        strategy=strategy,
        what=spec.message,
        earlier=_still_good(stores, earlier, source, base),
    )
    return make_commit(stores, tree=tree, parents=(dest, source), spec=spec)


def _still_good(
    stores: Stores, earlier: Commit | None, source: Commit, base: Commit
) -> Earlier | None:
    """Return the trees of an earlier merge of `source`, if it started from the same base."""
    if earlier is None or earlier.parents[1:] != (source.id,):
        return None
    dest = stores.refs.commits.get(earlier.parents[0])
    then = merge_base(stores.refs.commits, source.id, dest.id)
    if then is None or then.id != base.id:
        return None
    return Earlier(dest.metarange, earlier.metarange)


def refuse_unpublished(stores: Stores, source: Commit, dest: Commit) -> None:
    """Refuse the work of a run that was not published, and what ingestion has set aside.

    The gates have not seen the one, and have refused the other.

    Looked for on the source's own line, down to the first commit that the destination holds;
    what came to the line by a merge was looked at then.
    """
    for commit in line_outside(stores.refs.commits, source.id, dest.id):
        key = commit.metadata.get("graveler.run")
        if key is not None and "graveler.published" not in commit.metadata:
            raise RunStateError(
                f"commit {commit.id[:12]} is work of run {key!r}, which is not published: "
                "publish it through a new attempt of the run"
            )
        shelf = commit.metadata.get("graveler.quarantine")
        if shelf is not None:
            raise RunStateError(
                f"commit {commit.id[:12]} was refused by gates and is in quarantine: mend branch "
                f"{shelf!r}, then release it with `graveler ingest release {shelf}`"
            )


def merge_into(
    stores: Stores, source: Commit, into: str, spec: CommitSpec, *, strategy: str | None
) -> MergeResult:
    """Merge a commit into a branch; a race that is lost is merged again, upon the new head.

    What is staged on the destination stays staged. Always a merge commit, never a silent
    fast-forward, so that history says what was published together.

    Raises:
        MergeConflictError: Both sides changed a path, differently; the branch did not move.
        FencedError: The branch belongs to a run.
        RunStateError: The commit is work of a run that was not published.
        ProtectedBranchError: The branch takes no merges.
        GateFailedError: A gate that the branch requires refuses; it did not move.
    """
    made: Commit | None = None

    def build(tip: Tip) -> BranchRecord | None:
        nonlocal made
        refuse_unpublished(stores, source, tip.head)
        made = build_merge(
            stores, source=source, dest=tip.head, spec=spec, strategy=strategy, earlier=made
        )
        return None if made is None else tip.at(made)

    landed = land(stores, into, "merge", build, guard="merge")
    return MergeResult(landed.commit or landed.tip.head, already=landed.commit is None)
