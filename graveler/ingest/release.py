"""The release of a quarantine: its branch is judged again, published, and deleted.

Writes staged there at the time of the call are committed and published with it. A compare-and-set
closes the branch to further writes. The branch is deleted only if nothing was staged since. A
repair at the last moment is therefore published too.
"""

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial

from graveler.committed.apply import StagedChange, apply
from graveler.committed.bases import CONFLICT
from graveler.committed.diff import RawChange, diff, same_content
from graveler.committed.merge import RawConflict, staged
from graveler.committed.metarange import get
from graveler.committed.units import log_of, name_of, units_of
from graveler.errors import (
    FencedError,
    GravelerError,
    NoChangesError,
    NotFoundError,
    RefNotFoundError,
    ThrottledError,
)
from graveler.gates import Gate
from graveler.ingest.delivery import IngestCandidacy
from graveler.ingest.hours import commit_hour, hour_kinds, hour_pairs, hours_text, user_pairs
from graveler.ingest.quarantine import Quarantines, shelf_base, shelf_commit
from graveler.ingest.records import Quarantine
from graveler.ingest.shelves import changes_on
from graveler.ingest.taking import Taking
from graveler.ingest.unpublished import INGEST, IngestBranch, published_by
from graveler.model import BranchRecord, Commit
from graveler.publishing.landing import CommitSpec, land, make_commit
from graveler.publishing.tables import Watch
from graveler.reads.changes import diff_commits
from graveler.refs.history import is_ancestor
from graveler.refs.mover import move
from graveler.repository.commits import sealing
from graveler.repository.merges import conflict_error, describe, merge_trees
from graveler.repository.origins import note_refused
from graveler.repository.strategies import Settlement, Strategy, settling
from graveler.runs.branch import discard_branch

_ROUNDS = 200
_SHOWN = 100
_CLOSED = "released:"


@dataclass(frozen=True, slots=True)
class Releases:
    """The releases of the quarantines of one ingestion branch."""

    branch: IngestBranch

    def release(
        self,
        name: str,
        gates: tuple[Gate, ...],
        *,
        strategy: Strategy | None,
        metadata: Mapping[str, str] | None,
    ) -> tuple[Commit, bool]:
        """Publish a quarantine's branch; return the commit, and whether it existed before.

        The commit has `metadata`, or the metadata of the tick that made the change.
        """
        quarantine = self.branch.records.quarantine(name)
        if quarantine is None:
            raise NotFoundError(
                f"no quarantine {name!r} of branch {self.branch.name!r}: "
                "`graveler ingest quarantined` lists them"
            )
        already = bool(quarantine.released)
        for _ in range(_ROUNDS):
            Quarantines(self.branch).settle()
            quarantine = self._marked(quarantine, releasing=True)
            if quarantine.released:
                self._drop(quarantine)
                return self.branch.stores.refs.commits.get(quarantine.released), already
            self._publish(quarantine, gates, strategy, metadata)
            self._finish(quarantine)
        raise ThrottledError(f"quarantine {name!r} is busy: writers keep writing to it; try again")

    def settle(self) -> None:
        """Finish the releases that were interrupted after they were published."""
        for quarantine in tuple(self.branch.records.quarantines()):
            if quarantine.releasing and quarantine.released:
                self._drop(quarantine)
            elif quarantine.releasing:
                self._finish(quarantine)

    def _finish(self, quarantine: Quarantine) -> None:
        """Close a quarantine if everything on its branch is published."""
        stores = self.branch.stores
        history = stores.refs.commits
        record = stores.refs.branches.find(quarantine.name)
        if record is None:
            return
        landed = published_by(history, history.get(record.commit_id), self.branch.target())
        if landed is None:
            return
        closed = self._close(quarantine.name, record.commit_id)
        if closed is None:
            return
        tokens = (closed.staging_token, *closed.sealed_tokens)
        if not all(stores.staging.is_empty(token) for token in tokens):
            self._reopen(closed)
            return
        # the quarantine is closed, so what this sets aside is not released
        Taking(self.branch).take()
        quarantine = self.branch.records.change_quarantine(
            quarantine,
            lambda now: now if now.released else replace(now, released=landed.id),
        )
        self._drop(quarantine)

    def _marked(self, quarantine: Quarantine, *, releasing: bool) -> Quarantine:
        def change(now: Quarantine) -> Quarantine:
            if now.releasing == releasing or (releasing and now.released):
                return now
            return replace(now, releasing=releasing)

        return self.branch.records.change_quarantine(quarantine, change)

    def _publish(
        self,
        quarantine: Quarantine,
        gates: tuple[Gate, ...],
        strategy: Strategy | None,
        metadata: Mapping[str, str] | None,
    ) -> None:
        head = self._head(quarantine)
        if head is None:
            return
        spec = CommitSpec(
            f"{self.branch.name} {hours_text(quarantine.hours)} released",
            self._pairs(quarantine, head, metadata),
        )
        try:
            with settling(self.branch.stores, strategy, head.id, self.branch.into) as settled:
                head = self._on_target(quarantine, head, settled)
                settle = partial(self._settled, quarantine, head, settled)
                IngestCandidacy(
                    self.branch,
                    head,
                    spec,
                    gates,
                    strategy=settled,
                    tree=settle if quarantine.policy else None,
                ).publish()
        except GravelerError:
            self._marked(quarantine, releasing=False)
            raise

    def _head(self, quarantine: Quarantine) -> Commit | None:
        """Commit staged writes and return the head; None if the branch is closed already."""
        stores, name = self.branch.stores, quarantine.name
        record = stores.refs.branches.find(name)
        if record is None:
            if (self.branch.records.quarantine(name) or quarantine).released:
                return None
            raise RefNotFoundError(
                f"quarantine {name!r}: its branch was deleted; `graveler undo {name}` brings it back"
            )
        if record.fence.startswith(_CLOSED):
            return None
        # another release may close or delete the branch between two reads
        with suppress(NoChangesError, FencedError, RefNotFoundError):
            sealing.commit(stores, name, CommitSpec(f"{name}: repaired"))
        record = stores.refs.branches.find(name)
        return None if record is None else stores.refs.commits.get(record.commit_id)

    def _pairs(
        self, quarantine: Quarantine, head: Commit, metadata: Mapping[str, str] | None
    ) -> Mapping[str, str]:
        stores = self.branch.stores
        first = stores.refs.commits.get(quarantine.head)
        latest = shelf_commit(stores.refs.commits, head) or first
        hour = latest.metadata.get("hour") or (quarantine.hours or (commit_hour(first),))[-1]
        base = shelf_base(stores.refs.commits, head)
        return {
            **user_pairs(first.metadata if metadata is None else metadata),
            **hour_pairs(hour, hour_kinds(diff_commits(stores, base, head), hour)),
            INGEST: self.branch.name,
            "released": quarantine.name,
        }

    def _on_target(self, quarantine: Quarantine, head: Commit, settlement: Settlement) -> Commit:
        """Make a quarantine again on the target, if the target has lost what it is on.

        Otherwise its release would bring back what an undo or a reset of the target has dropped.
        """
        stores, target = self.branch.stores, self.branch.target()
        base = shelf_base(stores.refs.commits, head)
        if is_ancestor(stores.refs.commits, base.id, target.id):
            return head
        first = shelf_commit(stores.refs.commits, head) or stores.refs.commits.get(quarantine.head)
        tree = merge_trees(
            stores,
            base=base.metarange,
            source=head.metarange,
            dest=target.metarange,
            strategy="source-wins" if quarantine.policy else settlement,
            what=f"release of {quarantine.name}",
            lines=(head, target),
        ).metarange
        spec = CommitSpec(first.message, first.metadata)
        made = make_commit(stores, tree=tree, parents=(target,), spec=spec)
        name = quarantine.name
        return land(
            stores, name, "reset", lambda tip: tip.at(made) if tip.head.id == head.id else None
        ).head

    def _settled(
        self, quarantine: Quarantine, head: Commit, settlement: Settlement, target: Commit
    ) -> tuple[str, list[bytes]]:
        """Return the target's tree with the writes of the shelf that the strategy chooses.

        The second value has the paths of the shelf that equal the target.

        Every write conflicts that differs from the target: others changed the path before the write
        was set aside. A table is one conflict.
        """
        stores, tree, ranges = self.branch.stores, target.metarange, self.branch.stores.ranges
        writes = list(changes_on(stores, head))
        units = units_of({log for key, _, _ in writes if (log := log_of(key)) is not None})
        conflicts: list[RawConflict] = []
        chosen: list[StagedChange] = []
        for unit in units:
            whole = settlement.whole(name_of(unit)) if settlement.whole else None
            if (whole or settlement.word) == "source-wins":
                chosen += map(staged, diff(stores.ranges, tree, head.metarange, prefix=unit))
            elif not (whole or settlement.word):
                conflicts.append(RawConflict(name_of(unit), None, None, None))
        equal = [one.key for one in writes if same_content(one[2], get(ranges, tree, one.key))]
        for key, before, ours in writes:
            now = get(ranges, tree, key)
            if key.startswith(units) or same_content(ours, now):
                continue
            value = settlement.resolve(key, before, ours, now) if settlement.resolve else CONFLICT
            if value is CONFLICT and settlement.word:
                value = ours if settlement.word == "source-wins" else now
            if value is CONFLICT:
                conflicts.append(RawConflict(key, before, ours, now))
            elif not same_content(value, now):
                chosen.append(staged(RawChange(key, now, value)))
        if conflicts:
            shown = describe(stores, sorted(conflicts)[:_SHOWN], source=head, dest=target)
            raise conflict_error(f"release of {quarantine.name}", shown, len(conflicts))
        tables = Watch()
        made = apply(stores.ranges, tree, tables.of(sorted(chosen)), stores.splitting).metarange
        tables.check(stores, target, made)
        return made, equal

    def _close(self, name: str, head: str) -> BranchRecord | None:
        refs = self.branch.stores.refs
        closed = _CLOSED + self.branch.stores.ids.unique()

        def change(record: BranchRecord) -> BranchRecord:
            if record.commit_id != head or record.fence.startswith(_CLOSED):
                return record
            return replace(record, fence=closed)

        try:
            now = move(refs, name, change, landed=lambda now: now.fence == closed)
        except RefNotFoundError:
            return None
        return now if now.commit_id == head and now.fence.startswith(_CLOSED) else None

    def _reopen(self, closed: BranchRecord) -> None:
        fence, refs = closed.fence, self.branch.stores.refs

        def change(record: BranchRecord) -> BranchRecord:
            return replace(record, fence="") if record.fence == fence else record

        with suppress(RefNotFoundError):
            move(refs, closed.name, change, landed=lambda now: now.fence != fence)

    def _drop(self, quarantine: Quarantine) -> None:
        stores = self.branch.stores
        discard_branch(stores, quarantine.name, lambda now: now.fence.startswith(_CLOSED))
        note_refused(stores, quarantine.commits, "")
        self._marked(quarantine, releasing=False)
