"""Reading a version of a table: Spark gets the addresses of the files, never a pattern."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime
from functools import partial, reduce
from typing import TYPE_CHECKING, Any, TypedDict, TypeGuard

from graveler.base.arguments import PathText, flag, instance, optional, prefix_text, text, texts
from graveler.errors import ExpiredError, InvalidInputError, ObjectNotFoundError
from graveler.frames.formats import of_one_format
from graveler.frames.pruning import pruned
from graveler.frames.spark.loading import KEEP, in_session, is_pattern, planning
from graveler.frames.spark.scans import (
    FILE,
    DataFile,
    Source,
    data_files,
    group_files,
    merge_groups,
    quoted,
    verify_files,
)
from graveler.frames.spark.schemas import PARQUET, TYPED, partition_fields, stored_schemas
from graveler.frames.spark.session import running, time_zone
from graveler.frames.where import Condition, Dialect, Where, conditions
from graveler.reads.partitions import Files, check_format, table_entries
from graveler.reads.ports import View

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import DataType, StructType

_OLDER_READERS = "spark.sql.sources.useV1SourceList"
_CSV = {"header": "true", "inferSchema": "true", "multiLine": "true", "escape": '"'}
"""CSV as other libraries read it; for a given format Spark's own options count."""
_ALIASES = {
    **{name: name for name in ("float", "double", "string", "binary")},
    "boolean": "bool",
    "date": "date32",
    "timestamp_ntz": "timestamp[us]",
    "byte": "int8",
    "short": "int16",
    "integer": "int32",
    "long": "int64",
}
"""Arrow's names of Spark's types."""
_GUESSED = {"csv", "json", "text", "xml"}


class ReadOptions(TypedDict, total=False):
    """The keyword arguments of `read` that select the content and the format."""

    format: str | None
    where: Where | None
    columns: Sequence[str]
    schema: "StructType | str | None"
    options: Mapping[str, str] | None
    nested: bool
    verify: bool


def read(
    view: View,
    path: PathText,
    *,
    where: Where | None = None,
    columns: Sequence[str] = (),
    format: str | None = None,
    schema: "StructType | str | None" = None,
    spark: "SparkSession | None" = None,
    options: Mapping[str, str] | None = None,
    nested: bool = True,
    verify: bool = False,
    files: Files | None = None,
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
        where: Only these rows, as for the ``read`` of a branch. Spark does not see the files of other
            partitions. A time that states no zone is in the session's, in a path as in `where`.
        columns: Only these columns, in this order.
        format: Spark's name of the file format. By default the suffixes of the files say it, and CSV
            files begin with a header.
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
        files: Only these files of the table, by their paths below it.

    Raises:
        CorruptionError: With `verify`, a file differs from its entry.
        ExpiredError: Garbage collection has removed a file since.
        ObjectNotFoundError: There is no file, and no schema for an empty frame.
        InvalidInputError: Spark cannot read these files together, or `where` or `columns` names an
            unknown column.
    """
    from pyspark.sql.types import StructType

    path, wanted = prefix_text(path, "path"), conditions(where)
    optional(instance, options, "options", kind=Mapping, expected="a mapping")
    names = texts(columns, "columns")
    flag(nested, "nested")
    flag(verify, "verify")
    entries = table_entries(view, path, nested=nested) if files is None else files
    format, entries, options = _format(path, entries, format, options)
    own = stored_schemas(entries) if schema is None and format in TYPED else {}
    if len({*own.values()}) == 1:
        schema = next(iter(own.values()))
    known = partition_fields(entries)
    if not entries and schema is None:
        raise _nothing(path)
    spark = spark or running()
    if not entries:
        return _selected(spark.createDataFrame([], schema), names, path)
    entries, wanted = pruned(entries, wanted, partial(time_zone, spark))
    if isinstance(schema, str):
        schema = spark.createDataFrame([], schema).schema
    found = data_files(view, entries, own if schema is None else {})
    on_keep = any(file.uri.startswith(KEEP) for file in found)  # a candidate has no stores
    objects = view.repository.objects if on_keep else None
    if verify:
        verify_files(spark, found, objects)
    source = Source(
        spark,
        format,
        schema,
        {**options, "__globPaths__": "false"},
        StructType.fromJson({"fields": known}),
        objects,
    )
    with _noticing_lost_files(path), planning(spark, [file.uri for file in found]) as planner:
        whole = _whole(replace(source, spark=planner), found, view, path)
        return _selected(_filtered(in_session(spark, whole), wanted, path), names, path)


def _format(
    path: str, files: Files, format: str | None, options: Mapping[str, str] | None
) -> tuple[str, Files, Mapping[str, str]]:
    """Return the format of files, the files of it, and the options of Spark's reader."""
    guessed = optional(text, format, "format") is None
    format, files = of_one_format(path, files, format)
    check_format(path, format)
    if format == "arrow":
        raise InvalidInputError(
            f"{path!r}: Spark does not read files of Arrow: use pyarrow or polars"
        )
    return format, files, {**(_CSV if guessed and format == "csv" else {}), **(options or {})}


def _filtered(frame: "DataFrame", wanted: Sequence[Condition], path: str) -> "DataFrame":
    if not wanted:
        return frame
    import pyarrow as pa

    named = _selected(frame, tuple({condition.column: None for condition in wanted}), path)
    kinds = pa.schema([(field.name, _arrow(field.dataType)) for field in named.schema])
    zone = partial(time_zone, frame.sparkSession)
    return frame.filter(_SparkDialect().all(wanted, kinds, zone))


def _arrow(kind: "DataType") -> Any:
    """Return a type as Arrow's, whose kinds of values conditions know."""
    import pyarrow as pa
    from pyspark.sql.types import DecimalType

    if isinstance(kind, DecimalType):
        return pa.decimal128(kind.precision, kind.scale)
    if kind.typeName() == "timestamp":
        return pa.timestamp("us", "UTC")
    name = _ALIASES.get(kind.typeName())
    return pa.type_for_alias(name) if name else pa.null()


class _SparkDialect(Dialect):
    """Expressions of Spark."""

    def column(self, name: str) -> Any:
        from pyspark.sql.functions import col

        return col(quoted(name))

    def literal(self, name: str, value: Any) -> Any:
        from pyspark.sql.functions import lit

        del name
        if (
            isinstance(value, datetime) and value.tzinfo is None
        ):  # lit would take the machine's zone
            return lit(value.isoformat()).cast("timestamp_ntz")
        return lit(value)

    def is_null(self, column: Any) -> Any:
        return column.isNull()

    def is_nan(self, column: Any) -> Any:
        from pyspark.sql.functions import isnan

        return isnan(column)

    def number(self) -> Any:
        from pyspark.sql.functions import rand

        return rand()

    def is_in(self, name: str, values: Sequence[Any]) -> Any:
        return self.column(name).isin([self.literal(name, value) for value in values])


def _whole(source: "Source", files: list[DataFile], view: View, path: str) -> "DataFrame":
    partitions, groups = group_files(files)
    if source.schema is None and source.format in _GUESSED and len(groups) > 1:
        source = replace(source, schema=source.guessed(files, partitions))
    source = source.with_partitions()
    schema = source.schema
    if _has_types(schema, partitions) and _tells_files(source.spark, source.format, schema):
        groups = merge_groups(groups, partitions)
    if schema is None and source.format == PARQUET and len(source.options) == 1:
        groups = source.with_schema(groups, view, files)
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
    return whole.select(*map(quoted, [*(name for name in names if name not in last), *last]))


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
            frame.withColumn(name, frame[quoted(name)].cast("string"))
            if name in frame.columns
            else frame
            for frame in frames
        ]
    return frames


def _has_types(schema: "StructType | None", columns: tuple[str, ...]) -> "TypeGuard[StructType]":
    return schema is not None and {*columns} <= {*schema.names}


def _tells_files(spark: "SparkSession", format: str, schema: "StructType") -> bool:
    """Return whether a frame of files can show the address of each row's file.

    Spark's newer readers of files, which a session can choose, cannot.
    """
    older = spark.conf.get(_OLDER_READERS) or ""  # a default argument would replace Spark's default
    names = {name.strip() for name in older.lower().split(",")}
    return format.lower() in names and FILE not in {name.lower() for name in schema.names}


def _nothing(path: str) -> ObjectNotFoundError | InvalidInputError:
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
    if not names:
        return frame
    missing = [name for name in names if name not in frame.columns]
    if missing:
        raise InvalidInputError(
            f"{path!r} has no {', '.join(map(repr, missing))}: choose of {', '.join(frame.columns)}"
        )
    return frame.select(*map(quoted, names))


@contextmanager
def _noticing_lost_files(path: str) -> Iterator[None]:
    """Raise ExpiredError if Spark does not find a file that an entry names."""
    from pyspark.errors import AnalysisException

    try:
        yield
    except (AnalysisException, ObjectNotFoundError) as error:
        lost = str(error)
        if isinstance(error, AnalysisException):
            if error.getCondition() != "PATH_NOT_FOUND":
                raise
            lost = (error.getMessageParameters() or {}).get("path", "")
        raise ExpiredError(
            f"{path!r}: the file {lost} is gone: garbage collection has removed it since the ref was "
            "looked up, if another program has not: read a ref that is kept, or run `graveler fsck`"
        ) from error
