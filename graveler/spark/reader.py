"""Reading a version of a table: Spark gets the addresses of the files, never a pattern.

Spark finds partition columns (``day=2013-01-01/``) below *one* folder only. Each write to a table of a
lake has a folder of its own, so the files are read in groups. Spark finds the columns of the files of one
write, and prunes by them. Files whose address lacks the folders of their path get the columns as
constants. The files of very many writes are one group, whose columns are computed from the addresses,
because Spark needs minutes to plan a union of thousands of frames.
"""

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial, reduce
from typing import TYPE_CHECKING, Any, TypedDict, TypeGuard, cast

from graveler.base.arguments import PathText, flag, instance, optional, prefix_text, text, texts
from graveler.errors import ExpiredError, InvalidInputError, ObjectNotFoundError
from graveler.model import Entry
from graveler.reads.formats import check_format
from graveler.reads.partitions import (
    NULL_PARTITION,
    Files,
    folder_values,
    is_hidden,
    partition_columns,
    table_entries,
    value_folders,
)
from graveler.reads.ports import View
from graveler.reads.schemas import kept_of, merge_fields
from graveler.spark.loading import in_session, load, planning
from graveler.spark.ports import is_pattern, is_remote, read_apart, spark_uri
from graveler.spark.pruning import prune, seen_values
from graveler.spark.schemas import (
    PARQUET,
    TYPED,
    have_same_columns,
    partition_fields,
    stored_schemas,
)
from graveler.spark.session import running, time_zone
from graveler.spark.verified import verify_files

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession
    from pyspark.sql.types import DataType, StructType

_OLDER_READERS = "spark.sql.sources.useV1SourceList"
_FILE = "_metadata"  # a hidden column of frames of files, unless a file has a column of that name
_MOST_GROUPS = 16
_GUESSED = {"csv", "json", "text", "xml"}
_PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


@dataclass(frozen=True, slots=True)
class DataFile:
    """A file of a table.

    Attributes:
        schema: Columns and types; None for those of the source.
    """

    relative: str
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


class ReadOptions(TypedDict, total=False):
    """The keyword arguments of `read` that select the content and the format."""

    format: str
    where: Mapping[str, Any] | None
    columns: Sequence[str]
    schema: "StructType | str | None"
    options: Mapping[str, str] | None
    nested: bool
    verify: bool


def read(
    view: View,
    path: PathText,
    *,
    where: Mapping[str, Any] | None = None,
    columns: Sequence[str] = (),
    format: str = "parquet",
    schema: "StructType | str | None" = None,
    spark: "SparkSession | None" = None,
    options: Mapping[str, str] | None = None,
    nested: bool = True,
    verify: bool = False,
) -> "DataFrame":
    """Return the present table at `path` in `view`.

    The files are looked up once, in this call. The frame does not show later commits. ``key=value``
    folders below `path` become columns. The entries of files from `write` have the
    types of these columns, and those of Parquet and ORC files have the schema, so no footer is read. The
    schema of the table is that of all entries: structs are merged by field, and numbers are widened.
    Other files get the types of the partition columns from the entries. If no entry has them, Spark
    guesses, and a partition column is text if no guess fits all files, or if the address of a file
    lacks the folders of its path; a `schema` gives it another type. A column that only some files
    have is null in the others. As everywhere in Spark, files and folders whose names start with ``_`` or ``.`` are skipped.

    Args:
        view: A ref, branch, run, step or candidate.
        path: A file, or a folder.
        where: Only these partitions: for each column a value or a list of values; None is the
            partition of nulls. Spark does not see the other files. Text is compared with the text
            in the path, a number with a number, a date or a time with a date or a time. A time that
            states no zone is in the session's, in a path as in `where`.
        columns: Only these columns, in this order.
        format: Spark's name of the file format.
        schema: Columns and types, partition columns among them; with one, an empty folder is
            an empty frame.
        spark: The session, classic or of Spark Connect; by default the active one, else a new
            local one.
        options: Spark's options of the format.
        nested: Whether to read the files in all folders below `path`. False reads those in the folder
            itself and in its ``key=value`` folders, as Spark does when it lists a folder.
        verify: Whether the executors first read every file completely, and compare its size and
            checksum (sha224 to sha512, sha1 or md5; for other algorithms only the size). Each
            task holds a file of at most 2 GiB in memory. Later changes of a file are not
            detected.

    Raises:
        CorruptionError: With `verify`, a file differs from its entry.
        ExpiredError: Garbage collection has removed a file since.
        ObjectNotFoundError: There is no file, and no schema for an empty frame.
        InvalidInputError: Spark cannot read these files together, or `where` or `columns` names an
            unknown column.
    """
    from pyspark.sql.types import StructType

    path, format = prefix_text(path, "path"), text(format, "format")
    check_format(path, format)
    optional(instance, options, "options", kind=Mapping, expected="a mapping")
    optional(instance, where, "where", kind=Mapping, expected="a mapping of columns to values")
    names = texts(columns, "columns")
    flag(nested, "nested")
    flag(verify, "verify")
    entries: Files = table_entries(view, path, nested=nested)
    own = stored_schemas(entries) if schema is None and format in TYPED else {}
    if len({*own.values()}) == 1:
        schema = next(iter(own.values()))
    known = partition_fields(entries)
    if where and entries:
        spark = spark or running()
        every, entries = entries, prune(path, entries, where, partial(time_zone, spark))
        if not entries and schema is None:
            raise ObjectNotFoundError(
                f"no file of {path!r} has {dict(where)}: there are {seen_values(every, [*where])}; "
                "give a schema to get an empty frame"
            )
    if not entries and schema is None:
        raise _nothing(path)
    spark = spark or running()
    if not entries:
        return _selected(spark.createDataFrame([], schema), names, path)
    if isinstance(schema, str):
        schema = spark.createDataFrame([], schema).schema
    files = data_files(view, entries)
    if verify:
        uris = (file.uri for file in files)
        verify_files(spark, list(zip((entry for _, entry in entries), uris, strict=True)))
    if schema is None and own:
        kept = [kept_of(entry) for _, entry in entries]
        files = [replace(file, schema=own[key]) for file, key in zip(files, kept, strict=True)]
    source = Source(
        spark,
        format,
        schema,
        {**(options or {}), "__globPaths__": "false"},
        StructType.fromJson({"fields": known}),
    )
    of_uri = {file.uri: entry for file, (_, entry) in zip(files, entries, strict=True)}
    with _noticing_lost_files(path), planning(spark, of_uri) as planner:
        whole = _whole(replace(source, spark=planner), files, view, of_uri, path)
        return _selected(in_session(spark, whole), names, path)


def _whole(
    source: "Source", files: list[DataFile], view: View, entries: Mapping[str, Entry], path: str
) -> "DataFrame":
    """Return the frame of a table's files."""
    partitions, groups = group_files(files)
    if source.schema is None and source.format in _GUESSED and len(groups) > 1:
        source = replace(source, schema=source.guessed(files, partitions))
    source = source.with_partitions()
    schema = source.schema
    if _has_types(schema, partitions) and _tells_files(source.spark, source.format, schema):
        groups = merge_groups(groups, partitions)
    if schema is None and source.format == PARQUET and len(source.options) == 1:
        groups = source.with_schema(groups, view, entries)
    return _united(source.frames(groups, partitions), partitions, path)


def _united(frames: "Sequence[DataFrame]", partitions: tuple[str, ...], path: str) -> "DataFrame":
    """Return the frames of groups as one frame with the columns of all; partition columns are last."""
    from pyspark.errors import AnalysisException

    try:
        whole = reduce(
            lambda left, right: left.unionByName(right, allowMissingColumns=True), _as_text(frames)
        )
        names = whole.columns
    except AnalysisException as error:
        raise InvalidInputError(
            f"{path!r}: its partitions have columns of one name that Spark does not read as one "
            f"({str(error).splitlines()[0]}): give a schema"
        ) from error
    if len(names) == len(frames[0].columns):
        return whole
    last = [name for name in names if name in partitions]
    return whole.select(*map(_quoted, [*(name for name in names if name not in last), *last]))


def _as_text(frames: "Sequence[DataFrame]") -> "Sequence[DataFrame]":
    """Return frames in which a column is text if it is text in some of them.

    Spark would cast it to the number, date or time of the others, and fail at the first other text.
    """
    from pyspark.sql.types import AtomicType, DataType, StringType

    kinds: dict[str, set[DataType]] = {}
    for field in (field for frame in frames for field in frame.schema):
        kinds.setdefault(field.name, set()).add(field.dataType)
    texts = [
        name
        for name, found in kinds.items()
        if len(found) > 1
        and StringType() in found
        and all(isinstance(kind, AtomicType) for kind in found)
    ]
    for name in texts:
        frames = [
            frame.withColumn(name, frame[_quoted(name)].cast("string"))
            if name in frame.columns
            else frame
            for frame in frames
        ]
    return frames


def _has_types(schema: "StructType | None", columns: tuple[str, ...]) -> "TypeGuard[StructType]":
    """Return whether a schema has the types of all these columns."""
    return schema is not None and {*columns} <= {*schema.names}


def _together(kinds: "Collection[DataType]") -> "DataType":
    """Return the type of a partition column that has these types; text if no number fits all."""
    from pyspark.sql.types import StringType, StructField

    fields = [StructField("", kind).jsonValue() for kind in kinds]
    (field,), faults = merge_fields([[field] for field in fields])
    return StringType() if faults else StructField.fromJson(field).dataType


def _retyped(schema: "StructType", kinds: "Mapping[str, DataType]") -> "StructType":
    """Return a schema in which some columns have other types."""
    from pyspark.sql.types import StructField, StructType

    fields = [StructField(field.name, kinds.get(field.name, field.dataType)) for field in schema]
    return StructType(fields)


def _tells_files(spark: "SparkSession", format: str, schema: "StructType") -> bool:
    """Return whether a frame of files can show the address of each row's file.

    Spark's newer readers of files, which a session can choose, cannot.
    """
    older = spark.conf.get(_OLDER_READERS) or ""  # a default argument would replace Spark's default
    names = {name.strip() for name in older.lower().split(",")}
    return format.lower() in names and _FILE not in {name.lower() for name in schema.names}


def _nothing(path: str) -> ObjectNotFoundError | InvalidInputError:
    """Return the error for a table without files."""
    if is_pattern(path):
        return InvalidInputError(
            f"{path!r} looks like a pattern, and nothing has this path: name the folder of the table "
            "and choose partitions by `where`. Hadoop has no patterns for folders like '05:00': it "
            "reads the text before the colon as the name of a file system"
        )
    return ObjectNotFoundError(
        f"nothing to read below {path!r}: write it first, or give a schema to get an empty frame"
    )


def _selected(frame: "DataFrame", names: tuple[str, ...], path: str) -> "DataFrame":
    """Return the requested columns of a frame, or all of them."""
    if not names:
        return frame
    missing = [name for name in names if name not in frame.columns]
    if missing:
        raise InvalidInputError(
            f"columns: {path!r} has no {', '.join(map(repr, missing))}: choose of "
            f"{', '.join(frame.columns)}"
        )
    return frame.select(*map(_quoted, names))


def _quoted(name: str) -> str:
    """Return the name of a column as an expression of Spark."""
    return "`{}`".format(name.replace("`", "``"))


@contextmanager
def _noticing_lost_files(path: str) -> Iterator[None]:
    """Raise ExpiredError if Spark does not find a file that an entry names."""
    from pyspark.errors import AnalysisException

    try:
        yield
    except AnalysisException as error:
        if error.getCondition() != "PATH_NOT_FOUND":
            raise
        lost = (error.getMessageParameters() or {}).get("path", "")
        raise ExpiredError(
            f"{path!r}: the file {lost} is gone: garbage collection has removed it since the ref was "
            "looked up, if another program has not: read a ref that is kept, or run `graveler fsck`"
        ) from error


def data_files(view: View, entries: Files) -> list[DataFile]:
    """Return the files of entries with their URIs in Spark."""
    files = [DataFile(name, spark_uri(view.uri(entry))) for name, entry in entries]
    for file in files:
        if is_hidden(file.uri.rpartition("/")[2]):
            raise InvalidInputError(
                f"Spark skips {file.uri!r} because of its name: put a copy into the lake"
            )
    return files


def _in_address(name: str) -> "Column":
    """Return the value of a partition column, as text, from the address of a row's file."""
    from pyspark.sql import functions as F  # noqa: N812 - its usual name; heavy

    text = F.regexp_extract(F.col(f"{_FILE}.file_path"), f"^.*/{name}=([^/]*)/", 1)
    for _ in range(2):  # Spark escapes a value in a path, and a URI escapes the path
        text = F.url_decode(F.replace(text, F.lit("+"), F.lit("%2B")))
    return F.nullif(text, F.lit(NULL_PARTITION))


@dataclass(frozen=True)
class Source:
    """Spark's reader without the files.

    Attributes:
        schema: Columns and types; None if Spark finds them.
        known: The partition columns whose types the entries have.
    """

    spark: "SparkSession"
    format: str
    schema: "StructType | None"
    options: Mapping[str, str]
    known: "StructType | tuple[()]" = ()

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
        self, groups: list[FileGroup], view: View, entries: Mapping[str, Entry]
    ) -> list[FileGroup]:
        """Give groups of Parquet files one schema, so that Spark looks for it once.

        Otherwise Spark would start a job for each group to read the footer of one file. If these footers
        differ, the groups are returned unchanged.

        Args:
            entries: The entries of the files by their addresses.
        """
        firsts = {min(group.uris) for group in groups if not (group.base or group.schema)}
        merged = self.spark.conf.get("spark.sql.parquet.mergeSchema") == "true"
        if len(firsts) < 2 or merged:
            return groups
        if not have_same_columns(view.repository, [entries[uri] for uri in firsts]):
            return groups
        schema = self.load(FileGroup((min(firsts),)), None).schema
        return [
            group if group.base or group.schema else replace(group, schema=schema)
            for group in groups
        ]

    def _frame(self, group: FileGroup, columns: tuple[str, ...]) -> "DataFrame":
        from pyspark.sql.functions import lit
        from pyspark.sql.types import DecimalType, StringType

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
            frame = frame.withColumn(name, frame[_quoted(name)].cast(kind))
        for name, value in group.constants:
            constant = lit(value).cast(
                frame.schema[name].dataType if name in frame.columns else "string"
            )
            frame = frame.withColumn(name, constant)
        return frame

    def _computed(self, group: FileGroup) -> "DataFrame":
        """Return a frame of files whose partition columns are computed from their addresses."""
        from pyspark.sql.types import StructType

        schema = cast("StructType", self.schema)
        data = StructType([field for field in schema.fields if field.name not in group.computed])
        plain = replace(self, options={**self.options, "recursiveFileLookup": "true"})
        frame = plain.load(group, data)
        return frame.withColumns(
            {name: _in_address(name).cast(schema[name].dataType) for name in group.computed}
        )

    def load(self, group: FileGroup, schema: "StructType | None") -> "DataFrame":
        """Return a frame of the files of a group."""
        reader = self.spark.read.format(self.format).options(**self.options)
        if schema is not None:
            reader = reader.schema(schema)
        if group.base:
            reader = reader.option("basePath", group.base)
        return load(self.spark, reader, group.uris)
