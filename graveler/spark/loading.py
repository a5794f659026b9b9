"""What goes into one frame: many files, listed in a few tasks, or a table of Arrow."""

import threading
from collections.abc import Collection, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Final

from graveler.errors import InvalidInputError
from graveler.spark.ports import is_remote, plain_paths

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, DataFrameReader, SparkSession

_LISTING: Final = "spark.sql.sources.parallelPartitionDiscovery.parallelism"
_LISTED_BY_TASKS: Final = "spark.sql.sources.parallelPartitionDiscovery.threshold"
_BATCH: Final = "spark.sql.execution.arrow.maxRecordsPerBatch"
_BATCH_ROWS: Final = "10000"
_EVERY_PATH: Final = str((1 << 31) - 1)
# a client of Spark Connect does not learn how many cores the cluster has
_REMOTE_LISTING: Final = 32
_NO_PATH_HAS: Final = "\0"
# these settings belong to the session: concurrent reads would restore each other's values
_planning = threading.Lock()


@contextmanager
def planning(spark: "SparkSession", uris: Collection[str]) -> Iterator[None]:
    """Have files listed in few tasks, within a ``with`` block; then the session is as it was.

    Args:
        spark: The session.
        uris: The files. If all are on the driver's own disk, it lists them sooner than tasks do.
    """
    cores = 0 if is_remote(spark) else spark.sparkContext.defaultParallelism
    # Spark's default suits a cluster: ten thousand tasks for ten thousand files
    tasks = str(2 * cores or _REMOTE_LISTING)
    with ExitStack() as settings:
        settings.enter_context(_planning)
        settings.enter_context(setting(spark, _LISTING, tasks))
        if all(uri.startswith("file:") for uri in uris):
            settings.enter_context(setting(spark, _LISTED_BY_TASKS, _EVERY_PATH))
        yield


def load(spark: "SparkSession", reader: "DataFrameReader", uris: Sequence[str]) -> "DataFrame":
    """Return what a reader with the option ``__globPaths__``, which is false, loads from files.

    py4j converts a list in two calls for each of its items, so a classic session gets the paths as
    one text: of ten thousand paths the calls are a fourth of the time.
    """
    paths = plain_paths(spark, uris)
    if is_remote(spark):
        return reader.load(paths)
    split = spark._jvm.java.util.regex.Pattern.compile(_NO_PATH_HAS).split  # type: ignore[union-attr]
    return reader._df(reader._jreader.load(split(_NO_PATH_HAS.join(paths))))


def frame_of_table(spark: "SparkSession", table: "pa.Table") -> "DataFrame":
    """Return a frame of a table of Arrow.

    A limit of 0 rows in a batch stands for none, but PySpark cuts the table by it as it is.
    """
    with _planning:
        if _most(spark) > 0:
            return spark.createDataFrame(table)
        with setting(spark, _BATCH, _BATCH_ROWS):
            return spark.createDataFrame(table)


def check_limit(spark: "SparkSession") -> None:
    """Refuse frames of data sources in Python where a batch has no limit: Spark's own reader of them fails.

    Raises:
        InvalidInputError: There is no limit.
    """
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
