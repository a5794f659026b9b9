"""Merging branches: a three-way merge of trees, then one compare-and-set of the destination."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypedDict

from graveler.base.arguments import BranchLike, RefLike, branch_text, commit_texts, ref_text
from graveler.base.names import check_caller_pairs
from graveler.base.telemetry import MERGE
from graveler.committed.bases import Base, Bases
from graveler.committed.claims import claimed, claims_of
from graveler.committed.diff import diff, same_content
from graveler.committed.lookup import find_many
from graveler.committed.merge import SHOWN, Earlier, Merged, RawConflict, merge
from graveler.committed.metarange import EMPTY_METARANGE
from graveler.committed.units import names_unit
from graveler.display import Shown
from graveler.errors import ConflictError, InvalidInputError, MergeConflictError
from graveler.model import BranchRecord, ChangedBy, Commit, Conflict
from graveler.publishing.landing import CommitSpec, Tip, land, make_commit, merged_claims, tip_of
from graveler.publishing.tables import check_merged
from graveler.publishing.tracing import traced
from graveler.reads.changes import last_changes
from graveler.reads.stores import Stores
from graveler.refs.expression import resolve_beside
from graveler.refs.history import merge_bases
from graveler.refs.refs import Look
from graveler.refs.settings import PROTECTION
from graveler.repository.origins import refuse_unpublished
from graveler.repository.reconciliation import Reconciliation, Trees, trees_of
from graveler.repository.strategies import (
    Settlement,
    Strategy,
    check_strategy,
    conflict_of,
    settling,
)
from graveler.repository.tables import TableMerges

_SHOWN = 5
_MERGED = "merged"
"""The writer of claims of merges of branches that are not a run's."""
WHOLE = "graveler.whole"
"""Metadata of a merge commit: tables that were merged as a whole, by log or folder, at most five."""


@dataclass(frozen=True, slots=True)
class MergeResult(Shown):
    """The result of a merge.

    Attributes:
        commit: The merge commit, or the destination's head if there was nothing to merge.
        already: Whether the destination contained the source before.
    """

    commit: Commit
    already: bool


class MergeTerms(TypedDict, total=False):
    """The keyword arguments of a merge.

    Attributes:
        message: Message of the merge commit.
        metadata: Metadata of the merge commit.
        strategy: What to do if both sides changed a path. ``source-wins`` and ``dest-wins`` use that
            side, even if it deleted the path. A function gets each `Conflict` and returns one of
            these words, ``delete``, an entry of the path, or None to leave the conflict. A mapping
            has one of these for each pattern of paths, as in
            ``{"tables/**": "source-wins", "config.json": merged}``. The first pattern that matches
            applies. ``conflict`` leaves the conflicts that its pattern matches.
    """

    message: str | None
    metadata: Mapping[str, str] | None
    strategy: Strategy | None
    committer: str


def merge_order(
    stores: Stores,
    source: str | Commit | RefLike,
    into: str | BranchLike,
    *,
    message: str | None = None,
    metadata: Mapping[str, str] | None = None,
    strategy: Strategy | None = None,
    committer: str = "",
) -> tuple[str, str, CommitSpec, Strategy | None]:
    """Return the source, the branch, the spec and the strategy of a merge from a caller's arguments."""
    check_strategy(strategy)
    source = ref_text(source, "source", within=stores)
    into = branch_text(into, "into", within=stores)
    if source == into:
        raise InvalidInputError(f"source={source!r}, into={into!r}: give two different branches")
    commit_texts(message, committer)
    words = message or f"merge {source} into {into}"
    pairs = check_caller_pairs("merge", metadata)
    return source, into, CommitSpec(words, pairs, committer), strategy


def merge_trees(
    stores: Stores,
    *,
    base: str | Bases,
    source: str,
    dest: str,
    strategy: Settlement | str | None,
    what: str,
    earlier: Earlier | None = None,
    lines: tuple[Commit | None, Commit | None] = (None, None),
) -> Merged:
    """Return the result of a merge of trees.

    Args:
        lines: The heads of the source and of the destination. The error names the last commit on
            each line that changed a conflicting path. None: not for this side.
    """
    settled = strategy if isinstance(strategy, Settlement) else Settlement(strategy)
    tables = TableMerges(stores, settled, lines)
    merged = merge(
        stores.ranges,
        base,
        source,
        dest,
        strategy=settled.word,
        splitting=stores.splitting,
        resolve=tables.resolve,
        whole=settled.whole,
        earlier=earlier,
    )
    if merged.conflict_count:
        conflicts = describe(stores, merged.conflicts, source=lines[0], dest=lines[1])
        raise conflict_error(what, conflicts, merged.conflict_count)
    return tables.merged(merged, source, dest, what)


def merge_start(stores: Stores, source: Commit, dest: Commit) -> Bases | None:
    """Return the bases of a merge of `source` into `dest`, or None if `dest` contains `source`."""
    bases = find_bases(stores, source, dest)
    if bases is None:
        raise ConflictError(f"{source.id[:12]} and {dest.id[:12]} have no history in common")
    return None if [base.id for base in bases.best] == [source.id] else bases


def build_merge(
    stores: Stores,
    *,
    source: Commit,
    dest: Commit,
    spec: CommitSpec,
    strategy: Settlement | str | None,
    earlier: Commit | None = None,
) -> Commit | None:
    """Return the stored commit that merges `source` into `dest`, or None if `dest` contains it.

    No branch moves. If the destination moves afterwards, pass the commit as `earlier`. Then only
    later changes are merged again.
    """
    bases = merge_start(stores, source, dest)
    if bases is None:
        return None
    start = stores.refs.commits.get(bases.best[0].id)
    both = Reconciliation.of(stores, strategy, *map(trees_of, (start, source, dest)))
    merged = merge_trees(
        stores,
        base=bases,
        source=source.metarange,
        dest=dest.metarange,
        strategy=both.settled,
        what=spec.message,
        earlier=_still_good(stores, earlier, source, bases),
        lines=(source, dest),
    )
    if units := (*merged.whole, *merged.tables):
        names = b" ".join(units[:_SHOWN]).decode("utf-8", "backslashreplace")
        spec = replace(spec, metadata={**spec.metadata, WHOLE: names})
    claims = merged_claims(stores, (dest, source))
    tree, claims = reconciled(
        stores, both, merged, what=spec.message, lines=(source, dest), claims=claims
    )
    plain = strategy is None or (
        isinstance(strategy, Settlement) and not (strategy.word or strategy.resolve)
    )
    check_merged(stores, start.metarange, source, dest, tree, settled=not plain)
    claims = _kept(stores, start, source, dest, tree, claims)
    return make_commit(stores, tree=tree, parents=(dest, source), spec=spec, claims=claims)


def reconciled(
    stores: Stores,
    both: Reconciliation,
    merged: Merged,
    *,
    what: str,
    lines: tuple[Commit | None, Commit | None],
    claims: str | None = None,
) -> Trees:
    """Return the trees of a merge whose files are merged by content; see `Reconciliation.trees`."""
    trees, conflicts = both.trees(merged, claims)
    if conflicts:
        shown = describe(stores, conflicts[:SHOWN], source=lines[0], dest=lines[1])
        raise conflict_error(what, shown, len(conflicts))
    return trees


def _kept(
    stores: Stores, start: Commit, source: Commit, dest: Commit, tree: str, claims: str
) -> str:
    """Return the claims of a merge with those of a source without claims."""
    if claims == EMPTY_METARANGE or claims_of(source) != claims_of(start):
        return claims
    changes = list(diff(stores.ranges, start.metarange, source.metarange))
    rows = find_many(stores.ranges, dest.metarange, [change.key for change in changes])
    equal = [
        key
        for (key, _, value), row in zip(changes, rows, strict=True)
        if same_content(row and row[len(key) :], value)
    ]
    return claimed(
        stores.ranges,
        stores.splitting,
        claims,
        writer=_MERGED,
        step=None,
        before=dest.metarange,
        tree=tree,
        equal=equal,
    )


def _still_good(
    stores: Stores, earlier: Commit | None, source: Commit, bases: Bases
) -> Earlier | None:
    """Return the trees of an earlier merge of `source` if it had the same bases."""
    if earlier is None or earlier.parents[1:] != (source.id,) or WHOLE in earlier.metadata:
        return None
    dest = stores.refs.commits.get(earlier.parents[0])
    then = merge_bases(stores.refs.commits, source.id, dest.id)
    if [base.id for base in then] != [base.id for base in bases.best]:
        return None
    return Earlier(dest.metarange, earlier.metarange)


def merge_into(
    stores: Stores,
    expression: str,
    into: str,
    spec: CommitSpec,
    strategy: Strategy | None = None,
) -> MergeResult:
    """Merge the commit of an expression into a branch. A lost race repeats it with the new head.

    Staged writes of the destination stay staged. The result is always a merge commit and never a
    fast-forward, so that the history shows which changes were published together.
    """
    made: Commit | None = None
    places = (stores.refs.branches.place(into), stores.refs.settings.place(PROTECTION))
    source, (branch, rules) = resolve_beside(stores.refs, expression, *places)
    first = None if branch is None else tip_of(stores, Look.of(branch, rules))

    def build(tip: Tip) -> BranchRecord | None:
        nonlocal made
        refuse_unpublished(stores, source, tip.head)
        made = build_merge(
            stores,
            source=source,
            dest=tip.head,
            spec=spec,
            strategy=settled,
            earlier=made,
        )
        return None if made is None else tip.at(made)

    names = {"vcs.ref.head.revision": source.id, "vcs.ref.base.name": into}
    with (
        settling(stores, strategy, source.id, into) as settled,
        traced(stores, MERGE, names) as work,
    ):
        landed = land(stores, into, "merge", build, guard="merge", first=first)
        work.end(landed.head, landed=landed.commit is not None)
    return MergeResult(landed.head, already=landed.commit is None)


def find_bases(stores: Stores, source: Commit, dest: Commit) -> Bases | None:
    """Return the bases of a merge of the two, or None if they have no history in common."""
    # the tree of a base is not opened if a side has the same tree, and the sides' trees exist
    readable = {EMPTY_METARANGE, source.metarange, dest.metarange}

    def base_of(commit: Commit) -> Base:
        if commit.metarange not in readable:
            stores.refs.expired.check_readable(commit.id)
            readable.add(commit.metarange)
        return Base(commit.id, commit.metarange)

    def bases(commits: tuple[str, ...], other: str) -> tuple[Base, ...]:
        return tuple(map(base_of, merge_bases(stores.refs.commits, commits, other)))

    best = bases((source.id,), dest.id)
    return Bases(best, bases) if best else None


def describe(
    stores: Stores,
    conflicts: Sequence[RawConflict],
    *,
    source: Commit | None,
    dest: Commit | None,
) -> tuple[Conflict, ...]:
    """Return the conflicts with their entries and the commits that caused them."""
    keys = [conflict.key for conflict in conflicts]
    changes = [{} if side is None else last_changes(stores, side, keys) for side in (source, dest)]
    return tuple(
        replace(
            conflict_of(*conflict, (source.id if source else "", dest.id if dest else "")),
            source_change=_changed_by(changes[0].get(conflict.key)),
            dest_change=_changed_by(changes[1].get(conflict.key)),
        )
        for conflict in conflicts
    )


def conflict_error(what: str, conflicts: tuple[Conflict, ...], count: int) -> MergeConflictError:
    """Return the error that names the conflicts. `count` is their total number."""
    shown = ", ".join(repr(conflict.path) for conflict in conflicts[:_SHOWN])
    more = f" and {count - _SHOWN} more" if count > _SHOWN else ""
    paths = "path was" if count == 1 else "paths were"
    table = any(names_unit(conflict.path) for conflict in conflicts)
    return MergeConflictError(
        f"{what}: {count} {paths} changed differently on both sides ({shown}{more}): "
        f"{'a path that ends in _delta_log stands for a whole table; ' if table else ''}"
        "merge with strategy source-wins or dest-wins, or with one for each pattern of paths; or "
        "merge the other way with a strategy, correct the paths on the source, and merge again",
        conflicts,
        count,
    )


def _changed_by(commit: Commit | None) -> ChangedBy | None:
    if commit is None:
        return None
    return ChangedBy(commit.id, commit.metadata.get("graveler.run", ""))
