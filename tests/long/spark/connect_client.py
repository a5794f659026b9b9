"""A client of Spark Connect, in a process of its own: PySpark has one kind of session in each."""

import json
import sys
from pathlib import Path
from typing import Any

from pyspark.errors.exceptions.connect import SparkConnectGrpcException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.readwriter import DataStreamWriter

import graveler
from graveler import spark as gs
from graveler.committed import Splitting
from graveler.config import set_environment
from graveler.spark.java import find_java


def main(lake_at: str) -> None:
    """Write, read and partition tables of a lake through a server of Spark Connect."""
    set_environment("JAVA_HOME", str(find_java().path))
    set_environment("SPARK_TESTING", "1")  # the server takes a free port, the client finds it
    set_environment("SPARK_LOCAL_IP", "127.0.0.1")
    set_environment("PYSPARK_PYTHON", sys.executable)  # of the server's workers
    spark = SparkSession.builder.remote("local[2]").getOrCreate()
    try:
        with graveler.open(lake_at, create=True) as lake:
            found = work(lake.create_repository("tables"), spark)
            small = Splitting("hash", max_bytes=4_000, raggedness=4, hard=4)
            found["bulk"] = import_files(lake.create_repository("bulk", splitting=small), spark)
            json.dump(found, sys.stdout)
    finally:
        spark.stop()


def work(repo: graveler.Repository, spark: SparkSession) -> dict[str, Any]:
    """Work in a step of a run, then read what was published."""
    with repo.run("hour", into="main") as run, run.step("load") as step:
        step.write(spark.createDataFrame([(1, "a"), (2, "b")], "id int, day string"), "plain")
        step.put("mixed/day=1/a.csv", b"1\n")
        step.put("mixed/day=one/a.csv", b"2\n")
        gs.write(
            step,
            spark.createDataFrame([(3, "01"), (4, "02")], "id int, day string"),
            "days",
            partition_by=["day"],
        )
        inside = rows(step.read("plain/", spark=spark))
        of_pandas = step.read("plain/", "pandas")
    lake = gs.attach(repo, spark)
    for number in (5, 6):
        with lake.transaction("main", message="load", txn=("loads", number)) as tx:
            frame = spark.createDataFrame([(number, "01")], "id int, day string").coalesce(1)
            tx.write(frame, "orders", partition_by=["day"], schema="same")
    with lake.transaction("main", message="load", txn=("loads", 6)) as again:
        again.write(spark.range(1), "orders")
    lake.create_views("main~1", {"first": "orders/"})
    compacted = lake.compact("main", "orders/")
    published = repo.ref("main")
    days = gs.read(published, "days/", spark=spark)
    mixed = gs.read(published, "mixed/", format="csv", spark=spark)
    return {
        "in the step": inside,
        "of pandas": sorted(of_pandas.values.tolist()),
        "published": rows(gs.read(published, "plain/", spark=spark, verify=True)),
        "by the active session": rows(gs.read(published, "plain/")),
        "a transaction": rows(lake.read("main", "orders/", where={"day": ["01"]})),
        "skipped": again.skipped,
        "a view": rows(spark.sql("select * from first")),
        "files": [compacted.files_before, compacted.files_after],
        "the worker has": sorted(gs.preflight(spark, packages=["pyarrow"])),
        "days": [dict(days.dtypes)["day"], *rows(days)],
        "mixed": [dict(mixed.dtypes)["day"], *rows(mixed)],
        "metadata": metadata(lake, spark),
        "streams": streams(lake, spark),
        "collection": collection(lake, spark),
    }


def import_files(repo: graveler.Repository, spark: SparkSession) -> list[Any]:
    """Import files in slices; return how many, and whether one process gives the same tree."""
    repo.links.allow("s3://bucket/data")
    main = repo.branch("main")
    names = [f"{number % 7}/{number}" for number in range(500)]
    lines = [f"{name},s3://bucket/data/{name},1,e" for name in names]
    Path("files.csv").write_text("\n".join(["path,address,size,etag", *lines]))
    alone = repo.create_branch("alone")
    alone.import_("files.csv", "bulk/")
    tree = alone.commit("alone").metarange
    files = spark.createDataFrame([(name,) for name in names], "path string").selectExpr(
        "path", "concat('s3://bucket/data/', path) as address", "1 as size", "'e' as etag"
    )
    done = gs.import_frame(main, files, "bulk/", message="bulk", slice_rows=100)
    return [done.files, main.head.metarange == tree]


def metadata(lake: gs.Tables, spark: SparkSession) -> list[bool]:
    """Return whether frames and table functions show what the library answers."""
    repo = lake.repository
    paths = [(entry.path,) for entry in repo.ref("main").entries()]
    changes = [(change.path,) for change in repo.diff("main~1", "main")]
    gs.register_sql(spark, repo)
    return [
        rows(lake.entries("main").select("path")) == paths,
        rows(lake.diff("main~1", "main").select("path")) == changes,
        rows(spark.sql("select path from graveler_diff('main~1', 'main')")) == changes != [],
    ]


def streams(lake: gs.Tables, spark: SparkSession) -> list[Any]:
    """Return what a query has landed, and how much of it another one has read as changes."""
    inbox, checkpoint = Path("inbox").absolute(), Path("checkpoint").absolute()
    inbox.mkdir()
    before = lake.repository.commit("main")
    write = lake.batch_writer("main", "clicks", txn_app="clicks", checkpoint=str(checkpoint))
    for number in (1, 2):
        (inbox / f"{number}.json").write_text(json.dumps({"id": number}))
        clicks = spark.readStream.schema("id int").json(str(inbox)).coalesce(1)
        landing = clicks.writeStream.foreachBatch(write)
        landing = landing.option("checkpointLocation", str(checkpoint)).trigger(availableNow=True)
        started(landing).awaitTermination()
    changes = lake.changes("main", starting_ref=before).selectExpr("sequence", "kind")
    copying = changes.writeStream.option("checkpointLocation", str(Path("copying").absolute()))
    at = str(Path("seen").absolute())
    copying.format("parquet").trigger(availableNow=True).start(at).awaitTermination()
    return [*rows(lake.read("main", "clicks/")), *rows(spark.read.parquet(at))]


def started(query: DataStreamWriter) -> StreamingQuery:
    """Start a query; Spark gives the process of a function ten seconds to come up, whatever the load."""
    for _ in range(9):
        try:
            return query.start()
        except SparkConnectGrpcException as error:
            if "waiting for the Python worker to connect back" not in str(error):
                raise
    return query.start()


def collection(lake: gs.Tables, spark: SparkSession) -> bool:
    """Return whether a collection by tasks condemns what one of this process does."""
    repo = lake.repository
    repo.gc.keep("main", count=1)
    alone, by_tasks = (
        each.mark(grace="0s", dry_run=True)
        for each in (repo.gc, gs.collector(repo, spark, method="spark"))
    )
    same = (by_tasks.condemned, by_tasks.kept) == (alone.condemned, alone.kept)
    return same and alone.bytes_condemned > 0


def rows(frame: DataFrame) -> list[tuple[Any, ...]]:
    """Return the rows in order."""
    return sorted(tuple(row) for row in frame.collect())


if __name__ == "__main__":
    main(sys.argv[1])
