"""What snapshots add to a table and remove from it, and the partitions that this touches."""

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from functools import cached_property

from pyiceberg.io import FileIO
from pyiceberg.manifest import (
    DataFileContent,
    ManifestContent,
    ManifestEntry,
    ManifestEntryStatus,
    ManifestFile,
    read_manifest_list,
)
from pyiceberg.partitioning import PartitionSpec
from pyiceberg.schema import Schema, index_by_id
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.snapshots import Operation, Snapshot
from pyiceberg.transforms import VoidTransform

from graveler.tables.metadata import RUN, UNDOES, note_of

_Keys = tuple[tuple[int, str], ...]


def manifests_of(snapshot: Snapshot | None, io: FileIO) -> list[ManifestFile]:
    """Return the manifests of a snapshot, past PyIceberg's cache, which holds 128 of the process."""
    return list(read_manifest_list(io.new_input(snapshot.manifest_list))) if snapshot else []


def last_number(metadata: TableMetadata) -> int:
    """Return the last sequence number; format 1 has none."""
    return int(getattr(metadata, "last_sequence_number", 0))


def schema_of(metadata: TableMetadata, spec: PartitionSpec) -> Schema:
    """Return the current schema, or the last one that still has the columns of an old spec."""
    sources = {part.source_id for part in spec.fields}
    ordered = [metadata.schema(), *reversed(metadata.schemas)]
    return next((one for one in ordered if sources <= index_by_id(one).keys()), ordered[0])


def content_of(entry: ManifestEntry) -> ManifestContent:
    """Return the content of the manifest that an entry belongs in."""
    is_data = entry.data_file.content == DataFileContent.DATA
    return ManifestContent.DATA if is_data else ManifestContent.DELETES


@dataclass
class Places:
    """Partitions, of all specs of a table.

    Two specs are compared by the source columns and transforms that they share. If they share none, as an
    unpartitioned spec does with every other, all their partitions overlap.
    """

    metadata: TableMetadata
    _found: dict[_Keys, dict[tuple[str, ...], str]] = field(default_factory=dict)

    def of(self, entries: Iterable[ManifestEntry]) -> "Places":
        """Return these, after adding the partitions of files."""
        specs = self.metadata.specs()
        schemas = {number: schema_of(self.metadata, spec) for number, spec in specs.items()}
        for entry in entries:
            spec, values = specs[entry.data_file.spec_id], entry.data_file.partition
            parts = [
                ((part.source_id, str(part.transform)), repr(values[at]))
                for at, part in enumerate(spec.fields)
                if not isinstance(part.transform, VoidTransform)
            ]
            known = self._found.setdefault(tuple(key for key, _ in parts), {})
            text = tuple(value for _, value in parts)
            if text not in known:
                known[text] = spec.partition_to_path(values, schemas[spec.spec_id])
        return self

    @property
    def any(self) -> bool:
        """Whether there are some."""
        return bool(self._found)

    def meeting(self, other: "Places") -> list[str] | None:
        """Return the names of the partitions that overlap some of the other's, or None if none does."""
        met: dict[str, None] = {}
        for keys, values in self._found.items():
            for others, theirs in other._found.items():
                shared = [key for key in keys if key in others]
                ours, there = ([one.index(key) for key in shared] for one in (keys, others))
                taken = {tuple(value[at] for at in there) for value in theirs}
                for value, name in values.items():
                    if tuple(value[at] for at in ours) in taken:
                        met[name] = None
        return sorted(filter(None, met)) if met else None


@dataclass(frozen=True)
class Change:
    """What a snapshot did, or the inverse of it.

    Its list and its manifests are read when they are asked for.
    """

    metadata: TableMetadata
    snapshot: Snapshot
    io: FileIO
    inverse: bool = False

    @cached_property
    def own(self) -> list[ManifestFile]:
        """The manifests that the snapshot wrote."""
        number, listed = self.snapshot.snapshot_id, manifests_of(self.snapshot, self.io)
        return [one for one in listed if one.added_snapshot_id == number]

    def undone(self) -> "Change":
        """Return the inverse."""
        return replace(self, inverse=True)

    def entries_of(self, manifest: ManifestFile) -> list[ManifestEntry]:
        """Return the entries of a manifest that the snapshot added or removed."""
        entries = manifest.fetch_manifest_entry(self.io, discard_deleted=False)
        return [
            entry
            for entry in entries
            if entry.snapshot_id == self.snapshot.snapshot_id
            and entry.status != ManifestEntryStatus.EXISTING
        ]

    @cached_property
    def _entries(self) -> list[ManifestEntry]:
        return [entry for manifest in self.own for entry in self.entries_of(manifest)]

    def _with(self, *, added: bool) -> list[ManifestEntry]:
        return [e for e in self._entries if (e.status == ManifestEntryStatus.ADDED) == added]

    @cached_property
    def added(self) -> list[ManifestEntry]:
        """The files that it adds."""
        return self._with(added=not self.inverse)

    @cached_property
    def removed(self) -> list[ManifestEntry]:
        """The files that it removes."""
        return self._with(added=self.inverse)

    @property
    def is_undo(self) -> bool:
        """Whether it undoes a snapshot, so that it is about known files and has no filter."""
        return self.inverse or bool(note_of(self.snapshot, UNDOES))

    def undoes(self, other: "Change") -> bool:
        """Whether it removes and adds the files that another change adds and removes."""
        ours, theirs = (
            [{entry.data_file.file_path for entry in part} for part in parts]
            for parts in ((self.added, self.removed), (other.removed, other.added))
        )
        return ours == theirs

    @property
    def is_compaction(self) -> bool:
        """Whether it changes files, and no rows."""
        summary = self.snapshot.summary
        return summary is not None and summary.operation == Operation.REPLACE

    @property
    def is_append(self) -> bool:
        """Whether it only adds data, whatever its operation is called."""
        if self.is_undo or any(one.content == ManifestContent.DELETES for one in self.own):
            return False
        return all(one.deleted_files_count == 0 for one in self.own) or not self.removed

    @property
    def operation(self) -> str:
        """The name of the operation."""
        summary = self.snapshot.summary
        name = summary.operation.value if summary else Operation.OVERWRITE.value
        return f"revert of {name}" if self.inverse else str(name)

    @property
    def run(self) -> str:
        """The run that made the snapshot, or nothing."""
        return note_of(self.snapshot, RUN)

    def adding(self, *contents: DataFileContent) -> Places:
        """Return the partitions to which it adds files of some contents."""
        found = [entry for entry in self.added if entry.data_file.content in contents]
        return Places(self.metadata).of(found)

    @cached_property
    def data(self) -> Places:
        """The partitions to which it adds data."""
        return self.adding(DataFileContent.DATA)

    @cached_property
    def positions(self) -> Places:
        """The partitions to which it adds position deletes."""
        return self.adding(DataFileContent.POSITION_DELETES)

    @cached_property
    def marked(self) -> Places:
        """The partitions of files whose rows its delete files mark, or no longer mark."""
        kinds = [DataFileContent.POSITION_DELETES]
        if self.is_undo:  # new equality deletes apply to compacted files, too
            kinds.append(DataFileContent.EQUALITY_DELETES)
        found = [entry for entry in self._entries if entry.data_file.content in kinds]
        return Places(self.metadata).of(found)

    @cached_property
    def deletes(self) -> Places:
        """The partitions to which it adds delete files."""
        return self.adding(DataFileContent.POSITION_DELETES, DataFileContent.EQUALITY_DELETES)

    @cached_property
    def rewritten(self) -> Places:
        """The partitions from which it removes data."""
        found = [e for e in self.removed if e.data_file.content == DataFileContent.DATA]
        return Places(self.metadata).of(found)

    @cached_property
    def touched(self) -> Places:
        """The partitions of all files that it adds or removes."""
        return Places(self.metadata).of(self._entries)
