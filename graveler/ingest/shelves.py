"""Shelves: quarantine branches to which writes that must not be published are set aside.

The writes that conflict with changes of others on the target share one shelf of one commit, which is made
again on the present target when more of them come. A quarantined change of a table is a shelf, too: later
writes to the table join it, because a table without its latest version cannot be appended to.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice

from graveler.committed.apply import StagedChange, apply
from graveler.committed.diff import RawChange, diff, same_content
from graveler.committed.merge import staged
from graveler.committed.metarange import get
from graveler.committed.units import log_of, units_of
from graveler.errors import FencedError, RefNotFoundError
from graveler.ingest.quarantine import Quarantines, shelf_base
from graveler.ingest.records import HourRecord, Quarantine, Standing
from graveler.ingest.unpublished import INGEST, POLICY, QUARANTINE, IngestBranch
from graveler.model import BranchRecord, Commit
from graveler.publishing.landing import CommitSpec, Tip, land, make_commit
from graveler.reads.stores import Stores
from graveler.refs.history import is_ancestor
from graveler.repository.merges import merge_trees
from graveler.runs.record import Refusal

Whole = tuple[str, tuple[bytes, ...]]

_NAMED = 100
_SHOWN = 5
_HOURS = 24


@dataclass(frozen=True, slots=True)
class Shelf:
    """A quarantine that takes later writes to its paths and to its folders of tables."""

    name: str
    keys: frozenset[bytes]
    units: tuple[bytes, ...]

    def takes(self, key: bytes) -> bool:
        """Return whether a write to the path joins the shelf."""
        return key in self.keys or key.startswith(self.units)


@dataclass(frozen=True, slots=True)
class Shelves:
    """The shelves of one ingestion branch."""

    branch: IngestBranch

    def open(self) -> tuple[Shelf, ...]:
        """Return the shelves that are neither released nor deleted, and have a write."""
        stores, standing = self.branch.stores, self.branch.records.standing()
        taking, shelves = standing.taking, []
        names = standing.shelves if taking is None else (*standing.shelves, taking.name)
        for quarantine, head in filter(None, map(self._find, names)):
            units = tuple(unit.encode("utf-8", "surrogateescape") for unit in quarantine.units)
            keys: frozenset[bytes] = frozenset()
            if quarantine.policy:
                keys = frozenset(change.key for change in changes_on(stores, head))
                units = units_of(filter(None, map(log_of, keys)))
            shelves.append(Shelf(quarantine.name, keys, units))
        return tuple(shelves)

    def waiting(self, record: HourRecord) -> dict[str, Quarantine]:
        """Return the paths of an hour that are set aside still, with their quarantines."""
        ranges, waiting = self.branch.stores.ranges, {}
        for name in sorted(set(record.aside.values())):
            if (found := self._find(name)) is None:
                continue
            base = shelf_base(self.branch.stores.refs.commits, found[1])
            for path in (path for path, shelf in record.aside.items() if shelf == name):
                values = (get(ranges, tree.metarange, path.encode()) for tree in (base, found[1]))
                if not same_content(*values):
                    waiting[path] = found[0]
        return waiting

    def return_lost(self, target: Commit) -> None:
        """Bring back the quarantines whose releases the target has no more."""
        records, commits = self.branch.records, self.branch.stores.refs.commits
        for quarantine in tuple(records.quarantines()):
            lost = quarantine.released
            if lost and not is_ancestor(commits, lost, target.id):
                source = commits.get(lost).parents[1]
                Quarantines(self.branch).make_branch(replace(quarantine, released="", head=source))
                records.change_quarantine(
                    quarantine,
                    lambda now: replace(now, released="") if now.released == lost else now,  # noqa: B023
                )
                if quarantine.policy:
                    self._list(quarantine.name)

    def _list(self, name: str) -> None:
        def change(standing: Standing) -> Standing:
            if name in standing.shelves:
                return standing
            return replace(standing, shelves=(*standing.shelves, name))

        self.branch.records.change_standing(change)

    def put(
        self,
        changes: Sequence[StagedChange],
        hours: Mapping[str, Sequence[bytes]],
        shelf: str = "",
        whole: Whole = ("", ()),
    ) -> None:
        """Set writes aside, in key order. Afterwards they may be removed from the ingestion branch.

        `hours` has the paths by hour. `shelf` is the one that they join; "" for the common one.
        `whole` is a tree, and folders of tables that the shelf gets from it before the writes.
        """
        name = shelf or self._common(max(hours))
        try:
            self._join(name, changes, hours, whole)
        except (FencedError, RefNotFoundError):  # it is being released: make another one
            self._join(self._common(max(hours), without=name), changes, hours, whole)

    def _join(
        self,
        name: str,
        changes: Sequence[StagedChange],
        hours: Mapping[str, Sequence[bytes]],
        whole: Whole,
    ) -> None:
        """Write to a shelf, and note in the records of the hours where their writes are."""
        found, stores = self._find(name), self.branch.stores
        common = found is not None and bool(found[0].policy)
        for hour, keys in hours.items():
            self._note(hour, name, keys)
        paths = [key.decode("utf-8", "backslashreplace") for key, _, _ in changes]
        what = f"{self.branch.name} {max(hours)}: {_shown(paths)} set aside"

        def build(tip: Tip) -> BranchRecord | None:
            parent, tree, pairs = tip.head, tip.head.metarange, {INGEST: self.branch.name}
            if common:
                base, parent = shelf_base(stores.refs.commits, tip.head), self.branch.target()
                pairs |= {QUARANTINE: name, POLICY: self.branch.policy, "hour": max(hours)}
                tree = merge_trees(
                    stores,
                    base=base.metarange,
                    source=tree,
                    dest=parent.metarange,
                    strategy="source-wins",
                    what=what,
                ).metarange
            for unit in whole[1]:
                table = map(staged, diff(stores.ranges, tree, whole[0], prefix=unit))
                tree = apply(stores.ranges, tree, table, stores.splitting).metarange
            tree = apply(stores.ranges, tree, changes, stores.splitting).metarange
            if tree == tip.head.metarange and parent.id in {tip.head.id, *tip.head.parents}:
                return None
            spec = CommitSpec(what, pairs)
            return tip.at(make_commit(stores, tree=tree, parents=(parent,), spec=spec))

        land(stores, name, "set-aside", build)
        if common:
            self._tell(name, max(hours), paths)

    def _find(self, name: str) -> tuple[Quarantine, Commit] | None:
        refs = self.branch.stores.refs
        quarantine, record = self.branch.records.quarantine(name), refs.branches.find(name)
        if quarantine is None or quarantine.released or record is None:
            return None
        return quarantine, refs.commits.get(record.commit_id)

    def _is_common(self, name: str) -> bool:
        """Return whether a shelf is the common one, or is about to be made."""
        quarantine = self.branch.records.quarantine(name)
        if quarantine is None or not quarantine.hours:
            return quarantine is None or bool(quarantine.policy)
        return bool(quarantine.policy) and self._find(name) is not None

    def _common(self, hour: str, without: str = "") -> str:
        """Return the name of the common shelf, which is made if it does not exist."""
        stores, target = self.branch.stores, self.branch.target()
        free = Quarantines(self.branch).free_name(hour)

        def common(standing: Standing) -> Iterator[str]:
            return (one for one in standing.shelves if one != without and self._is_common(one))

        def change(standing: Standing) -> Standing:
            if any(common(standing)):
                return standing
            names = (*filter(self._find, standing.shelves), free)  # without those that are over
            return replace(standing, shelves=tuple(dict.fromkeys(names)))

        name = next(common(self.branch.records.change_standing(change)))
        if self._find(name) is None:
            spec = CommitSpec(
                f"{self.branch.name} {hour}: set aside",
                {INGEST: self.branch.name, QUARANTINE: name, POLICY: self.branch.policy},
            )
            head = make_commit(stores, tree=target.metarange, parents=(target,), spec=spec)
            now = stores.clock.now()
            quarantine = Quarantine(
                name=name,
                hours=(),
                commits=(),
                head=head.id,
                refusal=Refusal(now, "set aside", ()),
                created=now,
                policy=self.branch.policy,
            )
            Quarantines(self.branch).make_branch(self.branch.records.change_quarantine(quarantine))
        return name

    def _note(self, hour: str, name: str, keys: Sequence[bytes]) -> None:
        paths = [key.decode("utf-8", "backslashreplace") for key in keys[:_NAMED]]

        def change(record: HourRecord) -> HourRecord:
            return replace(
                record,
                aside=dict(islice((record.aside | dict.fromkeys(paths, name)).items(), _NAMED)),
                ticked=record.ticked and record.nonce != "",
            )

        self.branch.records.change_hour(hour, change)

    def _tell(self, name: str, hour: str, paths: list[str]) -> None:
        reason = (
            f"{self.branch.name} {hour}: {_shown(paths)} also changed by others on "
            f"{self.branch.into}; release {name} with a strategy, or delete it"
        )
        refusal = Refusal(self.branch.stores.clock.now(), reason, ())

        def change(now: Quarantine) -> Quarantine:
            hours = tuple(dict.fromkeys((*now.hours, hour)))[-_HOURS:]
            return replace(now, hours=hours, refusal=refusal, policy=self.branch.policy)

        quarantine = self.branch.records.quarantine(name)
        if quarantine is not None:
            self.branch.records.change_quarantine(quarantine, change)


def changes_on(stores: Stores, head: Commit) -> Iterator[RawChange]:
    """Yield the changes on a shelf, from its base."""
    base = shelf_base(stores.refs.commits, head)
    return diff(stores.ranges, base.metarange, head.metarange)


def _shown(paths: Sequence[str]) -> str:
    more = f" and {len(paths) - _SHOWN} more" if len(paths) > _SHOWN else ""
    return ", ".join(paths[:_SHOWN]) + more + (" was" if len(paths) == 1 else " were")
