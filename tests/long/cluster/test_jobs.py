"""Commits and collections by tasks, with dying executors, equal one process's."""

from datetime import timedelta

import pytest

import graveler
from graveler import spark as gs
from graveler.base.clock import SystemClock
from graveler.testing.world import link_unseen
from tests.harness.gc_lakes import keys, needed

FILES = 5_000
SHARE = 2_000
NOW = timedelta(0)


def stage(branch, numbers, size=1):
    entries = (
        graveler.Entry(f"d{number % 7}/{number:05}", f"data/{number}", size) for number in numbers
    )
    link_unseen(branch, entries)
    return branch


@pytest.fixture
def strike(executors, meanwhile):
    """Kill both executors, one after the other, while a job writes."""

    def begin(count, more):
        before = count()

        def kill_both():
            for executor, least in zip(executors, more, strict=True):
                while count() < before + least:
                    SystemClock().sleep(0.02)
                executor.jvm.kill()
            return count() - before

        killing = meanwhile(kill_both)

        def check():
            assert more[-1] <= killing.result() < count() - before, "the job was over before"

        return check

    return begin


@pytest.fixture
def lake(bulk, spark):
    return gs.Tables(bulk, spark)


def tables(repo):
    return lambda: len(keys(repo, "_graveler/"))


def test_a_commit_outlives_its_executors(bulk, lake, strike):
    main, other = bulk.branch("main"), bulk.create_branch("other")
    for branch in (main, other):
        stage(branch, range(FILES))
    struck = strike(tables(bulk), (10, 60))
    done = gs.commit(main, "by tasks", method="spark", share_bytes=SHARE, spark=lake.spark)
    struck()
    assert bulk.branch("main").head == done
    assert done.metarange == other.commit("alone").metarange
    assert list(main.uncommitted()) == []


def test_a_collection_outlives_its_executors(bulk, lake, strike, executors):
    main, objects = bulk.branch("main"), bulk.stores.objects
    stage(main, range(FILES))
    for number in range(0, FILES, 3):
        objects.put(f"data/{number}", b"x")
    objects.put("data/lost", b"x")
    main.commit("all")
    alone = bulk.gc.mark(grace=NOW, window=NOW, dry_run=True)
    for info in list(objects.list("_graveler/gc/")):
        objects.delete(info.key)  # the lists made by one process

    def lists():
        return sum(1 for _ in objects.list("_graveler/gc/"))

    struck = strike(lists, (10, 60))
    collector = gs.collector(bulk, lake.spark, method="spark")
    mark = collector.mark(grace=NOW, window=NOW, dry_run=True)
    struck()
    assert (mark.condemned, mark.kept) == (alone.condemned, alone.kept)
    assert collector.run(grace=NOW, window=NOW)[0].freed == alone.condemned
    assert keys(bulk) <= needed(bulk)
    assert "data/lost" not in keys(bulk)
