"""Quarantine: a refused change moves from an ingestion branch to a branch of its own.

One compare-and-set on the branch's standing decides the quarantine. From then on every tick
continues it, in steps that may be repeated. If a publisher of the change has landed before the
decision, the decision is dropped. Otherwise the publisher never lands.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from itertools import count
from typing import Literal

from graveler.committed import CONFLICT, Bases, BaseValues, Unresolved, get
from graveler.committed.diff import same_content
from graveler.errors import (
    AlreadyExistsError,
    GateFailedError,
    MergeConflictError,
    RefNotFoundError,
)
from graveler.gates import Gate
from graveler.ingest.hours import user_pairs
from graveler.ingest.publishing import IngestCandidacy
from graveler.ingest.records import Quarantine, Standing
from graveler.ingest.unpublished import (
    INGEST,
    QUARANTINE,
    TAKEN_OFF,
    TAKEN_TO,
    IngestBranch,
    Point,
    find_removal,
)
from graveler.model import BranchRecord, Commit
from graveler.publishing.landing import CommitSpec, Tip, land, make_commit
from graveler.reads.stores import Stores
from graveler.refs import is_ancestor, merge_bases, move, remove
from graveler.repository.merges import find_bases, merge_trees
from graveler.repository.strategies import Settlement
from graveler.runs.record import Refusal


@dataclass(frozen=True, slots=True)
class Quarantines:
    """The quarantines of one ingestion branch.

    Attributes:
        branch: The branch.
    """

    branch: IngestBranch

    def decide(
        self, changes: tuple[Commit, ...], hours: tuple[str, ...], point: Commit, refusal: Refusal
    ) -> None:
        """Decide to quarantine changes; `settle` carries it out.

        If another change is being quarantined, nothing is decided. The caller settles and reads
        again.
        """
        stores, records = self.branch.stores, self.branch.records
        stores.refs.protection.check(self.branch.name, "revert")
        name = self._free_name(hours[0])
        decided = Quarantine(
            name=name,
            hours=hours,
            commits=tuple(change.id for change in changes),
            head=self._first_commit(name, changes, hours, point).id,
            refusal=refusal,
            created=stores.clock.now(),
        )

        def change(standing: Standing) -> Standing:
            return standing if standing.taking is not None else replace(standing, taking=decided)

        records.change_standing(change)

    def settle(self) -> None:
        """Carry out the decision that is not finished, if there is one."""
        records = self.branch.records
        taking = records.standing().taking
        if taking is None:
            return
        if self._stands(taking):
            quarantine = records.change_quarantine(replace(taking, nonce=""))
            self._make_branch(quarantine)
            self._remove_changes(taking)
            self._drop_released(quarantine.name)

        def change(standing: Standing) -> Standing:
            mine = standing.taking is not None and standing.taking.head == taking.head
            return replace(standing, taking=None) if mine else standing

        records.change_standing(change)

    def _free_name(self, hour: str) -> str:
        """Return a branch name for the change of an hour that no branch or quarantine ever had."""
        branches = self.branch.stores.refs.branches
        slug = "quarantine-" + hour.removesuffix("Z").replace(":", "-")
        names = (slug if number == 1 else f"{slug}.{number}" for number in count(1))
        return next(
            name
            for name in names
            if self.branch.records.quarantine(name) is None and branches.find(name) is None
        )

    def _first_commit(
        self, name: str, changes: tuple[Commit, ...], hours: tuple[str, ...], point: Commit
    ) -> Commit:
        """Store the first commit of the quarantine's branch.

        It is not a commit of the ingestion branch. Removed commits stay in the history of that
        branch, so a merge of one of them after its release would change nothing.
        """
        stores = self.branch.stores
        commits = stores.refs.commits
        target = self.branch.target()
        # any of several is suitable: the quarantine holds the changes, whatever its base is
        base = next(iter(merge_bases(commits, point.id, target.id)), target)
        spec = CommitSpec(
            f"{self.branch.name} {', '.join(hours)}: refused",
            {
                **user_pairs(changes[-1].metadata),
                INGEST: self.branch.name,
                QUARANTINE: name,
            },
        )
        tree = _with_changes(stores, base.metarange, changes)
        return make_commit(stores, tree=tree, parents=(base,), spec=spec)

    def _stands(self, taking: Quarantine) -> bool:
        """Return whether the decision stands: its change has neither landed nor been removed.

        The target's record is rewritten first. A publisher that read it before the decision then
        loses its compare-and-set, unless it has already won it.
        """
        refs = self.branch.stores.refs
        try:
            target = move(refs, self.branch.into, replace, landed=lambda _: True)
        except RefNotFoundError:
            return False
        record = refs.branches.find(self.branch.name)
        if record is None:
            return False
        removal = find_removal(refs.commits, refs.commits.get(record.commit_id), taking.commits)
        if removal == "":
            names = taking.commits
            return not any(is_ancestor(refs.commits, name, target.commit_id) for name in names)
        return removal == taking.name  # removed by a call that was then interrupted

    def _make_branch(self, quarantine: Quarantine) -> None:
        if quarantine.released:
            return
        stores, name, head = self.branch.stores, quarantine.name, quarantine.head
        try:
            stores.refs.branches.create(
                BranchRecord(name=name, commit_id=head, staging_token=stores.ids.unique())
            )
        except AlreadyExistsError:
            record = stores.refs.branches.find(name)
            if record is None or is_ancestor(stores.refs.commits, head, record.commit_id):
                return
            raise AlreadyExistsError(
                f"branch {name!r} was made by another process just when a refused change of "
                f"{self.branch.name!r} was to get it: delete it, then tick again"
            ) from None

    def _remove_changes(self, taking: Quarantine) -> None:
        """Remove the changes from the branch once, in one commit; staged writes stay staged."""
        stores, name = self.branch.stores, self.branch.name
        commits = stores.refs.commits
        changes = [commits.get(identifier) for identifier in taking.commits]
        spec = CommitSpec(
            f"{name}: {', '.join(taking.hours)} to {taking.name}",
            {INGEST: name, TAKEN_TO: taking.name, TAKEN_OFF: ",".join(taking.commits)},
        )

        def build(tip: Tip) -> BranchRecord | None:
            if find_removal(commits, tip.head, taking.commits) != "":
                return None
            tree = _without_changes(stores, tip.head.metarange, changes)
            return tip.at(make_commit(stores, tree=tree, parents=(tip.head,), spec=spec))

        land(stores, name, "revert", build)

    def _drop_released(self, name: str) -> None:
        """Delete the branch that this process made for a quarantine that was released meanwhile."""
        quarantine = self.branch.records.quarantine(name)
        if quarantine is not None and quarantine.released:
            stores, head = self.branch.stores, quarantine.head
            tokens = remove(
                stores.refs, name, lambda record: record.commit_id == head and not record.fence
            )
            stores.staging.drop(*tokens)


def refused_changes(
    branch: IngestBranch, gates: tuple[Gate, ...], point: Point, spec: CommitSpec
) -> tuple[Commit, ...]:
    """Return the changes of a refused point that are to be quarantined.

    If there are several changes, each is judged on top of those before it that passed. The first
    refused change is returned. If none is refused, all are returned.
    """
    if len(point.changes) == 1:
        return point.changes
    stores, target = branch.stores, branch.target()
    bases = find_bases(stores, point.commit, target) or Bases.one(target.metarange)
    work = IngestCandidacy(branch, point.commit, spec, gates)
    work.convene()
    tree = target.metarange
    for change in point.changes:
        try:
            tree = _with_change(stores, tree, change, bases=bases, target=target.metarange)
            work.judge(make_commit(stores, tree=tree, parents=(target,), spec=spec), target)
        except (GateFailedError, MergeConflictError):
            return (change,)
    return point.changes


def before(stores: Stores, change: Commit) -> Commit:
    """Return the first parent of a commit, the base of its change."""
    return stores.refs.commits.get(change.parents[0])


def _with_changes(stores: Stores, tree: str, changes: Iterable[Commit]) -> str:
    """Return `tree` with the changes applied in order; they win over the tree."""
    for change in changes:
        tree = merge_trees(
            stores,
            base=before(stores, change).metarange,
            source=change.metarange,
            dest=tree,
            strategy="source-wins",
            what=f"commit {change.id[:12]}",
        )
    return tree


def _with_change(stores: Stores, tree: str, change: Commit, *, bases: Bases, target: str) -> str:
    """Return `tree` with one change, if the target did not change its paths.

    Args:
        stores: The repository.
        tree: The target's tree, with other changes of the same branch.
        change: A commit of the branch.
        bases: The merge bases of branch and target.
        target: The target's tree.

    Raises:
        MergeConflictError: The target has changed one of its paths differently.
    """
    values = BaseValues(stores.ranges, bases)

    def settle(
        key: bytes,
        _base: bytes | Literal[Unresolved.CONFLICT] | None,
        source: bytes | None,
        _dest: bytes | None,
    ) -> bytes | Literal[Unresolved.CONFLICT] | None:
        then = values.at(key)
        now = get(stores.ranges, target, key)
        same = then is not CONFLICT and same_content(then, now)
        return source if same else CONFLICT

    return merge_trees(
        stores,
        base=before(stores, change).metarange,
        source=change.metarange,
        dest=tree,
        strategy=Settlement(resolve=settle),
        what=f"commit {change.id[:12]}",
    )


def _without_changes(stores: Stores, tree: str, changes: Iterable[Commit]) -> str:
    """Return `tree` with the changes reverted, the newest first.

    A path that a later commit has changed keeps its later version.
    """
    for change in reversed(tuple(changes)):
        tree = merge_trees(
            stores,
            base=change.metarange,
            source=before(stores, change).metarange,
            dest=tree,
            strategy="dest-wins",
            what=f"commit {change.id[:12]} quarantined",
        )
    return tree
