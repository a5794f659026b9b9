"""Frames from many files, listed in a few tasks, or from an Arrow table; names of files in Spark."""

import re
import threading
from collections.abc import Collection, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING

from graveler.errors import InvalidInputError

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, DataFrameReader, SparkSession
    from pyspark.sql.types import StructType

_SCHEMES = {"file": "file", "s3": "s3a", "s3a": "s3a", "gs": "gs", "hdfs": "hdfs", "keep": "keep"}
KEEP = "keep://"
"""Begins the addresses of files that only tasks in Python reach."""

_PATTERN = re.compile(r"[{}\[\]*?\\]")


def spark_uri(uri: str) -> str:
    """Return `uri` as Spark's file systems name it."""
    scheme, _, rest = uri.partition("://")
    if scheme not in _SCHEMES:
        raise InvalidInputError(
            f"Spark cannot reach {uri!r}: it reads and writes {', '.join(sorted(_SCHEMES))}; "
            "keep what Spark works on in such a storage"
        )
    return f"{_SCHEMES[scheme]}://{rest}"


def is_remote(spark: "SparkSession") -> bool:
    """Return whether the session is a client of Spark Connect."""
    return type(spark).__module__.startswith("pyspark.sql.connect.")


def is_pattern(uri: str) -> bool:
    """Return whether Spark would read the address as a pattern."""
    return _PATTERN.search(uri) is not None


def read_apart(uris: Sequence[str]) -> list[tuple[str, ...]]:
    """Return files in groups, so that Spark reads each file once; a path like a pattern is alone.

    Spark reads all paths again for each path that looks like a pattern, although it expands none. A
    partition's value may have a ``}``, which Spark does not escape in a path. Files on Keep are a group.
    """
    alone: list[tuple[str, ...]] = [(uri,) for uri in uris if is_pattern(uri)]
    plain = [uri for uri in uris if not is_pattern(uri)]
    kept = tuple(uri for uri in plain if uri.startswith(KEEP))
    others = tuple(uri for uri in plain if not uri.startswith(KEEP))
    return [*filter(None, (others, kept)), *alone]


_LISTING = "spark.sql.sources.parallelPartitionDiscovery.parallelism"
_LISTED_BY_TASKS = "spark.sql.sources.parallelPartitionDiscovery.threshold"
_BATCH = "spark.sql.execution.arrow.maxRecordsPerBatch"
_BATCH_ROWS = "10000"
_EVERY_PATH = str((1 << 31) - 1)
# a client of Spark Connect does not know the number of cores of the cluster
_REMOTE_LISTING = 32
_NO_PATH_HAS = "\0"
# the settings belong to the session: without the lock, concurrent reads restore each other's values
_planning = threading.Lock()


@contextmanager
def planning(spark: "SparkSession", uris: Collection[str]) -> "Iterator[SparkSession]":
    """Return a session in which Spark lists files in few tasks, during a ``with`` block.

    It is the session itself if that would start no tasks, else a copy, so that its settings never change.
    Frames of a copy of a session of Spark Connect would not go together with its own: two settings of
    that session, which only lists of files use, change during the block.
    """
    if len(uris) <= int(spark.conf.get(_LISTED_BY_TASKS) or 0):
        yield spark
        return
    cores = 0 if is_remote(spark) else spark.sparkContext.defaultParallelism
    # Spark's default suits a cluster: ten thousand tasks for ten thousand files
    settings = {_LISTING: str(2 * cores or _REMOTE_LISTING)}
    if all(uri.startswith("file:") for uri in uris):
        settings[_LISTED_BY_TASKS] = _EVERY_PATH
    if is_remote(spark):
        with ExitStack() as changed:
            changed.enter_context(_planning)
            for name, value in settings.items():
                changed.enter_context(setting(spark, name, value))
            yield spark
        return
    copy = type(spark)(spark.sparkContext, spark._jsparkSession.cloneSession())
    for name, value in settings.items():
        copy.conf.set(name, value)
    yield copy


def in_session(spark: "SparkSession", frame: "DataFrame") -> "DataFrame":
    """Return a frame of a session as a frame of the session that it is a copy of."""
    if frame.sparkSession is spark:
        return frame
    plan = frame._jdf.queryExecution().analyzed()
    frames = spark._jvm.org.apache.spark.sql.classic.Dataset  # type: ignore[union-attr]
    return type(frame)(frames.ofRows(spark._jsparkSession, plan), spark)


def load(spark: "SparkSession", reader: "DataFrameReader", uris: Sequence[str]) -> "DataFrame":
    """Return the frame that a reader with the option ``__globPaths__`` (false) loads from files.

    py4j needs two calls for each item of a list, a fourth of the time for ten thousand paths. A classic
    session therefore gets the paths as one text. A server of Spark Connect changes the names of options
    to lower case and does not recognize this one: for it, the characters of patterns are escaped.
    """
    if is_remote(spark):
        return reader.load([_PATTERN.sub(r"\\\g<0>", uri) for uri in uris])
    split = spark._jvm.java.util.regex.Pattern.compile(_NO_PATH_HAS).split  # type: ignore[union-attr]
    return reader._df(reader._jreader.load(split(_NO_PATH_HAS.join(uris))))


def frame_of_table(
    spark: "SparkSession", table: "pa.Table", schema: "StructType | None" = None
) -> "DataFrame":
    """Return a frame of an Arrow table.

    A limit of 0 rows in a batch means no limit, but PySpark would cut the table by 0.
    """
    with ExitStack() as settings:
        settings.enter_context(_planning)
        if _most(spark) <= 0:
            settings.enter_context(setting(spark, _BATCH, _BATCH_ROWS))
        return spark.createDataFrame(table, schema) if schema else spark.createDataFrame(table)


def check_limit(spark: "SparkSession") -> None:
    """Refuse Python data sources if a batch has no limit, because Spark's own reader of them fails."""
    with _planning:
        most = _most(spark)
    if most <= 0:
        raise InvalidInputError(
            f"{_BATCH}={most}: without a limit Spark cannot read the data source graveler: set it to "
            f"{_BATCH_ROWS}, as by spark.conf.set({_BATCH!r}, {_BATCH_ROWS})"
        )


def _most(spark: "SparkSession") -> int:
    return int(spark.conf.get(_BATCH) or _BATCH_ROWS)


@contextmanager
def setting(spark: "SparkSession", name: str, value: str) -> Iterator[None]:
    """Change a setting of a session for a ``with`` block."""
    before = spark.conf.get(name, None)
    spark.conf.set(name, value)
    try:
        yield
    finally:
        if before is None:
            spark.conf.unset(name)
        else:
            spark.conf.set(name, before)
