"""Reading a version of a table: the files' own addresses go to Spark, never a pattern."""

import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import reduce
from typing import TYPE_CHECKING, Final

from graveler.arguments import PathText, flag, instance, optional, prefix_text, text
from graveler.errors import InvalidInputError, ObjectNotFoundError
from graveler.model import Entry
from graveler.spark.partitions import DataFile, FileGroup, group_files
from graveler.spark.ports import View, is_hidden, is_pattern, spark_uri
from graveler.spark.session import session
from graveler.spark.verified import verify_files

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType


_LISTING: Final = "spark.sql.sources.parallelPartitionDiscovery.parallelism"
_INFERENCE: Final = "spark.sql.sources.partitionColumnTypeInference.enabled"
# these settings are the session's: two reads that plan at a time would restore each other's
_planning = threading.Lock()


def read(  # noqa: PLR0913 - what a reading has
    view: View,
    path: PathText,
    *,
    format: str = "parquet",  # noqa: A002 - Spark's own word
    schema: "StructType | str | None" = None,
    spark: "SparkSession | None" = None,
    options: Mapping[str, str] | None = None,
    verify: bool = False,
) -> "DataFrame":
    """Return the table at `path` as `view` has it now.

    The files are looked up once, here: what is committed later does not show in the frame.
    ``key=value`` folders below `path` become columns. Their types are Spark's guess where
    one guess fits all files, else text; a `schema` decides them. As everywhere in Spark, files
    and folders whose names start with ``_`` or ``.`` are passed over.

    Args:
        view: A ref, branch, run, step or candidate.
        path: A file, or a folder: a prefix that ends with ``/``.
        format: Spark's name of the file format.
        schema: Columns and types, partition columns among them; with one, an empty folder is
            an empty frame.
        spark: The session; the running one, else a local one, where it is not given.
        options: Spark's options of the format.
        verify: Have the executors read every file whole first, and compare its size and
            checksum: sha224 to sha512, sha1 or md5; of another one the size alone. Each task
            holds a file in memory, of 2 GiB at most. What happens to a file after that is not
            noticed.

    Raises:
        CorruptionError: With `verify`, a file is not what its entry says.
        ObjectNotFoundError: There is no file, and no schema to make an empty frame of.
        InvalidInputError: Spark cannot read these files together.
    """
    path, format = prefix_text(path, "path"), text(format, "format")  # noqa: A001 - as above
    optional(instance, options, "options", kind=Mapping, expected="a mapping")
    flag(verify, "verify")
    found = _entries(view, path)
    files = _files(view, found)
    if not files and schema is None:
        raise ObjectNotFoundError(
            f"nothing to read below {path!r}: write it first, or give a schema to get an empty "
            "frame"
        )
    spark = spark or _running()
    if not files:
        return spark.createDataFrame([], schema)
    if verify:
        entries = [entry for _, entry in found]
        verify_files(spark, list(zip(entries, (file.uri for file in files), strict=True)))
    columns, groups = group_files(files)
    source = _Source(spark, format, schema, {**(options or {}), "__globPaths__": "false"})
    with _planning:
        frames = source.frames(groups, columns)
    return reduce(lambda left, right: left.unionByName(right), frames)


def _running() -> "SparkSession":
    from pyspark.errors import PySparkRuntimeError  # noqa: PLC0415 - heavy: only where it is used
    from pyspark.sql import SparkSession  # noqa: PLC0415

    try:
        return SparkSession.active()
    except PySparkRuntimeError:
        return session()


def _entries(view: View, path: str) -> list[tuple[str, Entry]]:
    """Return the entries of a table's files, of one version, by their paths below it."""
    if path and not path.endswith("/"):
        try:
            return [(path.rpartition("/")[2], view.stat(path))]
        except ObjectNotFoundError as error:
            raise ObjectNotFoundError(f"{error}; a folder's path ends with '/'") from None
    below = ((entry.path.removeprefix(path), entry) for entry in view.entries(path))
    return [(name, entry) for name, entry in below if not is_hidden(name)]


def _files(view: View, found: list[tuple[str, Entry]]) -> list[DataFile]:
    files = [DataFile(name, spark_uri(view.uri(entry))) for name, entry in found]
    for file in files:
        if is_hidden(file.uri.rpartition("/")[2]):
            raise InvalidInputError(
                f"Spark passes over {file.uri!r} because of its name: put a copy into the lake"
            )
        # of several paths, one that looks like a pattern makes Spark read the others twice
        if len(files) > 1 and is_pattern(file.uri):
            raise InvalidInputError(
                f"Spark takes {file.uri!r} for a pattern: read it alone, or keep it at an "
                "address without { } [ ] * and ?"
            )
    return files


@dataclass(frozen=True)
class _Source:
    """Spark's reader with everything but the files."""

    spark: "SparkSession"
    format: str
    schema: "StructType | str | None"
    options: Mapping[str, str]

    def frames(self, groups: list[FileGroup], columns: tuple[str, ...]) -> "list[DataFrame]":
        # the default lists a cluster's worth of folders: ten thousand tasks for as many files
        parallelism = str(2 * self.spark.sparkContext.defaultParallelism)
        with self._setting(_LISTING, parallelism):
            frames = [self._frame(group) for group in groups]
            if all(len({frame.schema[name].dataType for frame in frames}) == 1 for name in columns):
                return frames
            with self._setting(_INFERENCE, "false"):
                return [self._frame(group) for group in groups]

    def _frame(self, group: FileGroup) -> "DataFrame":
        from pyspark.sql.functions import lit  # noqa: PLC0415 - heavy: only where it is used

        reader = self.spark.read.format(self.format).options(**self.options)
        if self.schema is not None:
            reader = reader.schema(self.schema)
        if group.base:
            reader = reader.option("basePath", group.base)
        frame = reader.load(list(group.uris))
        for name, value in group.constants:
            constant = lit(value).cast(
                frame.schema[name].dataType if name in frame.columns else "string"
            )
            frame = frame.withColumn(name, constant)
        return frame

    @contextmanager
    def _setting(self, name: str, value: str) -> Iterator[None]:
        before = self.spark.conf.get(name)
        self.spark.conf.set(name, value)
        try:
            yield
        finally:
            self.spark.conf.set(name, before or value)
