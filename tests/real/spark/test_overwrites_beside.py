"""Of two overwrites of one folder beside each other, one lands: by runs, by steps, and by branches."""

from typing import Any

import pytest

import graveler.spark as gs
from graveler.errors import MergeConflictError

STATIC: dict[str, Any] = {
    "mode": "overwrite",
    "partition_overwrite": "static",
    "partition_by": ["k"],
}
DYNAMIC: dict[str, Any] = {"mode": "overwrite", "partition_by": ["k"]}
PAIRS = {
    "static": (STATIC, "select 1 v, 'a' k", "select 2 v, 'b' k"),
    "dynamic, one partition": (
        DYNAMIC,
        "select 1 v, 'a' k",
        "select id v, 'a' k from range(2, 3, 1, 4)",
    ),
    "ignore": ({"mode": "ignore", "partition_by": ["k"]}, "select 1 v, 'a' k", "select 2 v, 'b' k"),
    "an overwrite after an append": (
        ({"partition_by": ["k"]}, STATIC),
        "select 1 v, 'a' k",
        "select 2 v, 'b' k",
    ),
}


CASES = [*(("publish", pair) for pair in PAIRS), ("join", "static"), ("merge", "static")]


@pytest.fixture(params=["publish"])
def views(request, repo):
    """Return two places to write to, and what lands one of them."""
    if request.param == "merge":
        return [repo.create_branch(name) for name in ("one", "two")], lambda view: repo.merge(
            view, into="main"
        )
    runs = [repo.runs.open(key) for key in ("one", "two")]
    if request.param == "publish":
        return runs, lambda run: run.publish()
    return [runs[0].step(name) for name in "ab"], lambda step: step.join()


def land_both(views, writes):
    places, land = views
    for place, write in zip(places, writes, strict=True):
        write(place)
        place.commit("rows")
    for place in places:
        land(place)


def writer(spark, sql, options):
    return lambda place: gs.write(place, spark.sql(sql), "t/", **options)


@pytest.mark.parametrize(("views", "pair"), CASES, indirect=["views"])
def test_one_of_two_overwrites_lands(spark, views, pair):
    options, *queries = PAIRS[pair]
    both = options if isinstance(options, tuple) else (options, options)
    writes = [writer(spark, *each) for each in zip(queries, both, strict=True)]
    with pytest.raises(MergeConflictError, match="'t/"):
        land_both(views, writes)


@pytest.mark.parametrize(
    ("options", "queries"),
    [
        ((DYNAMIC, DYNAMIC), ("select 1 v, 'a' k", "select 2 v, 'b' k")),
        ((STATIC, {"partition_by": ["k"]}), ("select 1 v, 'a' k", "select 2 v, 'a' k")),
    ],
    ids=["other partitions", "an append after an overwrite"],
)
def test_writes_that_replace_nothing_of_each_other_both_land(spark, views, options, queries):
    land_both(views, [writer(spark, *each) for each in zip(queries, options, strict=True)])


def test_an_overwrite_of_what_others_have_changed_is_refused(repo, spark):
    main = repo.branch("main")
    gs.write(main, spark.sql("select 0 v, 'a' k"), "t/", partition_by=["k"])
    main.commit("base")
    one, two = (repo.runs.open(key) for key in ("one", "two"))
    gs.write(one, spark.sql("select 1 v, 'b' k"), "t/", **STATIC)
    gs.write(two, spark.sql("select 2 v, 'c' k"), "t/", partition_by=["k"])
    one.commit("one"), two.commit("two")
    two.publish()
    with pytest.raises(MergeConflictError, match="'t/k=c/"):
        one.publish()
    again = repo.runs.open("one", fresh=True)
    gs.write(again, spark.sql("select 1 v, 'b' k"), "t/", **STATIC)
    again.commit("one")
    again.publish()
    assert gs.read(repo.ref("main"), "t/", spark=spark).collect() == [(1, "b")]


@pytest.mark.parametrize(
    ("value", "spelling"), [("1", "01"), ("cast('NaN' as double)", "nan"), ("'1'", "01")]
)
def test_an_overwrite_meets_another_spelling(repo, spark, value, spelling):
    """Another program adds a file to the same partition, in a folder of another name."""
    run = repo.runs.open("one")
    gs.write(run, spark.sql(f"select 1 v, {value} k"), "t/", **DYNAMIC)
    run.commit("rows")
    main = repo.branch("main")
    main.put(f"t/k={spelling}/other.csv", b"2")
    main.put("t/k=7/other.csv", b"2")
    main.commit("other")
    if value == "'1'":  # texts of other spellings are other partitions
        run.publish()
        return
    with pytest.raises(MergeConflictError, match=f"changed files .'t/k={spelling}/other.csv'.;"):
        run.publish()
