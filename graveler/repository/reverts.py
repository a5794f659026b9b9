"""Revert and cherry-pick: a commit that inverts or repeats the changes of another commit.

Both are three-way merges into the branch's head. A revert takes the commit as base and its parent
as source. A cherry-pick takes the parent as base and the commit as source.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from itertools import takewhile
from typing import TypedDict

from graveler.base import arguments as args
from graveler.base.arguments import BranchLike, RefLike
from graveler.base.names import check_caller_pairs
from graveler.committed.diff import same_records
from graveler.errors import InvalidInputError, NoChangesError, SchemaChangedError
from graveler.model import REVERT, BranchRecord, Commit
from graveler.publishing.landing import CommitSpec, Tip, land, make_commit
from graveler.publishing.tables import check_picked, noted
from graveler.reads.stores import Stores
from graveler.refs.expression import resolve_to_name
from graveler.refs.history import is_ancestor, log
from graveler.repository.merges import merge_trees, reconciled
from graveler.repository.origins import (
    refuse_candidates,
    refuse_quarantined,
    refuse_unpublished,
    removed_by,
)
from graveler.repository.reconciliation import Reconciliation, trees_of
from graveler.repository.strategies import Strategy, check_strategy, settling

PUBLISHED = "graveler.published"
"""Metadata of a commit by which a run was published."""
CHERRY_PICK = "graveler.cherry-pick"
"""Metadata of a commit: the commit whose changes it repeats."""
_OURS = "graveler."


@dataclass(frozen=True, slots=True)
class Pick:
    """The changes of a commit, and how they are applied.

    Attributes:
        parent: The number of the parent to compare with, from 1. A merge commit needs it unless
            the choice is clear: the commit published a run, or it is reverted on the branch into
            which it was merged.
        strategy: How conflicts are settled: ``source-wins`` takes the applied changes and
            ``dest-wins`` those of the branch. None leaves conflicts.
        accepts: Called with the head of the branch to which the changes are applied. An exception
            refuses. It is called again after a lost race.
    """

    commit: Commit
    parent: int | None = None
    strategy: Strategy | None = None
    allow_empty: bool = False
    accepts: Callable[[Commit], None] = lambda _: None


class PickTerms(TypedDict, total=False):
    """The keyword arguments of a revert and of a cherry-pick.

    Attributes:
        parent: For a merge, the parent to compare with; 1 is the branch merged into. A revert needs it
            neither for a published run nor for a merge into its branch.
        message: Message of the new commit; by default that of the picked commit, or one that names
            the reverted commit.
        metadata: Metadata of the new commit; a cherry-pick adds it to that of the picked commit.
        strategy: For paths that conflict: ``source-wins`` applies the changes, ``dest-wins`` keeps
            what the branch has.
        allow_empty: Commit even if nothing changes.
    """

    parent: int | None
    message: str | None
    metadata: Mapping[str, str] | None
    strategy: Strategy | None
    committer: str
    allow_empty: bool


def pick_order(
    stores: Stores,
    action: str,
    commit: str | Commit | RefLike,
    branch: str | BranchLike,
    *,
    parent: int | None = None,
    message: str | None = None,
    metadata: Mapping[str, str] | None = None,
    strategy: Strategy | None = None,
    committer: str = "",
    allow_empty: bool = False,
) -> tuple[str, Pick, CommitSpec]:
    """Return the branch, the pick and the spec of a revert or cherry-pick from a caller's arguments."""
    named = args.ref_text(commit, "commit", within=stores)
    name = args.branch_text(branch, "on" if action == "revert" else "onto", within=stores)
    args.optional(args.count, parent, "parent", least=1), args.flag(allow_empty, "allow_empty")
    args.commit_texts(message, committer)
    check_strategy(strategy)
    spec = CommitSpec(message or "", check_caller_pairs(action, metadata), committer)
    target = resolve_to_name(stores.refs, named)
    return name, Pick(target, parent, strategy, allow_empty), spec


def revert(stores: Stores, name: str, pick: Pick, spec: CommitSpec) -> Commit:
    """Commit the inverse changes of a commit on the branch."""
    commit = pick.commit
    before = _parent(stores, pick, "revert", on=name)
    title = next(iter(commit.message.splitlines()), "") or commit.id[:12]
    spec = replace(
        spec,
        message=spec.message or f'revert "{title}"\n\nReverts commit {commit.id}.',
        metadata={**spec.metadata, REVERT: commit.id},
    )
    return _land(stores, name, "revert", pick, spec, base=commit, source=before)


def cherry_pick(stores: Stores, name: str, pick: Pick, spec: CommitSpec) -> Commit:
    """Commit the changes of a commit on the branch."""
    commit = pick.commit
    before = _parent(stores, pick, "cherry-pick")
    theirs = {key: text for key, text in commit.metadata.items() if not key.startswith(_OURS)}
    spec = replace(
        spec,
        message=spec.message or commit.message,
        metadata={**theirs, **spec.metadata, CHERRY_PICK: commit.id},
    )
    return _land(stores, name, "cherry-pick", pick, spec, base=before, source=commit)


def _parent(stores: Stores, pick: Pick, action: str, on: str = "") -> Commit:
    """Return the parent with which the commit is compared."""
    commit, number, most = pick.commit, pick.parent, len(pick.commit.parents)
    if number is None and most > 1 and _is_parent_clear(stores, commit, on):
        number = 1
    what = f"{action} of {commit.id[:12]}"
    if not most:
        raise InvalidInputError(f"{what}: it is a first commit and has no parent to compare with")
    if number is None and most > 1:
        parents = ", ".join(
            f"{at} is {identifier[:12]}" for at, identifier in enumerate(commit.parents, 1)
        )
        raise InvalidInputError(
            f"{what}: it is a merge, say which parent its changes are counted from: parent=1, on the "
            f"command line --parent 1 ({parents}; 1 is the branch that was merged into)"
        )
    if number is not None and not 1 <= number <= most:
        raise InvalidInputError(f"{what}: parent {number}: it has {most}, counted from 1")
    parent = stores.refs.commits.get(commit.parents[(number or 1) - 1])
    stores.refs.expired.check_nameable(parent.id)
    return parent


def _is_parent_clear(stores: Stores, commit: Commit, on: str) -> bool:
    """Return whether the changes of a merge are clearly those that it brought to its branch."""
    if PUBLISHED in commit.metadata:
        return True
    commits = stores.refs.commits
    line = log(commits, stores.refs.branches.get(on).commit_id, first_parent=True) if on else ()
    newer = takewhile(lambda other: other.generation >= commit.generation, line)
    return any(other.id == commit.id for other in newer)


def _land(
    stores: Stores,
    name: str,
    action: str,
    pick: Pick,
    spec: CommitSpec,
    *,
    base: Commit,
    source: Commit,
) -> Commit:
    """Merge `source` over `base` into the branch."""
    what = f"{action} on {name}"
    # what lies before a publish was checked when it landed
    published = PUBLISHED in pick.commit.metadata and pick.commit.parents[0] in (base.id, source.id)

    def build(tip: Tip) -> BranchRecord:
        pick.accepts(tip.head)
        returned = removed_by(pick.commit) if action == "revert" else (pick.commit.id,)
        refuse_quarantined(stores, returned)
        if published and not is_ancestor(stores.refs.commits, pick.commit.id, tip.head.id):
            refuse_candidates(stores, (pick.commit,))
        for commit in (base, source):
            if not published:
                refuse_unpublished(stores, commit, tip.head)
            stores.refs.expired.check_nameable(commit.id)
        lines = (None, tip.head)
        sides = map(trees_of, (base, source, tip.head))
        returns = action == "revert"
        both = Reconciliation.of(stores, settled, *sides, strict=True, returns=returns)
        merged = merge_trees(
            stores,
            base=base.metarange,
            source=source.metarange,
            dest=tip.head.metarange,
            strategy=both.settled,
            what=what,
            lines=lines,
        )
        tree, claims = reconciled(stores, both, merged, what=what, lines=lines)
        pairs = zip(trees_of(tip.head), (tree, claims), strict=True)
        same = all(same_records(stores.ranges, *pair) for pair in pairs)
        if same and not pick.allow_empty:
            raise NoChangesError(f"{what}: it would change nothing")
        try:
            tables = check_picked(
                stores, base, source, tip.head, tree, settled=pick.strategy is not None
            )
        except SchemaChangedError as error:
            if not returns:
                raise
            raise SchemaChangedError(f"{what}: {error}; or revert what came later first") from error
        said = noted(spec, tables)
        made = make_commit(stores, tree=tree, parents=(tip.head,), spec=said, claims=claims)
        return tip.at(made)

    with settling(stores, pick.strategy, base.id, source.id, name) as settled:
        return land(stores, name, action, build, guard="revert").head
