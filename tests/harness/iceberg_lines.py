"""Lines of an Iceberg table: PyIceberg's writers, deletes and compactions that it lacks, and a plain model."""

from collections import defaultdict
from itertools import count
from typing import Any
from uuid import uuid4

import pyarrow as pa
import pyarrow.parquet as pq
import pyiceberg.expressions
from pyiceberg.catalog.noop import NoopCatalog
from pyiceberg.io.pyarrow import PyArrowFileIO, _dataframe_to_data_files
from pyiceberg.manifest import (
    DataFile,
    DataFileContent,
    FileFormat,
    ManifestContent,
    ManifestEntry,
    ManifestEntryStatus,
    read_manifest_list,
    write_manifest,
    write_manifest_list,
)
from pyiceberg.partitioning import UNPARTITIONED_PARTITION_SPEC, PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table import Table, Transaction
from pyiceberg.table.metadata import TableMetadataUtil, new_table_metadata
from pyiceberg.table.snapshots import Operation, Snapshot, Summary
from pyiceberg.table.sorting import UNSORTED_SORT_ORDER
from pyiceberg.table.update import AddSnapshotUpdate, SetSnapshotRefUpdate, update_table_metadata
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import LongType, NestedField, StringType

from graveler.tables.merging.head import DeletesWriter

SCHEMA = Schema(
    NestedField(1, "id", LongType()),
    NestedField(2, "part", StringType()),
    NestedField(3, "value", LongType()),
)
BY_PART = PartitionSpec(PartitionField(2, 1000, IdentityTransform(), "part"), spec_id=0)
CODEC: Any = "gzip"
EXPRESSIONS: Any = pyiceberg.expressions
_PATH = pa.field("file_path", pa.string(), metadata={"PARQUET:field_id": "2147483546"})
_POS = pa.field("pos", pa.int64(), metadata={"PARQUET:field_id": "2147483545"})
_ID = pa.field("id", pa.int64(), metadata={"PARQUET:field_id": "1"})


class CountingIO(PyArrowFileIO):
    """Files that note what is read."""

    def __init__(self):
        super().__init__({})
        self.reads = []

    def new_input(self, location):
        self.reads.append(location)
        return super().new_input(location)


def row(**values):
    """Return a row of the model: ids of columns with values, without nulls."""
    ids = {"id": 1, "part": 2, "value": 3, "extra": 4}
    return tuple(sorted((ids[name], value) for name, value in values.items()))


def new_line(folder, *, spec=BY_PART, version=2, **properties):
    """Return a new table with a location of its own."""
    metadata = new_table_metadata(
        schema=SCHEMA,
        partition_spec=spec or UNPARTITIONED_PARTITION_SPEC,
        sort_order=UNSORTED_SORT_ORDER,
        location=f"{folder}/{uuid4()}",
        properties={"format-version": str(version), **properties},
    )
    return Line(TableMetadataUtil.parse_raw(metadata.model_dump_json()), frozenset(), CountingIO())


class Line:
    """The table on one branch, and the rows that it has by a plain model.

    Attributes:
        metadata: The table's metadata.
        rows: The rows.
    """

    numbers = count(1)

    def __init__(self, metadata, rows, io):
        self.metadata, self.rows, self.io = metadata, rows, io

    @property
    def manifests(self):
        """The manifests of the head, past PyIceberg's cache."""
        head = self.metadata.current_snapshot()
        return [*read_manifest_list(self.io.new_input(head.manifest_list))] if head else []

    def fork(self):
        """Return another branch at the same point, whose table has a place of its own."""
        return Line(self.metadata, self.rows, self.io)

    @property
    def table(self):
        """PyIceberg's table."""
        return Table(("db", "t"), self.metadata, "", self.io, NoopCatalog("c"))

    def change(self, work):
        """Do something in a transaction of PyIceberg."""
        transaction = Transaction(self.table)
        work(transaction)
        text = transaction.table_metadata.model_dump_json()
        self.metadata = TableMetadataUtil.parse_raw(text)

    def set(self, **properties):
        """Set properties, in which an underscore is a dot and two are a hyphen."""
        dots = {
            name.replace("__", "-").replace("_", "."): value for name, value in properties.items()
        }
        self.change(lambda t: t.set_properties(dots))

    def fresh(self, part, size=3, **more):
        """Return new rows of the model."""
        found = (next(self.numbers) for _ in range(size))
        return frozenset(row(id=n, part=part, value=n % 5, **more) for n in found)

    def frame(self, rows):
        """Return rows as PyIceberg wants them."""
        schema = self.metadata.schema()
        kinds = schema.as_arrow()
        columns = [
            [dict(one).get(field.field_id) for one in sorted(rows)] for field in schema.fields
        ]
        arrays = [pa.array(c, field.type) for c, field in zip(columns, kinds, strict=True)]
        return pa.table(arrays, schema=kinds)

    def append(self, part="a", run=None, **more):
        """Append three rows."""
        rows, summary = self.fresh(part, **more), {"graveler.run": run} if run else {}
        self.change(lambda t: t.append(self.frame(rows), snapshot_properties=summary))
        self.rows |= rows

    def is_readable(self):
        """Return whether PyIceberg can read the table, and so rewrite it."""
        kinds = {entry.data_file.content for entry, _ in self.entries()}
        return DataFileContent.EQUALITY_DELETES not in kinds

    def overwrite(self, part="a"):
        """Replace a partition by three rows."""
        if not self.is_readable():
            return
        if not self.in_part(part):  # PyIceberg warns, and appends
            self.append(part)
            return
        rows = self.fresh(part)
        self.change(
            lambda t: t.overwrite(self.frame(rows), EXPRESSIONS.EqualTo(self.name(2), part))
        )
        self.rows = self._without(part) | rows

    def drop_part(self, part="a"):
        """Delete the files of a partition."""
        if self.in_part(part) and self.is_readable():
            self.change(lambda t: t.delete(EXPRESSIONS.EqualTo(self.name(2), part)))
            self.rows = self._without(part)

    def rewrite(self, part="a"):
        """Delete the first row of a partition, by new files."""
        first = sorted(self.in_part(part))[:1]
        if first and self.is_readable():
            self.change(
                lambda t: t.delete(EXPRESSIONS.In(self.name(1), {dict(one)[1] for one in first}))
            )
            self.rows -= {*first}

    def delete(self, parts="a", size=1, odd=None):
        """Delete the first rows of each partition by a file of positions, all in one manifest.

        Args:
            odd: Only rows whose ids are odd, or even.
        """
        files, gone = [], set()
        for part in parts:
            rows = self.in_half(part, odd)[:size]
            places = [where for where in self.places() if where[0] in rows]
            if places:
                pairs = zip(*sorted(where[1:3] for where in places), strict=True)
                content = pa.table([*pairs], schema=pa.schema([_PATH, _POS]))
                kind = DataFileContent.POSITION_DELETES
                files.append(self._delete_file(content, kind, *places[0][3:]))
                gone.update(rows)
        if files:
            self.commit(Operation.DELETE, files)
            self.rows -= gone

    def in_half(self, part, odd):
        """Return the rows of a partition whose ids are odd, or even; None: all."""
        return [one for one in sorted(self.in_part(part)) if odd in (None, dict(one)[1] % 2 == 1)]

    def delete_equal(self, part="a", odd=None):
        """Delete the first row of a partition by its id."""
        places = [w for w in self.places() if w[0] in self.in_half(part, odd)[:1]]
        if not places:
            return
        gone, _, _, partition, spec = places[0]
        content = pa.table([[dict(gone)[1]]], schema=pa.schema([_ID]))
        file = self._delete_file(content, DataFileContent.EQUALITY_DELETES, partition, spec)
        self.commit(Operation.DELETE, [file])
        self.rows -= {gone}

    def compact(self, part="a", number=None, least=2):
        """Write the rows of a partition into one file, and remove its files and deletes.

        Args:
            number: The sequence number of the new file. None: that of its snapshot.
            least: As many files must be there.
        """
        rows = self.in_part(part)
        old = [e.data_file for e, _ in self.entries() if self.part_of(e.data_file) in (part, None)]
        if self.metadata.spec().is_unpartitioned():
            rows = self.rows
        if len(old) >= least and rows:
            new = [*_dataframe_to_data_files(self.metadata, self.frame(rows), self.io)]
            for file in new:
                file.spec_id = self.metadata.default_spec_id
            self.commit(Operation.REPLACE, new, {file.file_path for file in old}, number)

    def name(self, number):
        """Return the present name of a column."""
        return self.metadata.schema().find_column_name(number)

    def in_part(self, part):
        """Return the rows of a partition."""
        return {one for one in self.rows if dict(one)[2] == part}

    def _without(self, part):
        return self.rows - self.in_part(part)

    def part_of(self, file):
        """Return the partition of a file, or None if it has none."""
        fields = self.metadata.specs()[file.spec_id].fields
        return next(
            (file.partition[at] for at, one in enumerate(fields) if one.source_id == 2), None
        )

    def _delete_file(self, content, kind, partition, spec):
        path = f"{self.metadata.location}/data/{uuid4()}.parquet"
        with self.io.new_output(path).create() as stream:
            pq.write_table(content, stream)
        file = DataFile.from_args(
            content=kind,
            file_path=path,
            file_format=FileFormat.PARQUET,
            partition=partition,
            record_count=content.num_rows,
            file_size_in_bytes=len(self.io.new_input(path)),
            equality_ids=[1] if kind == DataFileContent.EQUALITY_DELETES else None,
        )
        file.spec_id = spec
        return file

    def entries(self):
        """Return the live entries with their manifests, past PyIceberg's cache."""
        return [
            (entry, one) for one in self.manifests for entry in one.fetch_manifest_entry(self.io)
        ]

    def places(self):
        """Return the rows by the rules of the format, each with its file, position, partition and spec."""
        data, positions, equal = [], defaultdict(list), []
        for entry, manifest in self.entries():
            file, kind = entry.data_file, entry.data_file.content
            assert (kind == DataFileContent.DATA) == (manifest.content == ManifestContent.DATA)
            content = pq.read_table(pa.BufferReader(self._bytes(file)), partitioning=None)
            if kind == DataFileContent.DATA:
                data.append((entry, content))
            elif kind == DataFileContent.POSITION_DELETES:
                for path, pos in zip(
                    *(content[c].to_pylist() for c in ("file_path", "pos")), strict=True
                ):
                    positions[path, pos].append(entry.sequence_number)
            else:
                equal.append((entry, {*content["id"].to_pylist()}))
        ids = {field.field_id for field in self.metadata.schema().fields}
        found = []
        for entry, content in data:
            file, number = entry.data_file, entry.sequence_number
            columns = [int(f.metadata[b"PARQUET:field_id"]) for f in content.schema]
            for at, values in enumerate(
                zip(*(c.to_pylist() for c in content.columns), strict=True)
            ):
                one = {
                    c: v for c, v in zip(columns, values, strict=True) if v is not None and c in ids
                }
                if any(seq >= number for seq in positions[file.file_path, at]) or any(
                    other.sequence_number > number
                    and one[1] in gone
                    and (other.data_file.spec_id, other.data_file.partition)
                    == (file.spec_id, file.partition)
                    for other, gone in equal
                ):
                    continue
                row = tuple(sorted(one.items()))
                found.append((row, file.file_path, at, file.partition, file.spec_id))
        return found

    def _bytes(self, file):
        with self.io.new_input(file.file_path).open() as stream:
            return stream.read()

    def commit(self, operation, added, removed=frozenset(), sequence=None):
        """Commit files, as engines do: manifests that lose files are written again with their deletions."""
        metadata, number = self.metadata, self.metadata.new_snapshot_id()
        head = metadata.current_snapshot()
        lists = []
        for data in (True, False):
            files = [file for file in added if (file.content == DataFileContent.DATA) == data]
            entries = [("add", self._entry(file, sequence)) for file in files]
            if entries:
                lists.append(self._manifest(data, entries[0][1].data_file.spec_id, number, entries))
        for old in self.manifests:
            entries = [
                ("delete" if e.data_file.file_path in removed else "existing", e)
                for e in old.fetch_manifest_entry(self.io)
            ]
            if any(how == "delete" for how, _ in entries):
                data = old.content == ManifestContent.DATA
                lists.append(self._manifest(data, old.partition_spec_id, number, entries))
            elif entries:
                lists.append(old)
        path = f"{metadata.location}/metadata/snap-{number}.avro"
        with write_manifest_list(
            metadata.format_version,
            self.io.new_output(path),
            number,
            head and head.snapshot_id,
            metadata.next_sequence_number(),
            CODEC,
        ) as writer:
            writer.add_manifests(lists)
        snapshot = {
            "snapshot-id": number,
            "parent-snapshot-id": head and head.snapshot_id,
            "manifest-list": path,
            "sequence-number": metadata.next_sequence_number(),
            "summary": Summary(operation),
            "schema-id": metadata.current_schema_id,
        }
        ref = {"snapshot-id": number, "ref-name": "main", "type": "branch"}
        updates = (
            AddSnapshotUpdate(snapshot=Snapshot.model_validate(snapshot)),
            SetSnapshotRefUpdate.model_validate(ref),
        )
        self.metadata = update_table_metadata(metadata, updates)

    def _entry(self, file, number):
        return ManifestEntry.from_args(
            status=ManifestEntryStatus.ADDED, data_file=file, sequence_number=number
        )

    def _manifest(self, data, spec, number, entries):
        output = self.io.new_output(f"{self.metadata.location}/metadata/{uuid4()}-m0.avro")
        terms = (self.metadata.specs()[spec], self.metadata.schema(), output, number, CODEC)
        version = self.metadata.format_version
        with write_manifest(version, *terms) if data else DeletesWriter(*terms) as writer:
            for how, entry in entries:
                getattr(writer, how)(entry)
        return writer.to_manifest_file()

    def scanned(self):
        """Return the rows as PyIceberg reads them."""
        schema = self.metadata.schema()
        rows = self.table.scan().to_arrow().to_pylist()
        ids = {field.name: field.field_id for field in schema.fields}
        return sorted(
            tuple(sorted((ids[n], v) for n, v in r.items() if v is not None)) for r in rows
        )

    def read(self):
        """Return the rows by the rules of the format, after comparison with PyIceberg if it can read them."""
        found = sorted(place[0] for place in self.places())
        if self.is_readable():
            assert self.scanned() == found
        return found


def three_way(base, source, dest):
    """Return the rows of a merge by the plain model."""
    return (dest - (base - source)) | (source - base)
