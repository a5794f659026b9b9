"""Bulk imports while executors die and stop: the tree of one process."""

import pytest

import graveler
from graveler import spark as gs
from graveler.committed import Splitting
from graveler.committed.metarange import read
from tests.harness.gc_lakes import keys
from tests.harness.servers.spark import wait_until

ROWS = 5_000
SMALL = Splitting("hash", max_bytes=4_000, raggedness=4, hard=16)


@pytest.fixture(scope="module")
def inventory(tmp_path_factory):
    file = tmp_path_factory.mktemp("source") / "inventory.csv"
    lines = [
        f"day={number % 30:02}/part-{number * 7919 % 100_003:06}.parquet,s3://bucket/{number},{number},e"
        for number in range(ROWS)
    ]
    file.write_text("\n".join(["path,address,size,etag", *lines]))
    return file


def bulk(folder):
    repo = graveler.init(folder).create_repository("bulk", splitting=SMALL)
    repo.links.allow("s3://bucket")
    return repo


@pytest.fixture(scope="module")
def alone(inventory, tmp_path_factory):
    """The tree of one process: its id, and its ranges."""
    repo = bulk(tmp_path_factory.mktemp("alone"))
    branch = repo.branch("main")
    branch.import_(inventory, "in/")
    tree = branch.commit("alone").metarange
    return tree, list(read(repo.stores.ranges, tree))


@pytest.fixture
def repo(tmp_path):
    return bulk(tmp_path / "lake")


def when_tables(repo, count):
    """Wait until tasks have written that many tables; return how many there are."""
    return wait_until(
        lambda: len(there) if len(there := keys(repo, "_graveler/")) >= count else 0,
        f"{count} tables",
    )


def frame(spark, inventory):
    return spark.read.csv(str(inventory), header=True).repartition(4)


def check(repo, alone):
    tree, ranges = alone
    head = repo.branch("main").head
    assert head.metarange == tree
    assert list(read(repo.stores.ranges, head.metarange)) == ranges


def test_an_import_outlives_executors_that_are_killed(
    spark, executors, repo, inventory, alone, meanwhile
):
    def kill_both():
        when_tables(repo, 10)
        executors[0].jvm.kill()
        before = when_tables(repo, 70)
        executors[1].jvm.kill()
        return before

    killing = meanwhile(kill_both)
    done = gs.import_frame(
        repo.branch("main"), frame(spark, inventory), "in/", message="bulk", slice_rows=250
    )
    assert killing.result() < len(alone[1])
    assert done.files == ROWS
    check(repo, alone)
