"""The files of a table as Spark scans them: in groups, with a schema each, and compared with their entries.

Spark finds partition columns (``day=2013-01-01/``) below *one* folder only, and each write to a table has
a folder of its own. Files whose address lacks the folders of their path get the columns as constants. The
files of very many writes are one group, whose columns are computed from the addresses, because Spark
needs minutes to plan a union of thousands of frames.
"""

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

from graveler.collections.objects import KeepObjects
from graveler.errors import CorruptionError, InvalidInputError
from graveler.frames.spark.keep import frame_by_tasks
from graveler.frames.spark.loading import KEEP, is_remote, load, planning, read_apart, spark_uri
from graveler.frames.spark.schemas import have_same_columns
from graveler.model import Entry
from graveler.objects.store import ObjectStore
from graveler.reads.files import refusal
from graveler.reads.partitions import (
    NULL_PARTITION,
    Files,
    folder_values,
    is_hidden,
    partition_columns,
    value_folders,
)
from graveler.reads.ports import View
from graveler.reads.schemas import Kept, kept_of, merge_fields

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession
    from pyspark.sql.types import DataType, StructType

FILE = "_metadata"  # a hidden column of frames of files, unless a file has a column of that name
_MOST_GROUPS = 16
_PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_MOST_BYTES = 2**31 - 1
_BITS = {"sha224": 224, "sha256": 256, "sha384": 384, "sha512": 512}


def quoted(name: str) -> str:
    """Return the name of a column as an expression of Spark."""
    return "`{}`".format(name.replace("`", "``"))


@dataclass(frozen=True, slots=True)
class DataFile:
    """A file of a table."""

    relative: str
    entry: Entry
    uri: str
    schema: "StructType | None" = None


@dataclass(frozen=True, slots=True)
class FileGroup:
    """Files that Spark can read together.

    Attributes:
        base: The folder below which Spark finds the partition columns, or "".
        constants: The partition columns that Spark cannot find, with their values.
        computed: The partition columns to compute from the addresses.
        schema: Columns and types of the files; None for those of the source.
    """

    uris: tuple[str, ...]
    base: str = ""
    constants: tuple[tuple[str, str | None], ...] = ()
    computed: tuple[str, ...] = ()
    schema: "StructType | None" = None


def group_files(files: list[DataFile]) -> tuple[tuple[str, ...], list[FileGroup]]:
    """Return the partition columns of a table and its files in groups."""
    names = partition_columns([file.relative for file in files])
    groups: dict[Any, list[DataFile]] = {}
    for file in files:
        base = _base(file)
        constants = () if base else folder_values(file.relative)
        groups.setdefault((base, constants, id(file.schema)), []).append(file)
    return names, [
        FileGroup(tuple(file.uri for file in some), base, constants, schema=some[0].schema)
        for (base, constants, _), some in groups.items()
    ]


def merge_groups(groups: list[FileGroup], columns: tuple[str, ...]) -> list[FileGroup]:
    """Return the groups; if there are very many, the groups of single writes become one."""
    written = [group for group in groups if group.base]
    if len(written) <= _MOST_GROUPS or not all(map(_PLAIN.fullmatch, columns)):
        return groups
    uris = tuple(uri for group in written for uri in group.uris)
    others = [group for group in groups if not group.base]
    return [FileGroup(uris, computed=columns), *others]


def _base(file: DataFile) -> str:
    """Return the folder in the address below which the folders of the path begin, or ""."""
    folders = value_folders(file.relative)
    tail = "/" + "/".join(folders)
    folder = file.uri.rpartition("/")[0]
    return folder.removesuffix(tail) if folders and folder.endswith(tail) else ""


def data_files(
    view: View, entries: Files, schemas: "Mapping[Kept, StructType | None] | None" = None
) -> list[DataFile]:
    """Return the files of entries with their URIs in Spark, and with the schemas of what entries keep."""
    own = schemas or {}
    files = [
        DataFile(name, entry, spark_uri(view.uri(entry)), own[kept_of(entry)] if own else None)
        for name, entry in entries
    ]
    for file in files:
        if is_hidden(file.uri.rpartition("/")[2]):
            raise InvalidInputError(
                f"Spark skips {file.uri!r} because of its name: put a copy into the lake"
            )
    return files


@dataclass(frozen=True)
class Source:
    """Spark's reader without the files."""

    spark: "SparkSession"
    format: str
    schema: "StructType | None"
    options: Mapping[str, str]
    known: "StructType | tuple[()]" = ()
    objects: ObjectStore | None = None

    def frames(self, groups: list[FileGroup], columns: tuple[str, ...]) -> "list[DataFrame]":
        """Return a frame of each group, with the same types of the partition columns."""
        groups = [replace(group, uris=uris) for group in groups for uris in read_apart(group.uris)]
        frames = [self._frame(group, columns) for group in groups]
        found = {name: {frame.schema[name].dataType for frame in frames} for name in columns}
        known = {} if self.schema else {field.name: field.dataType for field in self.known}
        kinds = {
            name: known.get(name) or _together(some)
            for name, some in found.items()
            if len(some) > 1 or not some <= {known.get(name, *some)}
        }
        if not kinds:
            return frames
        typed = zip(groups, (_retyped(frame.schema, kinds) for frame in frames), strict=True)
        return [self._frame(replace(group, schema=schema), columns) for group, schema in typed]

    def guessed(self, files: Sequence[DataFile], columns: tuple[str, ...]) -> "StructType":
        """Return the columns that Spark guesses from all files together, without partition columns.

        Spark finds columns of CSV files by position and of JSON files by name.
        """
        plain = replace(self, options={**self.options, "recursiveFileLookup": "true"})
        schema = plain.load(FileGroup(tuple(file.uri for file in files)), None).schema
        return type(schema)([field for field in schema if field.name not in columns])

    def with_partitions(self) -> "Source":
        """Return the source with the known partition columns that its schema lacks."""
        if self.schema is None:
            return self
        fields = [field for field in self.known if field.name not in self.schema.names]
        return replace(self, schema=type(self.schema)([*self.schema, *fields]))

    def with_schema(
        self, groups: list[FileGroup], view: View, files: list[DataFile]
    ) -> list[FileGroup]:
        """Give groups of Parquet files one schema, so that Spark looks for it once.

        Otherwise Spark would start a job for each group to read the footer of one file. If these footers
        differ, the groups are returned unchanged.
        """
        firsts = {min(group.uris) for group in groups if not (group.base or group.schema)}
        merged = self.spark.conf.get("spark.sql.parquet.mergeSchema") == "true"
        if len(firsts) < 2 or merged:
            return groups
        entries = [file.entry for file in files if file.uri in firsts]
        if not have_same_columns(view, entries):
            return groups
        schema = self.load(FileGroup((min(firsts),)), None).schema
        return [
            group if group.base or group.schema else replace(group, schema=schema)
            for group in groups
        ]

    def _frame(self, group: FileGroup, columns: tuple[str, ...]) -> "DataFrame":
        from pyspark.sql.functions import lit
        from pyspark.sql.types import DecimalType, StringType

        if group.base.startswith(KEEP):
            group = replace(group, base="", computed=columns)
        if group.computed:
            return self._computed(group)
        schema = group.schema or self.schema
        # Spark's vectorized readers take the digits of a folder for those of the schema: 2.5 is 0.25
        decimals = {
            field.name: field.dataType
            for field in (schema if group.base and schema else ())
            if field.name in columns and isinstance(field.dataType, DecimalType)
        }
        if schema and decimals:
            schema = _retyped(schema, dict.fromkeys(decimals, StringType()))
        frame = self.load(group, schema)
        if is_remote(self.spark):
            # a server of Spark Connect plans the frame again for every action with the then current
            # settings, so the schema that was found now is fixed
            frame = self.load(group, frame.schema)
        for name, kind in decimals.items():
            frame = frame.withColumn(name, frame[quoted(name)].cast(kind))
        for name, value in group.constants:
            constant = lit(value).cast(
                frame.schema[name].dataType if name in frame.columns else "string"
            )
            frame = frame.withColumn(name, constant)
        return frame

    def _computed(self, group: FileGroup) -> "DataFrame":
        """Return a frame of files whose partition columns are computed from their addresses."""
        from pyspark.sql.types import StringType, StructType

        schema = group.schema or self.schema
        fields = {} if schema is None else {field.name: field for field in schema}
        kinds = {
            name: fields.pop(name).dataType if name in fields else StringType()
            for name in group.computed
        }
        plain = replace(self, options={**self.options, "recursiveFileLookup": "true"})
        frame = plain.load(group, None if schema is None else StructType([*fields.values()]))
        frame = frame.withColumns(
            {name: _in_address(name).cast(kind) for name, kind in kinds.items()}
        )
        return frame.drop(FILE) if group.uris[0].startswith(KEEP) else frame

    def load(self, group: FileGroup, schema: "StructType | None") -> "DataFrame":
        """Return a frame of the files of a group."""
        reader = self.spark.read.format(self.format).options(**self.options)
        if schema is not None:
            reader = reader.schema(schema)
        if group.base:
            reader = reader.option("basePath", group.base)
        if isinstance(self.objects, KeepObjects) and group.uris[0].startswith(KEEP):
            file = FILE if group.computed else ""
            return frame_by_tasks(
                self.objects,
                self.spark,
                reader,
                group.uris,
                self.format,
                schema,
                self.options,
                file,
            )
        return load(self.spark, reader, group.uris)


def _retyped(schema: "StructType", kinds: "Mapping[str, DataType]") -> "StructType":
    from pyspark.sql.types import StructField, StructType

    fields = [StructField(field.name, kinds.get(field.name, field.dataType)) for field in schema]
    return StructType(fields)


def _together(kinds: "Collection[DataType]") -> "DataType":
    """Return the type of a partition column that has these types; text if no number fits all."""
    from pyspark.sql.types import StringType, StructField

    fields = [StructField("", kind).jsonValue() for kind in kinds]
    (field,), faults = merge_fields([[field] for field in fields])
    return StringType() if faults else StructField.fromJson(field).dataType


def _in_address(name: str) -> "Column":
    """Return the value of a partition column, as text, from the address of a row's file."""
    from pyspark.sql import functions as f

    text = f.regexp_extract(f.col(f"{FILE}.file_path"), f"^.*/{name}=([^/]*)/", 1)
    for _ in range(2):  # Spark escapes a value in a path, and a URI escapes the path
        text = f.url_decode(f.replace(text, f.lit("+"), f.lit("%2B")))
    return f.nullif(text, f.lit(NULL_PARTITION))


def verify_files(
    spark: "SparkSession", files: Sequence[DataFile], objects: ObjectStore | None
) -> None:
    """Let Spark read each file completely, and compare its size and checksum.

    The tasks read through Spark's own file systems, as a read of the table does, and do not
    need graveler. A task holds one file in memory at a time.
    """
    by_algorithm: dict[str, list[DataFile]] = {}
    for file in files:
        if file.entry.size > _MOST_BYTES:
            raise InvalidInputError(
                f"{file.entry.path!r} at {file.uri} has {file.entry.size} bytes, and Spark hashes files "
                f"of up to {_MOST_BYTES}: read it without verify=True, and use `graveler fsck --checksums`"
            )
        algorithm = file.entry.checksum.partition(":")[0].lower()
        by_algorithm.setdefault(algorithm, []).append(file)
    wrong = [
        error
        for algorithm, group in by_algorithm.items()
        for error in _wrong(spark, algorithm, group, objects)
    ]
    if wrong:
        others = f" (and {len(wrong) - 1} other files)" if len(wrong) > 1 else ""
        raise type(wrong[0])(f"{wrong[0]}{others}")


def _wrong(
    spark: "SparkSession", algorithm: str, files: list[DataFile], objects: ObjectStore | None
) -> Iterator[CorruptionError]:
    from pyspark.sql import functions as f

    content, other = f.col("content"), {"md5": f.md5, "sha1": f.sha1}.get(algorithm)
    digest = other(content) if other else f.lit("")
    if algorithm in _BITS:
        digest = f.sha2(content, _BITS[algorithm])
    uris = [file.uri for file in files]
    with planning(spark, uris) as planner:
        # without partition columns
        options = {"__globPaths__": "false", "recursiveFileLookup": "true"}
        source = Source(planner, "binaryFile", None, options, objects=objects)
        frames = [source.load(FileGroup(apart), None) for apart in read_apart(uris)]
    hashed = [frame.select(f.col("path"), f.col("length"), digest) for frame in frames]
    rows = reduce(lambda left, right: left.union(right), hashed).collect()
    measured = {_normal(path): (length, found) for path, length, found in rows}
    for file in files:
        size, found = measured.get(_normal(file.uri), (0, ""))  # Spark skips empty files
        name, _, wanted = file.entry.checksum.partition(":")
        if size != file.entry.size:
            yield refusal(file.uri, file.entry, f"{size} bytes", f"{file.entry.size} bytes")
        elif found and found != wanted.lower():
            yield refusal(file.uri, file.entry, f"{name}:{found}", file.entry.checksum)


def _normal(uri: str) -> str:
    """Return the name of a file in a form that is equal for Spark and Hadoop."""
    scheme, _, rest = unquote(uri).partition(":")
    return f"{scheme}:{rest.lstrip('/')}"
