"""Rebase: the changes of the source, judged against those of the destination, and put onto its head."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from pyiceberg.manifest import DataFileContent

from graveler.tables.merging.changes import Change, Places
from graveler.tables.merging.conflicts import Refusal
from graveler.tables.merging.head import Head
from graveler.tables.merging.histories import Histories

MERGE = "graveler.merge"
"""Table property. ``partition``: an append counts as an overwrite of its partitions."""
_SHOWN = 3


def rebase(head: Head, histories: Histories) -> None:
    """Put the changes of the source onto the head, or refuse.

    Changes that the source lost are undone first.
    """
    strict = head.metadata.properties.get(MERGE) == "partition"
    work = _Rebase(
        head,
        histories.theirs,
        complete=histories.complete,
        strict=strict,
        overtaken=histories.overtaken,
        gone=[*histories.gone],
    )
    for change in [*histories.lost, *histories.gained]:
        if change.inverse and not histories.complete and work.is_done(change):
            continue
        if change.is_compaction:
            work.compaction(change)
        elif change.is_append and not strict:
            work.append(change)
        else:
            work.judged(change)


def _paths(change: Change, *, added: bool) -> set[str]:
    entries = change.added if added else change.removed
    return {entry.data_file.file_path for entry in entries}


@dataclass
class _Rebase:
    """The rules for one change after the other.

    Attributes:
        theirs: What the destination did since the base, without the compactions that were undone.
        gone: The compactions of the source that gave way.
    """

    head: Head
    theirs: list[Change]
    complete: bool
    strict: bool
    overtaken: Collection[int]
    gone: list[Change]

    def is_done(self, change: Change) -> bool:
        """Whether the head has no file that a change removes, and all that it adds."""
        return not (self.head.plan(change.removed).removed or self.head.plan(change.added).missing)

    def compaction(self, change: Change) -> None:
        """Put a compaction onto the head, or leave it out if the destination changed what it rewrote."""
        if not (change.added or change.removed):  # of manifests
            return self.head.renumber(change)
        known = change.snapshot.snapshot_id not in self.overtaken
        apart = (
            known
            and self.complete
            and all(
                other.is_compaction or change.touched.meeting(other.deletes) is None
                for other in self.theirs
            )
        )
        plan = self.head.plan(change.removed) if apart else None
        if plan is None or plan.missing:
            self.gone.append(change)
            return self.head.renumber(change)
        return self.head.add(change, plan)

    def append(self, change: Change) -> None:
        """Put an append onto the head, unless a snapshot that expired there has brought its files."""
        if not self.complete and self.head.plan(change.added).removed:
            raise self._refusal(change, None, "the files that it adds are there already")
        self.head.add(change, self.head.plan(()))

    def judged(self, change: Change) -> None:
        """Put any other change onto the head, or refuse it."""
        if not self.complete:
            raise self._refusal(
                change,
                None,
                "what the destination did since the base is unknown: its snapshots have expired, or it went "
                "back behind the base",
            )
        for other in self.theirs:
            if not other.is_compaction:
                self._compare(change, other)
        for lost in self.gone:
            met = change.positions.meeting(lost.touched)
            if met is not None:
                raise self._needs(change, met)
        if change.is_undo and self.head.plan(change.added).removed:
            raise self._refusal(change, None, "the files that it brings back are there already")
        self._undo_compactions(change)
        plan = self.head.plan(change.removed)
        merged = {path for lost in self.gone for path in _paths(lost, added=True)}
        if plan.missing & merged:
            raise self._needs(change, change.rewritten.meeting(change.rewritten))
        if plan.missing and any(e.data_file.content == DataFileContent.DATA for e in change.added):
            shown = ", ".join(sorted(plan.missing)[:_SHOWN])
            where = change.rewritten.meeting(change.rewritten)
            reason = f"{len(plan.missing)} files that it replaces are no longer there: {shown}"
            raise self._refusal(change, None, reason, where)
        if change.is_undo:
            self._check_replaced(change, bool(plan.missing))
        self.head.add(change, plan)

    def _check_replaced(self, change: Change, missing: bool) -> None:
        """Refuse an undo that removes rows which were changed since: they are now in other files."""
        later = [other for other in self.theirs if not other.is_compaction]
        if missing or _first_meeting(change.rewritten, [one.deletes for one in later]):
            met = _first_meeting(change.rewritten, [one.data for one in later])
            if met is not None:
                reason = "files that it removes lost rows since, and there is new data"
                raise self._refusal(change, None, reason, met)

    def _compare(self, change: Change, other: Change) -> None:
        if not change.is_undo:
            self._compare_new_data(change, other)
        elif (met := change.marked.meeting(other.rewritten)) is not None:
            reason = "rows that it brings back were in files that have been removed since the base"
            raise self._refusal(change, other, reason, met)
        # deletes apply to files that an undo brings back, too
        rewritten = change.touched if change.is_undo else change.rewritten
        met = rewritten.meeting(other.deletes) if change.data.any else None
        if met is not None:
            reason = "rows were deleted since the base from files that it rewrites or brings back"
            raise self._refusal(change, other, reason, met)

    def _compare_new_data(self, change: Change, other: Change) -> None:
        equality = change.adding(DataFileContent.EQUALITY_DELETES)
        if equality.any and other.data.any:
            reason = "it has equality deletes, which apply to all rows, and there is new data since the base"
            raise self._refusal(change, other, reason)
        met = change.touched.meeting(other.data)
        if met is not None:
            reason = "there is new data since the base, which it has not seen"
            raise self._refusal(change, other, reason, met)

    def _undo_compactions(self, change: Change) -> None:
        """Undo the destination's compactions of files that the change removes or deletes rows from."""
        wanted = _paths(change, added=False)
        undone: list[Change] = []
        for other in self.theirs:
            if not other.is_compaction:
                continue
            removed = _paths(other, added=False)
            if removed & wanted or change.marked.meeting(other.rewritten) is not None:
                wanted |= _paths(other, added=True)
                undone.insert(0, other)
        for other in undone:
            self.theirs = [one for one in self.theirs if one is not other]
            inverse = other.undone()
            plan = self.head.plan(inverse.removed)
            later = [one for one in self.theirs if not one.is_compaction]
            deleted = _first_meeting(inverse.touched, [one.deletes for one in later])
            if plan.missing or deleted is not None:
                reason = (
                    "rows that it changes were compacted since the base, and then changed again"
                )
                raise self._refusal(change, other, reason, deleted)
            self.head.add(inverse, plan)

    def _needs(self, change: Change, where: list[str] | None) -> Refusal:
        reason = "it changes files of a compaction of its own, which gave way to the destination"
        return self._refusal(change, None, reason, where)

    def _refusal(
        self, change: Change, other: Change | None, reason: str, where: Sequence[str] | None = None
    ) -> Refusal:
        if where is None:
            where = change.touched.meeting(change.touched)
        dest = other.run if other else ""
        return Refusal(
            change.operation, reason, partitions=where or (), source=change.run, dest=dest
        )


def _first_meeting(places: Places, others: Sequence[Places]) -> list[str] | None:
    return next((met for one in others if (met := places.meeting(one)) is not None), None)
