"""The snapshots of three sides: what the source gained and lost, and what the destination gained."""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

from pyiceberg.io import FileIO
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.refs import MAIN_BRANCH
from pyiceberg.table.snapshots import Snapshot

from graveler.tables.merging.changes import Change, last_number, manifests_of
from graveler.tables.merging.conflicts import Refusal
from graveler.tables.metadata import UNDOES, WRITER, note_of


def ancestry(metadata: TableMetadata, number: int | None) -> dict[int, Snapshot]:
    """Return a snapshot and its ancestors, newest first, as far as the metadata has them."""
    known = {one.snapshot_id: one for one in metadata.snapshots}
    found = {}
    while number in known and number not in found:
        found[number] = known[number]
        number = known[number].parent_snapshot_id
    return found


@dataclass
class Histories:
    """The changes of a table since the base.

    Attributes:
        lost: Changes of the base that the source no longer has, newest first.
        gained: Changes of the source, oldest first. If the destination has undone one, its undo is undone.
            Neither has a change with the one that undoes it, unless the source continues.
        overtaken: Compactions among them beneath deletes that the destination has already. Put onto
            its head, the compacted files would be newer than these deletes.
        gone: Compactions of the base that gave way on the destination, so that it lacks their files.
        theirs: Changes of the destination, oldest first.
        complete: Whether `theirs` is all that the destination did. It is not, if snapshots have expired
            or if the destination went back behind the base.
        continues: Whether the source's snapshots follow the destination's head as they are.
    """

    lost: list[Change]
    gained: list[Change]
    theirs: list[Change]
    complete: bool
    continues: bool
    overtaken: Collection[int] = ()
    gone: Sequence[Change] = ()

    @classmethod
    def of(
        cls, base: TableMetadata, source: TableMetadata, dest: TableMetadata, io: FileIO
    ) -> "Histories":
        """Compare three sides, each with the ancestry of its current snapshot."""
        common, ours, theirs = (ancestry(x, x.current_snapshot_id) for x in (base, source, dest))
        root = [*common][-1:]
        new, there = (_since(side, root) for side in (ours, theirs))
        added = [there[n] for n in reversed([*there]) if n not in common and n not in ours]
        head = base.current_snapshot_id
        lost = _lost(common, ours, head)
        if head is None:
            listed = manifests_of(dest.current_snapshot(), io)
            complete = all(manifest.added_snapshot_id in theirs for manifest in listed)
        else:
            complete = head in theirs or _stands(base, common, io) in theirs
        continues = (
            not lost and _list_of(dest) == _list_of(base) and last_number(dest) == last_number(base)
        )
        fresh = [Change(source, new[n], io) for n in reversed([*new]) if n not in common]
        gained = []
        undone = _undone(theirs)
        for change in fresh if continues else _standing(fresh, _named(source)):
            number = change.snapshot.snapshot_id
            if number not in theirs:
                gained.append(change)
            elif str(number) in undone and str(number) not in _undone(ours):
                gained.append(Change(dest, undone[str(number)], io).undone())
        compacted = {one.snapshot.snapshot_id for one in gained if one.is_compaction}
        overtaken: set[int] = set()
        deletes = False
        for number in new if compacted else ():
            if number in compacted - overtaken and deletes:
                overtaken.add(number)
            elif number in common or number in theirs:
                deletes = deletes or Change(source, new[number], io).deletes.any
        reverted = [
            Change(dest, theirs.get(n, common[n]), io).undone()
            for n in lost
            if n in theirs or not complete
        ]
        return cls(
            lost=_standing(reverted[::-1])[::-1],
            gained=gained,
            theirs=[Change(dest, snapshot, io) for snapshot in added],
            complete=complete,
            continues=continues,
            overtaken=overtaken,
            gone=[
                change
                for number in ours
                if number in common and number not in theirs
                if (change := Change(source, ours[number], io)).is_compaction
            ],
        )


def undoing(metadata: TableMetadata, writer: str, io: FileIO) -> Histories | None:
    """Return what it takes to undo the snapshots of a writer; None if it has none that was not undone.

    Changes of others since the first of them are those of the destination.
    """
    line = ancestry(metadata, metadata.current_snapshot_id)
    undone = _undone(line)
    mine: list[Snapshot] = []
    others: list[Snapshot] = []
    since = 0
    for number, snapshot in line.items():
        if str(number) not in undone and note_of(snapshot, WRITER) == writer:
            mine.append(snapshot)
            since = len(others)
        else:
            others.append(snapshot)
    if not mine:
        return None
    return Histories(
        lost=[Change(metadata, one, io).undone() for one in mine],
        gained=[],
        theirs=[Change(metadata, one, io) for one in reversed(others[:since])],
        complete=True,
        continues=False,
    )


def _standing(changes: Iterable[Change], named: Collection[int] = ()) -> list[Change]:
    """Return changes, oldest first, without those that a later one undoes, and without this one.

    Both stay if a ref names one of them, or if a change between them is more than an append, in partitions
    that they touch: it may be about their files.
    """
    changes = list(changes)
    targets = {note_of(one.snapshot, UNDOES) for one in changes}
    kept: dict[str, Change] = {}
    for change in changes:
        number, target = str(change.snapshot.snapshot_id), note_of(change.snapshot, UNDOES)
        kept[number] = change
        # one that is undone itself stays until then: the first change counts again
        if target in kept and number not in targets and not {int(number), int(target)} & {*named}:
            numbers, undone = [*kept], kept[target]
            between = (kept[n] for n in numbers[numbers.index(target) + 1 : -1])
            if change.undoes(undone) and all(
                one.is_append or one.touched.meeting(undone.touched) is None for one in between
            ):
                del kept[number], kept[target]
    return [*kept.values()]


def _stands(base: TableMetadata, line: dict[int, Snapshot], io: FileIO) -> int | None:
    """Return the newest snapshot of the base that stands; None if there is none."""
    standing = _standing(Change(base, one, io) for one in reversed([*line.values()]))
    return standing[-1].snapshot.snapshot_id if standing else None


def _named(metadata: TableMetadata) -> set[int]:
    return {ref.snapshot_id for name, ref in metadata.refs.items() if name != MAIN_BRANCH}


def _undone(line: dict[int, Snapshot]) -> dict[str, Snapshot]:
    """Return the snapshots of an ancestry that do not stand, each with the one that undoes it."""
    found: dict[str, Snapshot] = {}
    for number, snapshot in line.items():
        target = note_of(snapshot, UNDOES)
        if target and str(number) not in found:
            found[target] = snapshot
    return found


def _list_of(metadata: TableMetadata) -> str | None:
    """Return the manifest list of the present snapshot; a rebase keeps only the id."""
    snapshot = metadata.current_snapshot()
    return snapshot.manifest_list if snapshot else None


def _since(side: dict[int, Snapshot], root: Collection[int]) -> dict[int, Snapshot]:
    """Return the part of an ancestry down to the oldest snapshot of the base; older ones expired there."""
    numbers = [*side]
    end = next((at for at, number in enumerate(numbers) if number in root), len(numbers))
    return {number: side[number] for number in numbers[: end + 1]}


def _lost(common: dict[int, Snapshot], ours: dict[int, Snapshot], head: int | None) -> list[int]:
    if head is None:
        return []
    shared = [at for at, number in enumerate(common) if number in ours]
    if shared:  # a rebase keeps ids, so that an older one can be lost, too
        return [number for number in [*common][: shared[-1]] if number not in ours]
    if ours:
        raise Refusal(
            "replacement",
            "the source replaced the table, or its snapshots since the base have expired",
        )
    return [*common]
