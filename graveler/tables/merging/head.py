"""The head of a table onto which snapshots are put: manifests carried or rewritten, and their lists."""

import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any

from pyiceberg.expressions import AlwaysTrue, And, BooleanExpression, In, IsNull, Or, Reference
from pyiceberg.expressions.visitors import manifest_evaluator
from pyiceberg.io import FileIO
from pyiceberg.manifest import (
    DataFileContent,
    ManifestContent,
    ManifestEntry,
    ManifestEntryStatus,
    ManifestFile,
    ManifestWriterV2,
    data_file_with_partition,
    manifest_entry_schema_with_data_file,
    write_manifest,
    write_manifest_list,
)
from pyiceberg.schema import Schema
from pyiceberg.table import TableProperties
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.snapshots import (
    Operation,
    Snapshot,
    SnapshotSummaryCollector,
    Summary,
    update_snapshot_summaries,
)
from pyiceberg.types import IntegerType, ListType, StructType

from graveler.base.clock import IdSource
from graveler.tables.merging.changes import (
    Change,
    content_of,
    last_number,
    manifests_of,
    schema_of,
)
from graveler.tables.metadata import UNDOES, note_of

_In: Any = In  # their signatures are those of records
_IsNull: Any = IsNull
_EQUALITY_IDS = 135
_PATH = 0
"""The place of its path in a manifest's record."""
_STALE = ("total-", "manifests-", "entries-processed")
"""Parts of a summary that are about the list of manifests, not about what the snapshot changes."""


class DeletesWriter(ManifestWriterV2):
    """The writer of manifests of delete files, which PyIceberg lacks.

    The ids of equality deletes are ints, as the format has them. PyIceberg writes longs, which Java refuses.
    """

    def content(self) -> ManifestContent:
        """Return that it lists delete files."""
        return ManifestContent.DELETES

    @property
    def _meta(self) -> dict[str, str]:
        return {**super()._meta, "content": "deletes"}

    def _with_partition(self, format_version: Any) -> Schema:
        partition = self._spec.partition_type(self._schema)
        files = data_file_with_partition(partition, format_version)
        ints = ListType(element_id=136, element_type=IntegerType(), element_required=True)
        fields = [
            part.model_copy(update={"field_type": ints}) if part.field_id == _EQUALITY_IDS else part
            for part in files.fields
        ]
        return manifest_entry_schema_with_data_file(format_version, StructType(*fields))


@dataclass
class Plan:
    """What the removal of files means for the manifests of a head.

    Attributes:
        lists: The manifests to list, each with its live entries if it loses some.
        removed: The files that are there, by path.
        missing: The paths that are not.
    """

    lists: list[tuple[ManifestFile, list[ManifestEntry]]]
    removed: dict[str, ManifestEntry]
    missing: set[str]


@dataclass
class Head:
    """The present snapshot of a table, and those that a merge puts onto it.

    Attributes:
        metadata: The destination's, with the schemas and specs of both sides.
        io: Where files are read and written.
        now: Time of the new snapshots, in milliseconds.
        numbers: The sequence numbers of the source, each with the one that it becomes.
        schemas: The ids of the source's schemas, each with the one that it becomes.
    """

    metadata: TableMetadata
    io: FileIO
    ids: IdSource
    now: int
    numbers: dict[int, int]
    schemas: dict[int | None, int]
    manifests: list[ManifestFile] = field(default_factory=list)
    snapshots: list[Snapshot] = field(default_factory=list)
    files: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.snapshot = self.metadata.current_snapshot()
        self.manifests = manifests_of(self.snapshot, self.io)
        self.version = self.metadata.format_version
        self.number = last_number(self.metadata)

    def plan(self, removed: Sequence[ManifestEntry]) -> Plan:
        """Find files in the manifests that may list them. No other manifest is read."""
        wanted = {entry.data_file.file_path for entry in removed}
        may_list = self._finder(removed)
        plan = Plan([], {}, wanted)
        for manifest in self.manifests:
            entries = manifest.fetch_manifest_entry(self.io) if may_list(manifest) else []
            gone = {e.data_file.file_path: e for e in entries if e.data_file.file_path in wanted}
            if manifest.has_added_files() or manifest.has_existing_files():
                plan.lists.append((manifest, entries if gone else []))
            plan.removed.update(gone)
        plan.missing = wanted - plan.removed.keys()
        return plan

    def _finder(self, removed: Iterable[ManifestEntry]) -> Callable[[ManifestFile], bool]:
        groups: dict[tuple[ManifestContent, int], list[Any]] = defaultdict(list)
        for entry in removed:
            key = content_of(entry), entry.data_file.spec_id
            groups[key].append(entry.data_file.partition)
        tests = {}
        for key, partitions in groups.items():
            spec = self.metadata.specs()[key[1]]
            found: BooleanExpression = AlwaysTrue()
            for at, part in enumerate(spec.fields):
                found = And(found, _among(part.name, {values[at] for values in partitions}))
            tests[key] = manifest_evaluator(spec, schema_of(self.metadata, spec), found)

        def may_list(manifest: ManifestFile) -> bool:
            test = tests.get((manifest.content, manifest.partition_spec_id))
            return test is not None and test(manifest)

        return may_list

    def add(self, change: Change, plan: Plan) -> None:
        """Put a snapshot with a change onto the head."""
        self.number += self.version > 1
        number = change.snapshot.snapshot_id
        if change.inverse:
            number = self._undoing(number)
        manifests = [*self._added(change, number)]
        for manifest, entries in plan.lists:
            manifests.append(
                self._write(manifest.content, manifest.partition_spec_id, number, entries, plan)
                if entries
                else manifest
            )
        parent = self.snapshot.snapshot_id if self.snapshot else None
        path = self._path(f"snap-{number}-0-{self.ids.unique()}.avro")
        with write_manifest_list(
            format_version=self.version,
            output_file=self.io.new_output(path),
            snapshot_id=number,
            parent_snapshot_id=parent,
            sequence_number=self.number,
            avro_compression=self._codec,
        ) as writer:
            writer.add_manifests(manifests)
        update = {
            "snapshot_id": number,
            "parent_snapshot_id": parent,
            "sequence_number": self.number,
            "timestamp_ms": self.now,
            "manifest_list": path,
            "summary": self._summary(change, plan),
            "schema_id": self.schemas.get(change.snapshot.schema_id),
        }
        if change.inverse:
            update["schema_id"] = self.metadata.current_schema_id
        else:
            self.renumber(change)
        self.snapshot, self.manifests = change.snapshot.model_copy(update=update), manifests
        self.snapshots.append(self.snapshot)

    def _undoing(self, number: int) -> int:
        """Return the id of the snapshot that undoes one: the same whenever the same is undone."""
        there = [*self.metadata.snapshots, *self.snapshots]
        before = sum(note_of(one, UNDOES) == str(number) for one in there)
        return int(sha256(f"{number} {before}".encode()).hexdigest()[:15], 16)

    def with_schema(self, snapshot: Snapshot) -> Snapshot:
        """Return a snapshot of the source with the id that its schema has here."""
        return snapshot.model_copy(update={"schema_id": self.schemas.get(snapshot.schema_id)})

    def renumber(self, change: Change) -> None:
        """Note that the sequence number of a source's snapshot becomes the present one."""
        if change.snapshot.sequence_number:  # 0 is format 1, which has none
            self.numbers[change.snapshot.sequence_number] = self.number

    @property
    def _codec(self) -> Any:
        key = TableProperties.WRITE_AVRO_COMPRESSION
        return self.metadata.properties.get(key, TableProperties.WRITE_AVRO_COMPRESSION_DEFAULT)

    def _path(self, name: str) -> str:
        """Return a place below the table's own; a property could name any other."""
        self.files.append(f"{self.metadata.location.rstrip('/')}/metadata/{name}")
        return self.files[-1]

    def _added(self, change: Change, number: int) -> Iterator[ManifestFile]:
        """Yield manifests with the files that a change adds: as they are, if they only add files."""
        again: dict[tuple[ManifestContent, int], list[ManifestEntry]] = defaultdict(list)
        for entry in change.added if change.inverse else ():
            again[content_of(entry), entry.data_file.spec_id].append(entry)
        for manifest in () if change.inverse else change.own:
            only_adds = manifest.existing_files_count == 0 and manifest.deleted_files_count == 0
            if only_adds and manifest.min_sequence_number == manifest.sequence_number:
                yield self._carried(manifest)
                continue
            entries = [
                entry
                for entry in change.entries_of(manifest)
                if entry.status == ManifestEntryStatus.ADDED
            ]
            old = {entry.sequence_number for entry in entries} - {manifest.sequence_number}
            if only_adds and old.isdisjoint(self.numbers):
                yield self._carried(manifest)
            elif entries:
                key = manifest.content, manifest.partition_spec_id
                again[key] += [self._renumbered(entry, manifest) for entry in entries]
        for (content, spec), entries in again.items():
            yield self._write(content, spec, number, entries)

    def _carried(self, manifest: ManifestFile) -> ManifestFile:
        """Return a manifest with the present sequence number.

        The file is copied, because PyIceberg remembers sequence numbers by the path of a manifest.
        """
        carried = ManifestFile(*(manifest[at] for at in range(len(manifest))))
        if carried.min_sequence_number == carried.sequence_number:
            carried.min_sequence_number = self.number
        if carried.sequence_number != self.number:
            carried.sequence_number = self.number
            carried[_PATH] = self._path(f"{self.ids.unique()}-m0.avro")
            with self.io.new_output(carried.manifest_path).create() as output:
                output.write(self.io.new_input(manifest.manifest_path).open().read())
        return carried

    def _renumbered(self, entry: ManifestEntry, manifest: ManifestFile) -> ManifestEntry:
        """Set the sequence number that a file has on the destination; None: that of its snapshot."""
        number: Any = entry.sequence_number  # None: that of the snapshot
        inherits = number is None or number == manifest.sequence_number
        number = None if inherits else self.numbers.get(number, number)
        entry.sequence_number = number
        return entry

    def _write(
        self,
        content: ManifestContent,
        spec_id: int,
        snapshot_id: int,
        entries: Iterable[ManifestEntry],
        plan: Plan | None = None,
    ) -> ManifestFile:
        """Write a manifest of added files, or with a plan one that loses files."""
        spec = self.metadata.specs()[spec_id]
        output = self.io.new_output(self._path(f"{self.ids.unique()}-m0.avro"))
        terms = spec, schema_of(self.metadata, spec), output, snapshot_id, self._codec
        is_data = content == ManifestContent.DATA
        with write_manifest(self.version, *terms) if is_data else DeletesWriter(*terms) as writer:
            for entry in entries:
                if plan is None:
                    writer.add(entry)
                elif entry.data_file.file_path in plan.removed:
                    writer.delete(entry)
                else:
                    writer.existing(entry)
        written = writer.to_manifest_file()
        written.sequence_number = self.number
        if written.min_sequence_number < 0:  # all inherit it
            written.min_sequence_number = self.number
        return written

    def _summary(self, change: Change, plan: Plan) -> Summary:
        before = self.snapshot.summary if self.snapshot else None
        old = change.snapshot.summary
        if change.inverse or old is None or plan.missing:
            counts = SnapshotSummaryCollector()
            for adds, entries in ((True, change.added), (False, plan.removed.values())):
                for entry in entries:
                    spec = self.metadata.specs()[entry.data_file.spec_id]
                    count = counts.add_file if adds else counts.remove_file
                    count(entry.data_file, schema_of(self.metadata, spec), spec)
            properties = counts.build()
            if change.inverse:
                properties[UNDOES] = str(change.snapshot.snapshot_id)
        else:
            kept = old.additional_properties.items()
            properties = {key: value for key, value in kept if not key.startswith(_STALE)}
        totals = update_snapshot_summaries(
            Summary(Operation.OVERWRITE, **properties),  # PyIceberg knows no totals of compactions
            before.additional_properties if before else None,
        )
        return Summary(_operation(change), **totals.additional_properties)


def _operation(change: Change) -> Operation:
    summary = change.snapshot.summary
    if change.is_compaction or not change.inverse:
        return summary.operation if summary else Operation.OVERWRITE
    adds = any(entry.data_file.content == DataFileContent.DATA for entry in change.added)
    return Operation.OVERWRITE if adds else Operation.DELETE


def _among(name: str, values: set[Any]) -> BooleanExpression:
    """Return a test of a partition field, as wide as the values need."""
    if any(isinstance(value, float) and math.isnan(value) for value in values):
        return AlwaysTrue()
    known = _In(Reference(name), values - {None})
    return Or(known, _IsNull(Reference(name))) if None in values else known
