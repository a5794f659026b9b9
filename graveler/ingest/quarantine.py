"""Quarantine: a refused change moves from an ingestion branch to a branch of its own.

One compare-and-set on the branch's standing decides the quarantine. From then on every tick
continues it, in steps that may be repeated. If a publisher of the change has landed before the
decision, the decision is dropped. Otherwise the publisher never lands.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import count, islice

from graveler.committed.diff import diff
from graveler.committed.units import log_of, units_of
from graveler.errors import AlreadyExistsError, GateFailedError, RefNotFoundError
from graveler.gates import Gate
from graveler.ingest.delivery import IngestCandidacy
from graveler.ingest.hours import commit_hour, user_pairs
from graveler.ingest.records import IngestRecords, Quarantine, Standing, branches_of
from graveler.ingest.unpublished import (
    CHANGES,
    INGEST,
    POLICY,
    QUARANTINE,
    TAKEN_OFF,
    TAKEN_TO,
    IngestBranch,
    Point,
    find_removal,
    last_sealed,
    unpublished_line,
)
from graveler.model import BranchRecord, Commit
from graveler.publishing.landing import CommitSpec, Tip, land, make_commit
from graveler.reads.stores import Stores
from graveler.refs.commits import Commits
from graveler.refs.history import is_ancestor, log, merge_bases
from graveler.refs.mover import move
from graveler.repository.merges import merge_trees
from graveler.repository.origins import in_quarantine, note_refused
from graveler.runs.branch import discard_branch
from graveler.runs.record import Refusal


@dataclass(frozen=True, slots=True)
class Quarantines:
    """The quarantines of one ingestion branch."""

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
        name = self.free_name(hours[0])
        units = units_of({log for one in changes for log in _logs(stores, one)})
        decided = Quarantine(
            name=name,
            hours=hours,
            commits=tuple(change.id for change in changes),
            head=self._first_commit(name, changes, hours, point).id,
            refusal=refusal,
            created=stores.clock.now(),
            units=tuple(map(_text, units)),
        )

        def change(standing: Standing) -> Standing:
            return standing if standing.taking is not None else replace(standing, taking=decided)

        records.change_standing(change)

    def settle(self) -> Standing:
        """Carry out the decision that is not finished, if there is one; return the standing."""
        records = self.branch.records
        standing = records.standing()
        taking = standing.taking
        if taking is None:
            return standing
        if self._stands(taking):
            note_refused(self.branch.stores, taking.commits, taking.name)
            quarantine = records.change_quarantine(replace(taking, nonce=""))
            self.make_branch(quarantine)
            self._remove_changes(taking)
            self._drop_released(quarantine.name)

        def change(standing: Standing) -> Standing:
            mine = standing.taking is not None and standing.taking.head == taking.head
            if not mine:
                return standing
            names = (*standing.shelves, taking.name) if taking.units else standing.shelves
            return replace(standing, taking=None, shelves=tuple(dict.fromkeys(names)))

        return records.change_standing(change)

    def free_name(self, hour: str) -> str:
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
                CHANGES: ",".join(change.id for change in changes),
                "hour": hours[-1],
            },
        )
        tree = with_changes(stores, base.metarange, changes)
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

    def make_branch(self, quarantine: Quarantine) -> None:
        """Make the branch of a quarantine, unless it exists."""
        if quarantine.released:
            return
        stores, name, head = self.branch.stores, quarantine.name, quarantine.head
        try:
            stores.refs.branches.start(name, head)
        except AlreadyExistsError:
            record = stores.refs.branches.find(name)
            now = None if record is None else stores.refs.commits.get(record.commit_id)
            if now is None or shelf_commit(stores.refs.commits, now, name) is not None:
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
            tree = with_changes(stores, tip.head.metarange, changes, "dest-wins", back=True)
            return tip.at(make_commit(stores, tree=tree, parents=(tip.head,), spec=spec))

        land(stores, name, "revert", build)

    def _drop_released(self, name: str) -> None:
        """Delete the branch that this process made for a quarantine that was released meanwhile."""
        quarantine = self.branch.records.quarantine(name)
        if quarantine is not None and quarantine.released:
            head = quarantine.head
            discard_branch(
                self.branch.stores, name, lambda now: now.commit_id == head and not now.fence
            )


def refused_changes(
    branch: IngestBranch, gates: tuple[Gate, ...], point: Point, spec: CommitSpec
) -> tuple[Commit, ...]:
    """Return the changes of a refused point that are to be quarantined.

    If there are several changes, each is judged on top of those before it that passed. The first
    refused change is returned. If none is refused, all are returned. Later changes of a table that
    a refused one has changed follow it, because the table is one log.
    """
    refused = _refused(branch, gates, point, spec)
    logs = {log for change in refused for log in _logs(branch.stores, change)}
    for change in (change for later in branch.unpublished() for change in later.changes):
        if change not in refused and logs and change.generation > refused[0].generation:
            touched = _logs(branch.stores, change)
            if touched & logs:
                logs |= touched
                refused = (*refused, change)
    return refused


def _refused(
    branch: IngestBranch, gates: tuple[Gate, ...], point: Point, spec: CommitSpec
) -> tuple[Commit, ...]:
    if len(point.changes) == 1:
        return point.changes
    stores, target = branch.stores, branch.target()
    if back := in_quarantine(stores, (change.id for change in point.changes)):
        return tuple(change for change in point.changes if change.id in back)
    work = IngestCandidacy(branch, point.commit, spec, gates)
    work.load_required_gates()
    tree = target.metarange
    for change in point.changes:
        try:
            tree = with_changes(stores, tree, (change,), "dest-wins")
            work.check(make_commit(stores, tree=tree, parents=(target,), spec=spec), target)
        except GateFailedError:
            return (change,)
    return point.changes


def before(stores: Stores, change: Commit) -> Commit:
    """Return the base of a commit's change: its first parent, or what is below expired ones."""
    line = islice(log(stores.refs.commits, change.id, first_parent=True), 1, None)
    return next(commit for commit in line if stores.refs.expired.find(commit.id) is None)


def with_changes(
    stores: Stores,
    tree: str,
    changes: Sequence[Commit],
    strategy: str = "source-wins",
    *,
    back: bool = False,
) -> str:
    """Return `tree` with the changes applied in order; by default they win over the tree.

    With `back`, they are reverted, the newest first.
    """
    for change in changes[::-1] if back else changes:
        sides = before(stores, change).metarange, change.metarange
        base, source = sides[::-1] if back else sides
        what = f"commit {change.id[:12]}"
        tree = merge_trees(
            stores, base=base, source=source, dest=tree, strategy=strategy, what=what
        ).metarange
    return tree


def shelf_base(commits: Commits, head: Commit) -> Commit:
    """Return the commit that a quarantine's branch begins with the changes of."""
    first = shelf_commit(commits, head)
    return commits.get((first or head).parents[0])


def shelf_commit(commits: Commits, head: Commit, name: str = "") -> Commit | None:
    """Return the newest commit of the line that begins a quarantine, or the one of that name."""
    for commit in log(commits, head.id, first_parent=True):
        found = commit.metadata.get(QUARANTINE)
        if found is not None:
            return commit if name in ("", found) else None
    return None


def record_restored(stores: Stores) -> None:
    """Record the ingestion branches and quarantines of a restored dump, which has no records."""
    commits = stores.refs.commits
    for branch in tuple(stores.refs.branches.list()):
        head = commits.get(branch.commit_id)
        ingestion = head.metadata.get(INGEST)
        if ingestion == branch.name:  # what waits on it is kept
            IngestRecords(stores, ingestion).change_standing(replace)
        first = shelf_commit(commits, head, branch.name)
        if first is None:
            continue
        pairs, records = first.metadata, IngestRecords(stores, first.metadata[INGEST])
        quarantine = Quarantine(
            name=branch.name,
            hours=(commit_hour(first),),
            commits=tuple(filter(None, pairs.get(CHANGES, "").split(","))),
            head=first.id,
            refusal=Refusal(first.created, first.message, ()),
            created=first.created,
            policy=pairs.get(POLICY, ""),
            units=tuple(map(_text, units_of(_logs(stores, first)))) * (POLICY not in pairs),
        )
        records.change_quarantine(quarantine)
        note_refused(stores, quarantine.commits, quarantine.name)
        if quarantine.policy or quarantine.units:
            names = (*records.standing().shelves, branch.name)
            records.change_standing(
                lambda now: replace(now, shelves=tuple(dict.fromkeys(names)))  # noqa: B023
            )


def _text(unit: bytes) -> str:
    return unit.decode("utf-8", "surrogateescape")


def _logs(stores: Stores, change: Commit) -> set[bytes]:
    changes = diff(stores.ranges, before(stores, change).metarange, change.metarange)
    return {log for key, _, _ in changes if (log := log_of(key)) is not None}


def needed_commits(stores: Stores) -> Iterator[tuple[str, str]]:
    """Yield the commits whose trees ticks and releases will read, with labels for a report.

    After a reset of the target, a commit that was published and is expired waits again. It is gone.
    """
    expired = stores.refs.expired
    return (need for need in _needed(stores) if expired.find(need[1]) is None)


def _needed(stores: Stores) -> Iterator[tuple[str, str]]:
    refs = stores.refs
    for name in branches_of(stores):
        records = IngestRecords(stores, name)
        standing = records.standing()
        branch = IngestBranch(stores, records, name, standing.into or "main")
        if all(refs.branches.find(one) for one in (name, branch.into)):
            for commit in _waiting(branch, standing.sealed):
                yield f"ingestion {name}", commit
        for quarantine in records.quarantines():
            record = refs.branches.find(quarantine.name)
            if record is not None and not quarantine.released:
                base = shelf_base(refs.commits, refs.commits.get(record.commit_id))
                yield f"quarantine {quarantine.name}", base.id
        for identifier in standing.taking.commits if standing.taking else ():
            yield from (
                (f"ingestion {name}", one) for one in _with_parents(refs.commits.get(identifier))
            )


def _waiting(branch: IngestBranch, sealed: str) -> Iterator[str]:
    commits, (head, target) = branch.stores.refs.commits, branch.tips()
    for commit in unpublished_line(commits, head, target):
        yield from _with_parents(commit)
    since = last_sealed(commits, head, lambda: sealed)
    yield since.id
    yield from (base.id for base in merge_bases(commits, since.id, target.id))


def _with_parents(commit: Commit) -> tuple[str, ...]:
    return (commit.id, *commit.parents)
