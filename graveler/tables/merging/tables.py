"""The merge of one table: the metadata of base, source and destination become one."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from pyiceberg.exceptions import ValidationError
from pyiceberg.io import FileIO
from pyiceberg.table import TableProperties
from pyiceberg.table.metadata import TableMetadata, TableMetadataV1
from pyiceberg.table.refs import SnapshotRef
from pyiceberg.table.snapshots import MetadataLogEntry, Snapshot, SnapshotLogEntry

from graveler.base.clock import Clock, IdSource, unix_us
from graveler.tables.merging.changes import last_number
from graveler.tables.merging.conflicts import MergedTable, Refusal, TableConflict
from graveler.tables.merging.head import Head
from graveler.tables.merging.histories import Histories, ancestry, undoing
from graveler.tables.merging.rebase import rebase
from graveler.tables.merging.rules import (
    Sides,
    merged_layout,
    merged_properties,
    merged_refs,
    merged_schemas,
    merged_statistics,
    withdrawn,
)


@dataclass(frozen=True, slots=True)
class TableSide:
    """A table on one side of a merge.

    Attributes:
        metadata: Its metadata, or None if the side has no such table.
        location: Where the metadata file is.
        run: The run, or branch, that conflicts name if a snapshot does not.
    """

    metadata: TableMetadata | None
    location: str
    run: str


def merge_table(
    table: str,
    base: TableMetadata | None,
    source: TableSide,
    dest: TableSide,
    io: FileIO,
    *,
    clock: Clock,
    ids: IdSource,
    folder: str | None = None,
) -> MergedTable | TableConflict:
    """Merge what two sides did to one table since their base.

    If only one side changed the table, its metadata is the result, and nothing is read. Else the snapshots
    of the source are put onto the destination's head. Nothing that exists is changed. After a conflict the
    files that were written are deleted.

    Args:
        table: The name of the table, for conflicts.
        base: Its metadata in the merge base, or None if the base has no such table.
        source: The side that is merged.
        dest: The side into which it is merged.
        io: Reads the files of all three, writes new ones, and deletes these after a conflict.
        clock: Time of the new snapshots.
        ids: Names of the new files.
        folder: The location of the merged table, below which the new files are. None: the destination's.

    Returns:
        The merged table, or the conflict.

    Raises:
        OSError: A manifest is not there, or cannot be written.
    """

    def histories() -> tuple[Sides, Histories] | str:
        if base is None:
            raise Refusal("create", "both sides created the table")
        if source.metadata is None or dest.metadata is None:
            raise Refusal("drop", "one side dropped the table, and the other one changed it")
        if source.metadata == base or source.metadata == dest.metadata:
            return "dest"
        if dest.metadata == base:
            return "source"
        sides = _level(base, source.metadata, dest.metadata)
        return sides, Histories.of(*sides, io)

    return _rebased(table, source, dest, histories, _Terms(io, clock, ids, folder))


def undo_writer(
    table: str,
    side: TableSide,
    writer: str,
    io: FileIO,
    *,
    clock: Clock,
    ids: IdSource,
    folder: str | None,
    unknown: Callable[[Iterable[str]], bool],
    ends: tuple[TableMetadata, TableMetadata] | None,
) -> MergedTable | TableConflict:
    """Undo the snapshots and settings of a writer, by the rules of a merge; what others did since stays.

    Args:
        table: The name of the table, for conflicts.
        side: The table.
        writer: The branch of the step that made the snapshots.
        io: Reads its files and writes new ones.
        clock: Time of the new snapshots.
        ids: Names of the new files.
        folder: The location of the result.
        unknown: Whether the writer has written data that is not among files that its snapshots added.
        ends: The metadata before and after its work, if they are known; else the settings stay.
    """

    def histories() -> tuple[Sides, Histories] | str:
        metadata = side.metadata
        found = metadata and undoing(metadata, writer, io)
        lost = found.lost if found else ()
        if unknown(entry.data_file.file_path for change in lost for entry in change.removed):
            raise Refusal(
                "retry",
                "some of its snapshots have expired or are on another ref of the table, so that its rows "
                "cannot be told from others",
            )
        left = withdrawn(*ends, metadata) if metadata and ends else metadata
        if left is None or (left == metadata and not found):
            return "dest"
        return (left, left, left), found or Histories([], [], [], complete=True, continues=False)

    return _rebased(table, side, side, histories, _Terms(io, clock, ids, folder))


@dataclass(frozen=True, slots=True)
class _Terms:
    io: FileIO
    clock: Clock
    ids: IdSource
    folder: str | None


def _rebased(
    table: str,
    source: TableSide,
    dest: TableSide,
    histories: Callable[[], tuple[Sides, Histories] | str],
    terms: _Terms,
) -> MergedTable | TableConflict:
    head = None
    try:
        found = histories()
        if isinstance(found, str):
            one = source if found == "source" else dest
            return MergedTable(one.metadata, side=found)
        (base, ours, theirs), changes = found
        location = terms.folder or theirs.location
        sides = base, ours, theirs.model_copy(update={"location": location})
        head = _start(sides, terms.io, unix_us(terms.clock.now()) // 1000, terms.ids)
        if not changes.continues:
            rebase(head, changes)
        metadata = _finished(sides, head, changes, dest.location)
        return MergedTable(metadata, tuple(head.files))
    except Refusal as refusal:
        for path in head.files if head else ():
            terms.io.delete(path)
        return TableConflict(
            table,
            refusal.operation,
            refusal.partitions,
            refusal.source or source.run,
            refusal.dest or dest.run,
            str(refusal),
        )


def _level(base: TableMetadata, source: TableMetadata, dest: TableMetadata) -> Sides:
    """Return the sides in one format; an upgrade of one side is one of the result."""
    if not base.table_uuid == source.table_uuid == dest.table_uuid:
        raise Refusal(
            "replacement", "one side dropped the table and created another one of its name"
        )
    if source.format_version == dest.format_version:
        return base, source, dest
    one, other = (
        side.to_v2() if isinstance(side, TableMetadataV1) else side for side in (source, dest)
    )
    return base, one, other


def _start(sides: Sides, io: FileIO, now: int, ids: IdSource) -> Head:
    source, dest = sides[1:]
    schemas, schema_ids = merged_schemas(sides)
    update = {**schemas, **merged_layout(sides), "properties": merged_properties(sides)}
    metadata = dest.model_copy(update=update)
    if metadata.format_version == 1:
        fields = [field.model_dump() for field in metadata.spec().fields]
        old = {"schema_": metadata.schema(), "partition_spec": fields}
        metadata = metadata.model_copy(update=old)
    try:
        metadata.spec().check_compatible(metadata.schema())
        metadata.sort_order().check_compatible(metadata.schema())
    except ValidationError as error:
        raise Refusal(
            "schema", f"one side uses a column that the other one changed: {error}"
        ) from error
    there = {one.snapshot_id: one.sequence_number for one in dest.snapshots}
    numbers: dict[int, Any] = {
        one.sequence_number: there[one.snapshot_id]
        for one in source.snapshots
        if one.sequence_number
        and there.get(one.snapshot_id, one.sequence_number) != one.sequence_number
    }
    return Head(metadata, io, ids, max(now, dest.last_updated_ms), numbers, schema_ids)


def _finished(sides: Sides, head: Head, histories: Histories, location: str) -> TableMetadata:
    """Return the metadata with its snapshots, refs, logs and statistics."""
    source, dest = sides[1:]
    current = head.snapshot.snapshot_id if head.snapshot else None
    added = list(head.snapshots)
    if histories.continues:
        added = [head.with_schema(change.snapshot) for change in histories.gained]
        current = source.current_snapshot_id
    refs = merged_refs(sides, current)
    old = {one.snapshot_id for one in dest.snapshots}
    if twice := old & {one.snapshot_id for one in added}:
        raise Refusal(
            "snapshot", f"{twice} are on the destination, too, but not in its present table"
        )
    lists = {one.snapshot_id: one.manifest_list for one in [*dest.snapshots, *added]}
    rebased = {
        one.snapshot_id
        for one in source.snapshots
        if lists.get(one.snapshot_id, one.manifest_list) != one.manifest_list
    }
    kept = _beside(sides, refs, {*lists}, rebased)
    added += [head.with_schema(one) for one in kept]
    snapshots = [*dest.snapshots, *added]
    log = list(dest.snapshot_log)
    if current is not None and current != dest.current_snapshot_id:
        log.append(
            SnapshotLogEntry.model_validate({"snapshot-id": current, "timestamp-ms": head.now})
        )
    update: dict[str, Any] = {
        "snapshots": snapshots,
        "current_snapshot_id": current,
        "refs": refs,
        "snapshot_log": log,
        "metadata_log": _metadata_log(head.metadata, location),
        "last_updated_ms": head.now,
        **merged_statistics(sides, {one.snapshot_id for one in snapshots}, rebased),
    }
    if head.version > 1:
        numbers = [one.sequence_number or 0 for one in added]
        update["last_sequence_number"] = max(last_number(dest), *numbers, 0)
    return head.metadata.model_copy(update=update)


def _metadata_log(metadata: TableMetadata, location: str) -> list[MetadataLogEntry]:
    """Return the log of the destination with its last file, as many entries as the table keeps."""
    entry = MetadataLogEntry.model_validate(
        {"metadata-file": location, "timestamp-ms": metadata.last_updated_ms}
    )
    name = TableProperties.METADATA_PREVIOUS_VERSIONS_MAX
    most = int(
        metadata.properties.get(name, TableProperties.METADATA_PREVIOUS_VERSIONS_MAX_DEFAULT)
    )
    return [*metadata.metadata_log, entry][-max(1, most) :]


def _beside(
    sides: Sides, refs: dict[str, SnapshotRef], known: set[int], rebased: set[int]
) -> list[Snapshot]:
    """Return snapshots of the source beside its history: of refs with their ancestors, and staged ones."""
    base, source, _ = sides
    named = {ref.snapshot_id: name for name, ref in refs.items()}
    for number in [*named]:
        for above in ancestry(source, number) if number not in known else ():
            named.setdefault(above, named[number])
    line = ancestry(source, source.current_snapshot_id)
    before = known | line.keys() | {one.snapshot_id for one in base.snapshots}
    found = []
    for one in source.snapshots:
        number = one.snapshot_id
        if number in known or (number in before and number not in named):
            continue
        if rebased.isdisjoint(ancestry(source, number)):
            found.append(one)
        elif number in named:
            raise Refusal(
                f"ref {named[number]}",
                "it is based on snapshots that the merge puts onto the destination",
            )
    return found
