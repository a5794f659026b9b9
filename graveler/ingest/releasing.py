"""Releasing a quarantine: its branch is judged again, published, and goes.

What is staged there when it is called is committed and published with it. The branch goes by a
compare-and-set that lets no more writes in, and only if nothing was staged since: what somebody
mends at the last moment is published too.
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
from graveler.ingest.catching_up import catch_up
from graveler.ingest.hours import late_hours
from graveler.ingest.line import INGEST, published_by
from graveler.ingest.publishing import Publisher
from graveler.ingest.quarantining import Quarantines
from graveler.ingest.record import Quarantine
from graveler.ingest.records import IngestRecords
from graveler.ingest.trees import before
from graveler.model import BranchRecord, Commit
from graveler.publishing.landing import CommitSpec
from graveler.reads.changes import diff_commits
from graveler.reads.stores import Stores
from graveler.refs import move, remove
from graveler.repository import commits

_ROUNDS: Final = 200
_CLOSED: Final = "released:"


@dataclass(frozen=True, slots=True)
class Releases:
    """Releases the quarantines of one ingestion branch.

    Attributes:
        stores: The repository.
        records: Of the branch.
        quarantines: What takes changes off it.
        branch: Its name.
        into: Where to publish.
    """

    stores: Stores
    records: IngestRecords
    quarantines: Quarantines
    branch: str
    into: str

    def release(
        self,
        name: str,
        publisher: Publisher,
        *,
        strategy: str | None,
        metadata: Mapping[str, str] | None,
    ) -> tuple[Commit, bool]:
        """Publish a quarantine's branch; return the commit, and whether it was there before.

        Its commit has the pairs of `metadata`, or of the tick whose change it was.

        Raises:
            GateFailedError: A gate refuses it still; it stays in quarantine.
            MergeConflictError: The target has the same paths by now, differently; it stays.
            NotFoundError: No such quarantine.
            RefNotFoundError: Somebody has deleted its branch.
        """
        kept = self.records.quarantine(name)
        if kept is None:
            raise NotFoundError(
                f"no quarantine {name!r} of branch {self.branch!r}: "
                "`graveler ingest quarantined` shows those there are"
            )
        already = bool(kept.released)
        for _ in range(_ROUNDS):
            self.quarantines.settle()
            kept = self._marked(kept, releasing=True)
            if kept.released:
                self._drop(kept)
                return self.stores.refs.commits.get(kept.released), already
            self._publish(kept, publisher, strategy, metadata)
            self.finish(kept)
        raise ThrottledError(f"quarantine {name!r} is busy: it was written to all the while")

    def settle(self) -> None:
        """Finish the releases that were cut off after they had been published."""
        for kept in tuple(self.records.quarantines()):
            if kept.releasing:
                if kept.released:
                    self._drop(kept)
                else:
                    self.finish(kept)

    def finish(self, kept: Quarantine) -> None:
        """Close a quarantine if all that is on its branch is published."""
        record = self.stores.refs.branches.find(kept.name)
        if record is None:
            return
        commits = self.stores.refs.commits
        target = commits.get(self.stores.refs.branches.get(self.into).commit_id)
        landed = published_by(commits, commits.get(record.commit_id), target)
        if landed is None:
            return
        catch_up(self.stores, self.branch, self.into)
        closed = self._close(kept.name, record.commit_id)
        if closed is None:
            return
        tokens = (closed.staging_token, *closed.sealed_tokens)
        if not all(self.stores.staging.is_empty(token) for token in tokens):
            self._reopen(closed)
            return
        kept = self.records.change_quarantine(
            kept, lambda there: there if there.released else replace(there, released=landed.id)
        )
        self._drop(kept)

    def _marked(self, kept: Quarantine, *, releasing: bool) -> Quarantine:
        def change(there: Quarantine) -> Quarantine:
            if there.releasing == releasing or (releasing and there.released):
                return there
            return replace(there, releasing=releasing)

        return self.records.change_quarantine(kept, change)

    def _publish(
        self,
        kept: Quarantine,
        publisher: Publisher,
        strategy: str | None,
        metadata: Mapping[str, str] | None,
    ) -> None:
        head = self._head(kept)
        if head is None:
            return
        pairs = self._pairs(kept, head, metadata)
        spec = CommitSpec(f"{self.branch} {', '.join(kept.hours)} released", pairs)
        try:
            publisher.publish(head, spec, wanted=lambda: True, strategy=strategy)
        except GravelerError:
            self._marked(kept, releasing=False)
            raise

    def _head(self, kept: Quarantine) -> Commit | None:
        """Commit what is staged and return the head; None where the branch is closed already."""
        record = self.stores.refs.branches.find(kept.name)
        if record is None:
            if (self.records.quarantine(kept.name) or kept).released:
                return None
            raise RefNotFoundError(
                f"quarantine {kept.name!r}: its branch was deleted; "
                f"`graveler undo {kept.name}` brings it back"
            )
        if record.fence.startswith(_CLOSED):
            return None
        # what closes the branch, or takes it away, between two looks is another release
        with suppress(NoChangesError, FencedError, RefNotFoundError):
            commits.commit(self.stores, kept.name, CommitSpec(f"{kept.name}: repaired"))
        record = self.stores.refs.branches.find(kept.name)
        return None if record is None else self.stores.refs.commits.get(record.commit_id)

    def _pairs(
        self, kept: Quarantine, head: Commit, metadata: Mapping[str, str] | None
    ) -> Mapping[str, str]:
        first = self.stores.refs.commits.get(kept.head)
        theirs = metadata
        if theirs is None:
            told = first.metadata.items()
            theirs = {key: text for key, text in told if not key.startswith("graveler.")}
        pairs = {**theirs, "hour": kept.hours[-1], INGEST: self.branch, "released": kept.name}
        if len(kept.hours) > 1:
            pairs["hours"] = ",".join(kept.hours)
        changes = diff_commits(self.stores, before(self.stores, first), head)
        late = [hour for hour in late_hours(changes, kept.hours[-1]) if hour not in kept.hours]
        pairs["late"] = ",".join(late)
        return {key: text for key, text in pairs.items() if text}

    def _close(self, name: str, head: str) -> BranchRecord | None:
        """Let no more writes in, if the branch still is at `head`."""
        closed = _CLOSED + self.stores.ids.unique()

        def change(there: BranchRecord) -> BranchRecord:
            if there.commit_id != head or there.fence.startswith(_CLOSED):
                return there
            return replace(there, fence=closed)

        try:
            now = move(self.stores.refs, name, change, landed=lambda now: now.fence == closed)
        except RefNotFoundError:
            return None
        return now if now.commit_id == head and now.fence.startswith(_CLOSED) else None

    def _reopen(self, closed: BranchRecord) -> None:
        def change(there: BranchRecord) -> BranchRecord:
            return replace(there, fence="") if there.fence == closed.fence else there

        with suppress(RefNotFoundError):
            move(
                self.stores.refs,
                closed.name,
                change,
                landed=lambda now: now.fence != closed.fence,
            )

    def _drop(self, kept: Quarantine) -> None:
        refs = self.stores.refs
        tokens = remove(refs, kept.name, lambda record: record.fence.startswith(_CLOSED))
        self.stores.staging.drop(*tokens)
        self._marked(kept, releasing=False)
