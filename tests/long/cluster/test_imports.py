"""Bulk imports with dying and suspended executors give the tree of one process."""

import psutil

from graveler import spark as gs
from graveler.committed.metarange import read
from tests.long.cluster.waiting import tables_of


def check(repo, alone):
    tree, ranges = alone
    head = repo.branch("main").head
    assert head.metarange == tree
    assert list(read(repo.stores.ranges, head.metarange)) == ranges


def test_an_import_outlives_executors_that_are_killed(
    spark, executors, bulk, inventory, alone, meanwhile
):
    def kill_both():
        tables_of(bulk, 10)
        executors[0].jvm.kill()
        before = tables_of(bulk, 70)
        executors[1].jvm.kill()
        return before

    killing = meanwhile(kill_both)
    rows = spark.read.csv(str(inventory), header=True).repartition(4)
    done = gs.import_frame(bulk.branch("main"), rows, "in/", message="bulk", slice_rows=250)
    assert killing.result() < len(alone[1])
    assert done.files == 5_000
    check(bulk, alone)


def test_slow_tasks_of_an_import_are_doubled_and_change_nothing(
    spark, executors, bulk, inventory, alone, meanwhile
):
    def stop():
        tables_of(bulk, 10)
        stopped = executors[0].pythons
        for python in stopped:
            python.suspend()
        return stopped

    stopping = meanwhile(stop)
    gs.import_(
        bulk.branch("main"),
        inventory,
        "in/",
        message="bulk",
        method="spark",
        spark=spark,
        slice_rows=250,
    )
    stopped = stopping.result()
    assert stopped
    # none of these tasks has continued: Spark killed them, or they are still suspended
    assert {p.status() for p in stopped if p.is_running()} <= {
        psutil.STATUS_STOPPED,
        psutil.STATUS_ZOMBIE,
    }
    for python in stopped:
        python.kill()
    check(bulk, alone)
