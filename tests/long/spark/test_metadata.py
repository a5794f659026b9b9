"""Metadata as data frames: each frame has the answers of the library."""

import shutil

import pytest
from pyspark.errors import AnalysisException, PythonException

import graveler
import graveler.spark as gs
from graveler.committed.splitting import Splitting
from graveler.errors import InvalidInputError
from graveler.frames.spark.loading import is_remote

SMALL = Splitting("hash", max_bytes=4_000, raggedness=4, hard=4)


@pytest.fixture(scope="module")
def repo(tmp_path_factory):
    """A tree of some ranges, with a tag and a branch. Tests change only other branches."""
    with graveler.init(tmp_path_factory.mktemp("metadata")) as lake:
        repo = lake.create_repository("tables", splitting=SMALL)
        main = repo.branch("main")
        for number in range(60):
            pairs = {"n": str(number)} if number % 7 == 0 else None
            main.put(f"t{number % 3}/{number:02}", b"1", metadata=pairs)
        repo.tags.create("v1", main.commit("first"))
        dev = repo.create_branch("dev")
        dev.put("t1/01", b"dev")
        dev.put("t9/new", b"1")
        dev.delete("t0/00")
        dev.commit("on dev")
        main.put("t1/01", b"main")
        main.commit("on main")
        yield repo


@pytest.fixture
def lake(repo, spark):
    return gs.Tables(repo, spark)


def load(spark, repo, **options):
    reader = spark.read.format("graveler").option("lake", repo.stores.location)
    return reader.option("repository", repo.name).options(**options).load()


def test_frames_are_those_of_the_library(repo, spark, lake):
    for ref, prefix in (("main", ""), ("dev", "t1/")):
        found = lake.entries(ref, prefix=prefix).collect()
        wanted = {entry.path: dict(entry.metadata) for entry in repo.ref(ref).entries(prefix)}
        assert {entry.path: dict(entry.metadata) for entry in found} == wanted
    whole = lake.entries("main")
    by_range = {row.range_id: row["count"] for row in whole.groupBy("range_id").count().collect()}
    assert by_range == {row.id: row.entries for row in lake.ranges("main").collect()}
    assert whole.filter("path = 't1/01'").count() == 1
    assert whole.count() == len(list(repo.ref("main").entries()))  # the plan keeps no filter
    changes = [(change.path, change.kind) for change in repo.diff("main", "dev")]
    by_tasks = lake.diff("main", "dev", method="spark")
    for method in ("auto", "process"):
        made = lake.diff("main", "dev", method=method)
        assert [(row.path, row.kind) for row in made.collect()] == changes
        assert (made.schema, made.collect()) == (by_tasks.schema, by_tasks.collect())
    log = [(commit.id, list(commit.parents)) for commit in repo.log("dev")]
    assert [(row.id, row.parents) for row in lake.commits("dev").collect()] == log
    (row,) = load(spark, repo, kind="conflicts", ref="dev", base="main").collect()
    assert (row.path, row.base.size, row.source.size, row.dest.size) == ("t1/01", 1, 3, 4)
    (first, *_) = load(spark, repo, kind="commits", versionAsOf="v1").collect()
    assert first.id == repo.commit("v1").id


def test_a_wrong_option_and_a_write_are_errors_that_help(spark, lake, repo):
    options = {"kind": "refs", "prefix": "t1/"}
    with pytest.raises(AnalysisException, match="option 'prefix': kind 'refs' does not know it"):
        load(spark, repo, **options).count()
    writer = lake.entries("v1").write.format("graveler").mode("append")
    with pytest.raises(AnalysisException, match="writes nothing: write tables with"):
        writer.options(lake=repo.stores.location, repository="tables", kind="entries").save()


def test_a_diff_of_few_entries_starts_no_job(lake, monkeypatch, capsys):
    def is_local(**options):
        lake.diff("main", "dev", **options).explain()
        return "LocalTableScan" in capsys.readouterr().out

    assert is_local()
    assert not is_local(method="spark")
    monkeypatch.setattr("graveler.spark.metadata.trees._TASK_ENTRIES", 2)
    assert not is_local()
    assert is_local(method="process")
    with pytest.raises(InvalidInputError, match="method"):
        lake.diff("main", "dev", method="driver")


def test_a_view_shows_the_commit_of_its_first_plan(spark, repo):
    moving = repo.create_branch("moving")
    options = f"lake '{repo.stores.location}', repository 'tables', kind 'entries', ref 'moving'"
    spark.sql(f"create or replace temp view frozen using graveler options ({options})")
    frame = load(spark, repo, kind="entries", ref="moving")
    before = spark.sql("select count(*) from frozen").first()[0]
    moving.put("more", b"1")
    moving.commit("more")
    assert spark.sql("select count(*) from frozen").first()[0] == before
    assert frame.count() == before + is_remote(spark)  # a server plans again for every action
    assert load(spark, repo, kind="entries", ref="moving").count() == before + 1


def test_a_damaged_range_is_named(spark, tmp_path):
    with graveler.init(tmp_path / "lake") as made:
        repo = made.create_repository("tables")
        repo.branch("main").put("a", b"1")
        repo.branch("main").commit("a file")
        lake = gs.Tables(repo, spark)
        (row,) = lake.ranges("main").collect()
        frame = lake.entries("main")
        shutil.rmtree(tmp_path / "lake" / "cache")
        repo.stores.objects.put(repo.stores.ranges.key(bytes.fromhex(row.id)), b"damaged")
        with pytest.raises(PythonException, match=f"CorruptionError.*{row.id}"):
            frame.collect()
