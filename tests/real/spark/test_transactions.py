"""Transactions: tables land together, a race has one winner, and a failure leaves nothing."""

from datetime import timedelta

import pytest

import graveler.spark as gs
from graveler.errors import (
    AlreadyExistsError,
    FencedError,
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


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt])
def test_a_transaction_that_fails_leaves_nothing(repo, lake, days, error):
    def fail():
        with lake.transaction("main", message="load") as tx:
            tx.write(days((1, "a")), "t/")
            raise error("no")

    before = repo.commit("main")
    with pytest.raises(error, match="no"):
        fail()
    assert repo.commit("main") == before
    assert left_over(repo) == []
    assert not list(repo.runs.list(live=True))


def test_a_transaction_whose_driver_died_is_swept(repo, lake, days):
    dead = lake.transaction("main", message="load")
    dead.__enter__().write(days((1, "a")), "t/")
    assert left_over(repo)
    later = repo.stores.clock.now() + timedelta(hours=1)
    assert len(repo.runs.reap(now=later, dry_run=False)) == 1
    assert left_over(repo) == []
    with pytest.raises(FencedError):  # the owner was alive, only silent
        dead.__exit__(None, None, None)
    assert not repo.ref("main").has_below("t/")


def test_a_transaction_without_changes_lands_an_equal_tree(repo, lake, days):
    before = load(lake, days((1, "a")), mode="overwrite").commit
    after = load(lake, days((1, "a")), mode="overwrite").commit
    assert after == repo.commit("main") != before
    assert after.metarange == before.metarange


def test_transactions_that_append_at_the_same_time_both_land(repo, lake, days):
    with lake.transaction("main", message="outer") as outer:
        outer.write(days((1, "a")), "t/", partition_by=["dt"])
        load(lake, days((2, "a")))
    assert rows(lake.read("main", "t/")) == [(1, "a"), (2, "a")]
    assert published(repo)[:2] == ["outer", "load"]


@pytest.mark.parametrize(
    ("mode", "other"),
    [
        ("overwrite", {"mode": "overwrite"}),
        ("overwrite", {"mode": "append"}),
        ("error", {"mode": "error"}),
        ("ignore", {"mode": "append"}),
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


def test_a_replaced_partition_is_compared_in_all_its_spellings(repo, lake, days):
    def other(name):
        with repo.run(f"another program: {name}") as run:
            run.put(f"t/dt=01/{name}.parquet", b"1")

    other("a")
    numbers = days((1, "1")).selectExpr("id", "cast(dt as int) dt")

    def race():
        with lake.transaction("main", message="outer") as outer:
            outer.write(numbers, "t/", partition_by=["dt"], mode="overwrite")
            other("b")

    with pytest.raises(MergeConflictError, match=r"'t/dt=01/b\.parquet'"):
        race()


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


def test_partitions_are_overwritten_side_by_side(repo, lake, days):
    load(lake, days((0, "a"), (0, "b")))
    with lake.transaction("main", message="outer") as outer:
        outer.write(days((1, "a")), "t/", partition_by=["dt"], mode="overwrite")
        load(lake, days((2, "b")), mode="overwrite")
    assert rows(lake.read("main", "t/")) == [(1, "a"), (2, "b")]


def test_a_static_overwrite_replaces_the_partitions_of_others(lake, days):
    load(lake, days((0, "a"), (0, "b")))
    load(lake, days((1, "a")), mode="overwrite")
    assert rows(lake.read("main", "t/")) == [(0, "b"), (1, "a")]
    load(lake, days((2, "a")), mode="overwrite", partition_overwrite="static")
    assert rows(lake.read("main", "t/")) == [(2, "a")]


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


def test_of_two_transactions_of_one_name_one_lands(repo, lake, days):
    with lake.transaction("main", message="outer", txn=("clicks", 1)) as outer:
        outer.write(days((1, "a")), "t/")
        with lake.transaction("main", message="inner", txn=("clicks", 1)) as inner:
            inner.write(days((1, "a")), "t/")
        assert not outer.skipped
    assert outer.skipped
    assert not inner.skipped
    assert outer.commit == repo.commit("main")
    assert rows(lake.read("main", "t/")) == [(1, "a")]
    assert left_over(repo) == []
