"""Transactions: tables land together, a race has one winner, and a failure leaves nothing."""

import pytest

import graveler.spark as gs
from graveler.errors import (
    AlreadyExistsError,
    InvalidInputError,
    MergeConflictError,
    StateError,
)

DAYS = "id int, dt string"


@pytest.fixture
def lake(repo, spark):
    repo.protection.add("main")
    return gs.Tables(repo, spark)


@pytest.fixture
def days(spark):
    def frame(*values):
        return spark.createDataFrame(values, DAYS).coalesce(1)

    return frame


def rows(frame):
    return sorted(tuple(row) for row in frame.collect())


def published(repo):
    return [commit.message for commit in repo.log("main", first_parent=True)]


def left_over(repo):
    return [branch.name for branch in repo.branches(hidden=True) if branch.name != "main"]


def load(lake, frame, **options):
    with lake.transaction("main", message="load") as tx:
        tx.write(frame, "t/", partition_by=["dt"], **options)
    return tx


def test_two_tables_land_in_one_commit(repo, lake, days):
    load(lake, days((1, "a")))
    before = repo.commit("main")
    with lake.transaction("main", message="daily load", metadata={"job": "x"}) as tx:
        tx.write(days((2, "b")), "t/", partition_by=["dt"])
        tx.write(days((3, "c")), "totals/", mode="overwrite")
        assert rows(tx.read("t/")) == [(1, "a"), (2, "b")]
        assert rows(tx.read("totals/", columns=["id"])) == [(3,)]
        assert repo.commit("main") == tx.base == before
        assert tx.commit is None
    assert rows(lake.read("main", "t/")) == [(1, "a"), (2, "b")]
    assert rows(lake.read("main~1", "t/")) == [(1, "a")]
    assert published(repo)[:2] == ["daily load", "load"]
    landed = repo.commit("main")
    assert landed == tx.commit
    assert landed.metadata["job"] == "x"
    assert not tx.skipped
    assert left_over(repo) == []
    for late in (lambda: tx.write(days((4, "d")), "t/"), lambda: tx.read("t/")):
        with pytest.raises(StateError, match="the transaction on 'main' is over"):
            late()


def test_a_transaction_that_fails_leaves_nothing(repo, lake, days):
    def fail():
        with lake.transaction("main", message="load") as tx:
            tx.write(days((1, "a")), "t/")
            raise KeyboardInterrupt("no")

    before = repo.commit("main")
    with pytest.raises(KeyboardInterrupt, match="no"):
        fail()
    assert repo.commit("main") == before
    assert left_over(repo) == []
    assert not list(repo.runs.list(live=True))


@pytest.mark.parametrize(
    ("mode", "other"),
    [
        ("overwrite", {"mode": "overwrite"}),
        ("error", {"mode": "error"}),
    ],
)
def test_of_two_that_replace_at_the_same_time_one_wins(repo, lake, days, mode, other):
    if mode == "overwrite":
        load(lake, days((0, "a")))

    def race():
        with lake.transaction("main", message="outer") as outer:
            outer.write(days((1, "a")), "t/", partition_by=["dt"], mode=mode)
            load(lake, days((2, "a")), **other)

    with pytest.raises(MergeConflictError, match="'t/dt=a/part-") as lost:
        race()
    assert lost.value.count == len(lost.value.conflicts) > 0
    assert published(repo)[0] == "load"
    assert (1, "a") not in rows(lake.read("main", "t/"))
    assert left_over(repo) == []


def test_an_overwrite_without_rows_is_compared_too(repo, lake, days):
    load(lake, days((0, "a")))

    def race():
        with lake.transaction("main", message="outer") as outer:
            none = days((1, "a")).where("id > 1")
            static = {"mode": "overwrite", "partition_overwrite": "static"}
            assert outer.write(none, "t/", partition_by=["dt"], **static) == []
            load(lake, days((2, "b")))

    with pytest.raises(MergeConflictError, match="'t/dt=b/part-"):
        race()
    assert published(repo)[0] == "load"


def test_partitions_are_overwritten_side_by_side(lake, days):
    load(lake, days((0, "a"), (0, "b")))
    with lake.transaction("main", message="outer") as outer:
        outer.write(days((1, "a")), "t/", partition_by=["dt"], mode="overwrite")
        load(lake, days((2, "b")), mode="overwrite")
        load(lake, days((3, "b")))  # an append beside both
    assert rows(lake.read("main", "t/")) == [(1, "a"), (2, "b"), (3, "b")]
    load(lake, days((4, "a")), mode="overwrite", partition_overwrite="static")
    assert rows(lake.read("main", "t/")) == [(4, "a")]


def test_the_careful_modes_look_at_the_staged_table(lake, days):
    with lake.transaction("main", message="load") as tx:
        assert tx.write(days((1, "a")), "t/", mode="ignore")
        assert tx.write(days((2, "a")), "t/", mode="ignore") == []
        for mode in ("error", "errorifexists"):
            with pytest.raises(AlreadyExistsError, match="'t/part-"):
                tx.write(days((3, "a")), "t/", mode=mode)
        with pytest.raises(InvalidInputError, match="mode='merge'"):
            tx.write(days((4, "a")), "t/", mode="merge")
        with pytest.raises(InvalidInputError, match="partition_overwrite='all'"):
            tx.write(days((4, "a")), "t/", partition_overwrite="all")
    assert rows(lake.read("main", "t/")) == [(1, "a")]


def test_a_transaction_of_the_same_name_is_skipped(repo, lake, days):
    def batch(number, version):
        with lake.transaction("main", message="batch", txn=("clicks", version)) as tx:
            tx.write(days((number, "a")), "t/")
            assert tx.read("t/").count() == number
        return tx

    first, second = batch(1, 7), batch(2, 8)
    assert first.commit.metadata["txn.app"] == "clicks"
    assert first.commit.metadata["txn.version"] == "7"
    with lake.transaction("main", message="again", txn=("clicks", 7)) as again:
        assert again.skipped
        assert again.write(days((9, "a")), "t/") == []
        assert again.read("t/").count() == 2
    assert repo.commit("main") == second.commit
    assert again.commit.metadata["txn.version"] == "7"
    with lake.transaction("main", message="nothing", txn=("clicks", 9)) as empty:
        pass
    assert repo.commit("main") == empty.commit != second.commit
