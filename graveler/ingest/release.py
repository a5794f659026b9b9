"""The release of a quarantine: its branch is judged again, published, and deleted.

Writes staged there at the time of the call are committed and published with it. A compare-and-set
closes the branch to further writes. The branch is deleted only if nothing was staged since. A
repair at the last moment is therefore published too.
"""

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Final

from graveler.errors import (
    FencedError,
    GravelerError,
    NoChangesError,
    NotFoundError,
    RefNotFoundError,
    ThrottledError,
)
from graveler.gates import Gate
from graveler.ingest.hours import hour_pairs, late_hours, user_pairs
from graveler.ingest.publishing import IngestCandidacy
from graveler.ingest.quarantine import Quarantines, before
from graveler.ingest.records import Quarantine
from graveler.ingest.unpublished import INGEST, IngestBranch, published_by
from graveler.model import BranchRecord, Commit
from graveler.publishing.landing import CommitSpec
from graveler.reads.changes import diff_commits
from graveler.refs import move, remove
from graveler.repository import commits
from graveler.repository.strategies import Strategy, settling

_ROUNDS: Final = 200
_CLOSED: Final = "released:"


@dataclass(frozen=True, slots=True)
class Releases:
    """The releases of the quarantines of one ingestion branch.

    Attributes:
        branch: The branch.
        quarantines: Its quarantines.
    """

    branch: IngestBranch
    quarantines: Quarantines

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

        Raises:
            GateFailedError: A gate still refuses it; it stays in quarantine.
            MergeConflictError: The target has changed the same paths differently; it stays.
            NotFoundError: No such quarantine.
            RefNotFoundError: Its branch was deleted.
        """
        quarantine = self.branch.records.quarantine(name)
        if quarantine is None:
            raise NotFoundError(
                f"no quarantine {name!r} of branch {self.branch.name!r}: "
                "`graveler ingest quarantined` lists them"
            )
        already = bool(quarantine.released)
        for _ in range(_ROUNDS):
            self.quarantines.settle()
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
        self.branch.sync()
        closed = self._close(quarantine.name, record.commit_id)
        if closed is None:
            return
        tokens = (closed.staging_token, *closed.sealed_tokens)
        if not all(stores.staging.is_empty(token) for token in tokens):
            self._reopen(closed)
            return
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
            f"{self.branch.name} {', '.join(quarantine.hours)} released",
            self._pairs(quarantine, head, metadata),
        )
        try:
            with settling(self.branch.stores, strategy) as settled:
                IngestCandidacy(self.branch, head, spec, gates, strategy=settled).publish()
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
            commits.commit(stores, name, CommitSpec(f"{name}: repaired"))
        record = stores.refs.branches.find(name)
        return None if record is None else stores.refs.commits.get(record.commit_id)

    def _pairs(
        self, quarantine: Quarantine, head: Commit, metadata: Mapping[str, str] | None
    ) -> Mapping[str, str]:
        stores, hours = self.branch.stores, quarantine.hours
        first = stores.refs.commits.get(quarantine.head)
        changes = diff_commits(stores, before(stores, first), head)
        late = [hour for hour in late_hours(changes, hours[-1]) if hour not in hours]
        return {
            **(user_pairs(first.metadata) if metadata is None else metadata),
            **hour_pairs(hours, late),
            INGEST: self.branch.name,
            "released": quarantine.name,
        }

    def _close(self, name: str, head: str) -> BranchRecord | None:
        """Refuse further writes if the branch is still at `head`."""
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
        tokens = remove(
            stores.refs, quarantine.name, lambda record: record.fence.startswith(_CLOSED)
        )
        stores.staging.drop(*tokens)
        self._marked(quarantine, releasing=False)
