"""Tables are written while executors die, are suspended, and have no disk space."""

import psutil
import pytest
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException

from graveler import spark as gs
from graveler.fsck.check import fsck
from tests.harness.gc_lakes import collect, keys, needed
from tests.harness.servers.spark import wait_until
from tests.long.cluster.holding import ROWS, held
from tests.long.cluster.waiting import mark_in

FAILURES = (PySparkException, Py4JError)


@pytest.fixture
def marks(tmp_path):
    folder = tmp_path / "marks"
    folder.mkdir()
    yield folder
    (folder / "go").touch()


def executor_of(executors, marks, task):
    """Wait until a task waits, and return its executor."""
    pid = int(mark_in(marks, str(task)))
    (found,) = [e for e in executors if pid in {python.pid for python in e.pythons}]
    return found


def check_nothing_landed(repo, before):
    assert [record.name for record in repo.branches(hidden=True)] == ["main"]
    assert repo.commit("main") == before
    collect(repo)
    assert keys(repo) == needed(repo)


def test_a_table_has_each_row_once_whatever_happens_to_tasks(
    spark, executors, repo, marks, meanwhile
):
    def strike():
        frozen = executor_of(executors, marks, 0)
        lost = executor_of(executors, marks, 1)
        frozen.jvm.suspend()  # the task is slow, so Spark also runs it elsewhere
        lost.jvm.kill()
        return frozen

    striking = meanwhile(strike)
    with gs.Tables(repo, spark).transaction("main", message="load") as tx:
        rows = held(spark, marks, 0, 1).selectExpr("id", "id % 3 as part")
        tx.write(rows, "t", partition_by=["part"])
    frozen = striking.result()
    assert frozen.jvm.status() == psutil.STATUS_STOPPED
    frozen.jvm.resume()
    (marks / "go").touch()  # the losing try continues, or Spark kills it
    task = int(mark_in(marks, "0"))
    over = marks / "0 over"
    wait_until(lambda: over.exists() or not psutil.pid_exists(task), "the end of the losing try")
    frozen.jvm.kill()
    frame = gs.read(repo.ref("main"), "t/", spark=spark)
    assert sorted(row.id for row in frame.collect()) == list(range(6 * ROWS))
    written = list(repo.ref("main").entries("t/"))
    assert sum(int(entry.metadata["graveler.rows"]) for entry in written) == 6 * ROWS
    collect(repo)
    assert list(fsck(repo.stores, objects="checksum").problems) == []
    assert keys(repo) == needed(repo) >= {entry.address for entry in written}


def test_a_cancelled_job_leaves_nothing(spark, executors, repo, marks, meanwhile):
    def cancel():
        executor_of(executors, marks, 0)
        spark.sparkContext.cancelJobGroup("work")

    before = repo.commit("main")
    lake = gs.Tables(repo, spark)
    spark.sparkContext.setJobGroup("work", "a table", interruptOnCancel=True)
    cancelling = meanwhile(cancel)
    with pytest.raises(FAILURES, match="cancelled"):
        with lake.transaction("main", message="load") as tx:
            tx.write(spark.range(10), "first")
            tx.write(held(spark, marks, 0), "t")
    cancelling.result()
    check_nothing_landed(repo, before)


def test_a_full_disk_is_named_and_leaves_nothing(spark, executors, repo):
    before = repo.commit("main")
    rows = spark.range(0, 200_000, numPartitions=4).selectExpr("id", "uuid() as name")
    files = rows.selectExpr(
        "concat(name, '/', name) as path",
        "concat('s3://bucket/', name) as address",
        "1 as size",
        "name as etag",
    )
    repo.links.allow("s3://bucket")
    try:
        for executor in executors:
            executor.limit_files(64 << 10)
        with pytest.raises(FAILURES, match="File too large"):
            with gs.Tables(repo, spark).transaction("main", message="load") as tx:
                tx.write(spark.range(10), "first")
                tx.write(rows, "t")
        with pytest.raises(FAILURES, match="File too large"):
            gs.import_frame(repo.branch("main"), files, message="bulk")
    finally:
        for executor in executors:
            executor.jvm.kill()  # it remembers modules that it cannot load
    check_nothing_landed(repo, before)
