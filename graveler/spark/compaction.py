"""Compaction: it rewrites the small files of a table as fewer files with the same rows.

Files of a partition are combined in the order of their paths. Each new file is one task of a Spark job,
and all of them land in one commit. Files that another writer appends meanwhile stay. If one of the old
files is replaced meanwhile, nothing lands.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial, reduce
from itertools import groupby
from typing import TYPE_CHECKING

from graveler.base.background import batches
from graveler.errors import CorruptionError, InvalidInputError
from graveler.frames.pruning import prune
from graveler.frames.spark.loading import planning, read_apart, setting
from graveler.frames.spark.reader import read
from graveler.frames.spark.scans import FileGroup, Source, data_files
from graveler.frames.spark.schemas import PARQUET, check_merge, rows_of, stored_schema
from graveler.frames.spark.session import time_zone
from graveler.frames.spark.writer import save
from graveler.frames.where import Where, conditions
from graveler.model import Commit, Entry
from graveler.reads.partitions import Files, folder_values, partition_columns, table_entries
from graveler.reads.ports import Target, View

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

_FULL = 0.75
_AT_A_TIME = 50
_UNION = "spark.sql.unionOutputPartitioning"


@dataclass(frozen=True, slots=True)
class Compaction:
    """The result of a compaction.

    Attributes:
        commit: The commit to which the branch moved; None if no partition needed a compaction.
    """

    commit: Commit | None
    partitions: int
    files_before: int
    files_after: int
    bytes_before: int
    bytes_after: int


@dataclass(frozen=True, slots=True)
class Bin:
    """Files of one partition that become one file."""

    folder: str
    values: tuple[tuple[str, str | None], ...]
    files: Files


def bins(files: Files, target_bytes: int) -> list[Bin]:
    """Return the bins for the small files of a table; none for partitions that need no compaction.

    A file of three quarters of the target size or more stays. Other files are combined up to the target
    size if that reduces their number.
    """

    def folder(file: tuple[str, Entry]) -> str:
        name, slash, _ = file[0].rpartition("/")
        return name + slash

    found = []
    for name, group in groupby(sorted(files, key=folder), key=folder):
        small = [file for file in group if file[1].size < _FULL * target_bytes]
        packed = [
            Bin(name, folder_values(part[0][0]), part) for part in _packed(small, target_bytes)
        ]
        found += [one for one in packed if len(one.files) > 1 and _is_written(one)]
    return found


def _is_written(one: Bin) -> bool:
    """Return whether Spark can write the values of a partition: it writes empty text as null."""
    return all(value != "" for _, value in one.values)


def _packed(files: Files, target_bytes: int) -> Iterator[Files]:
    part: list[tuple[str, Entry]] = []
    held = 0
    for file in files:
        if part and held + file[1].size > target_bytes:
            yield part
            part, held = [], 0
        part.append(file)
        held += file[1].size
    if part:
        yield part


def small_files(
    view: View,
    spark: "SparkSession",
    folder: str,
    where: Where | None,
    target_bytes: int,
) -> list[Bin]:
    """Return the bins that a compaction of a table would combine."""
    files: Files = table_entries(view, folder, nested=False)
    if where and files:
        files = prune(folder, files, conditions(where), partial(time_zone, spark))
    return bins(files, target_bytes)


def rewrite(target: Target, spark: "SparkSession", folder: str, due: list[Bin]) -> list[Entry]:
    """Write the files of each bin as one file, and stage it in their place."""
    files = [file for one in due for file in one.files]
    columns = partition_columns([relative for relative, _ in files])
    whole_table = table_entries(target._unrecorded, folder, nested=False)
    check_merge(folder, (entry for _, entry in whole_table), ())
    schema = stored_schema(whole_table) or _schema(target, spark, folder)
    options = {"__globPaths__": "false", "recursiveFileLookup": "true"}
    made: list[Entry] = []
    for part in batches(due, _AT_A_TIME):
        uris = [[file.uri for file in data_files(target, one.files)] for one in part]
        with planning(spark, [uri for some in uris for uri in some]) as planner:
            source = Source(planner, PARQUET, None, options, objects=target.repository.objects)
            frames = [
                _frame(source, some, one, schema, columns)
                for some, one in zip(uris, part, strict=True)
            ]
        whole = reduce(lambda left, right: left.unionByName(right), frames)
        # Spark would merge frames of one partition each into one partition
        with setting(whole.sparkSession, _UNION, "false"):
            entries = save(target, whole, format=PARQUET, partition_by=columns, schema=schema)
        folders = {one.values: one.folder for one in part}
        before = rows_of(entry for one in part for _, entry in one.files)
        after = rows_of(entries)
        if before not in (None, after):
            raise CorruptionError(
                f"{folder!r}: {before} rows were rewritten as {after}: nothing has landed; run "
                "`graveler fsck --checksums`"
            )
        for entry in entries:
            name = entry.path.rpartition("/")[2]
            made.append(replace(entry, path=f"{folder}{folders[folder_values(entry.path)]}{name}"))
    target._link_written(made)
    target.delete_many(entry.path for _, entry in files)
    return made


def _schema(target: Target, spark: "SparkSession", folder: str) -> "StructType":
    """Return all columns of a table from all its footers: a missing column would be lost."""
    from pyspark.errors import PySparkException

    options = {"mergeSchema": "true"}
    try:
        return read(target, folder, nested=False, options=options, spark=spark).schema
    except PySparkException as error:
        raise InvalidInputError(
            f"{folder!r}: Spark does not read its files as one table ({str(error).splitlines()[0]}): read "
            "it with a schema, and overwrite it"
        ) from error


def _frame(
    source: Source, uris: list[str], one: Bin, schema: "StructType", columns: tuple[str, ...]
) -> "DataFrame":
    """Return the rows of a bin, in one task, with its partition columns as text."""
    from pyspark.sql.functions import lit
    from pyspark.sql.types import StructType

    data = StructType([field for field in schema.fields if field.name not in columns])
    frames = [source.load(FileGroup(apart), data) for apart in read_apart(uris)]
    frame = reduce(lambda left, right: left.unionByName(right), frames).coalesce(1)
    for name, value in one.values:
        frame = frame.withColumn(name, lit(value).cast("string"))
    return frame
