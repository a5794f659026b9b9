"""Tables by ref: which version and which files are read, and views of one commit."""

from datetime import UTC, datetime, timedelta

import pytest

import graveler.spark as gs
from graveler.errors import (
    ExpiredError,
    InvalidInputError,
    ObjectNotFoundError,
    RefNotFoundError,
)

DAYS = "id int, amount double, dt string"
ZONE = "spark.sql.session.timeZone"


@pytest.fixture
def lake(repo, spark):
    return gs.Tables(repo, spark)


def load(repo, spark, number, day):
    """Append a row to the table, and commit it."""
    main = repo.branch("main")
    frame = spark.createDataFrame([(number, number / 2, day)], DAYS).coalesce(1)
    gs.write(main, frame, "t/", partition_by=["dt"])
    return main.commit(f"row {number}")


def ids(frame):
    return sorted(row.id for row in frame.collect())


@pytest.fixture
def loaded(repo, spark):
    """Three commits to a table. The second one has a tag."""
    commits = [load(repo, spark, number, f"2026-01-0{number}") for number in (1, 2, 3)]
    repo.tags.create("v1", commits[1])
    return commits


def test_a_table_is_read_at_every_kind_of_ref(repo, lake, loaded):
    assert ids(lake.read("main", "t/")) == [1, 2, 3]
    assert ids(lake.read("v1", "t/")) == [1, 2]
    assert ids(lake.read("main~2", "t/")) == [1]
    assert ids(lake.read(loaded[0].id, "t/")) == [1]
    assert ids(lake.read(loaded[1], "t")) == [1, 2]
    assert ids(lake.read("main@{1}", "t/")) == [1, 2]
    between = loaded[1].created + (loaded[2].created - loaded[1].created) / 2
    assert ids(lake.read(f"main@{{{between.isoformat()}}}", "t/")) == [1, 2]
    with pytest.raises(RefNotFoundError, match="nowhere"):
        lake.read("nowhere", "t/")
    early = loaded[0].created - timedelta(days=1)
    with pytest.raises(RefNotFoundError):
        lake.read(f"main@{{{early.isoformat()}}}", "t/")


def test_spark_sees_only_the_partitions_and_columns_asked_for(lake, loaded):
    frame = lake.read("main", "t/", where={"dt": ["2026-01-02", "2026-01-03"]}, columns=["amount"])
    assert frame.columns == ["amount"]
    assert len(frame.inputFiles()) == 2
    assert sorted(row.amount for row in frame.collect()) == [1.0, 1.5]
    assert lake.read("main", "t/", columns=["dt", "id"]).columns == ["dt", "id"]
    with pytest.raises(InvalidInputError, match=r"has no 'amont': choose of id, amount, dt"):
        lake.read("main", "t/", columns=["id", "amont"])
    assert set(ids(lake.read("main", "t/", where={"id": 1}))) == {1}
    none = lake.read("main", "t/", where={"dt": "2027-01-01"}, columns=["dt", "id"])
    assert none.dtypes == [("dt", "string"), ("id", "int")]
    assert ids(none) == []
    with pytest.raises(InvalidInputError, match="Hadoop has no patterns for folders like '05:00'"):
        lake.read("main", "t/*/05:00/")


@pytest.mark.parametrize("zone", ["Europe/Berlin", "-05:30"])
def test_an_hour_is_found_in_the_zone_of_any_session(repo, lake, spark, zone):
    before = spark.conf.get(ZONE)
    spark.conf.set(ZONE, zone)
    try:
        frame = spark.sql("select 5 id, timestamp'2026-07-01 05:00:00Z' hour")
        later = spark.sql("select 7 id, timestamp'2026-07-01 07:00:00Z' hour")
        with lake.transaction("main", message="hours") as tx:
            tx.write(frame.union(later), "h/", partition_by=["hour"])
        hours = [datetime(2026, 7, 1, hour, tzinfo=UTC) for hour in (5, 6, 7)]
        # without the hours, whose zone not every client of Spark Connect knows
        frames = [lake.read("main", "h/", where={"hour": at}, columns=["id"]) for at in hours]
        found = [ids(frame) for frame in frames]
        spark.conf.set(ZONE, "PST")  # only Java knows it
        with pytest.raises(InvalidInputError, match="is 'PST': set a region such as Europe/Berlin"):
            lake.read("main", "h/", where={"hour": hours[0]})
    finally:
        spark.conf.set(ZONE, before)
    assert found == [[5], [], [7]]


def test_partitions_that_are_not_there_are_an_empty_frame(repo, lake):
    for day in (1, 2):
        repo.branch("main").put(f"t/dt={day}/a.csv", b"1\n")
    repo.branch("main").commit("two days")
    assert lake.read("main", "t/", format="csv", where={"dt": 3}).collect() == []
    frame = lake.read("main", "t/", format="csv", where={"dt": 3}, schema="id int, dt int")
    assert ids(frame) == []


def test_a_file_that_is_swept_while_it_is_read_is_named(repo, lake, loaded):
    (entry,) = repo.ref("main~2").entries("t/")
    repo.stores.objects.delete(entry.address)
    with pytest.raises(ExpiredError, match=f"'t/': the file .*{entry.address}.* is gone"):
        lake.read("main", "t/").count()


def test_the_partitions_of_very_many_writes_are_one_scan(repo, lake, spark, monkeypatch, capsys):
    monkeypatch.setattr("graveler.frames.spark.scans._MOST_GROUPS", 1)
    main = repo.branch("main")
    kinds = "id int, dt string, h int"
    values = [(1, "15:00 50%", 1), (2, "a+b/c", 2), (3, "dt=ü", None), (4, None, 4)]
    for row in values:
        gs.write(main, spark.createDataFrame([row], kinds), "t/", partition_by=["dt", "h"])
    (one, *_) = main.entries("t/dt=15%3A00 50%25/")
    main.copy(main, one.path, f"t/dt=copied/h=5/{one.path.rpartition('/')[2]}")
    main.commit("many writes")
    frame = lake.read("main", "t/")
    assert frame.dtypes == [("id", "int"), ("dt", "string"), ("h", "int")]
    assert sorted(map(tuple, frame.collect()), key=str) == sorted(
        [*values, (1, "copied", 5)], key=str
    )
    where = {"dt": ["a+b/c", None]}
    assert ids(lake.read("main", "t/", where=where)) == [2, 4]
    lake.read("main", "t/", where=where).explain(extended=True)
    plan = capsys.readouterr().out
    assert "FileScan parquet" in plan
    assert "Union" not in plan


def test_views_are_pinned_to_one_commit(repo, lake, loaded, spark):
    frames = lake.create_views("main", {"orders": "t/", "first": "t/dt=2026-01-01/"})
    load(repo, spark, 4, "2026-01-04")
    assert frames.keys() == {"orders", "first"}
    assert spark.sql("select max(id) from orders").collect() == [(3,)]
    assert spark.sql("select id from first").collect() == [(1,)]
    lake.create_views("main", {"orders": "t/"}, columns=["id"])
    assert spark.sql("select * from orders").columns == ["id"]
    assert spark.sql("select max(id) from orders").collect() == [(4,)]


def test_all_views_are_made_or_none(lake, loaded, spark):
    for name in ("two words", "a.b", "`a`.`b`", "", "a-b", "a`b", 7):
        with pytest.raises(InvalidInputError, match=r"valid view name|name of a view="):
            lake.create_views("main", {"unmade": "t/", name: "t/"})
    with pytest.raises(ObjectNotFoundError, match="'nothing/'"):
        lake.create_views("main", {"unmade": "t/", "missing": "nothing/"})
    assert not spark.catalog.tableExists("unmade")
    for name in ("`two words`", "`a.b`", "1x", "select"):
        lake.create_views("main", {name: "t/"})
        assert spark.table(f"`{name.strip('`')}`").columns == ["id", "amount", "dt"]
        spark.catalog.dropTempView(name.strip("`"))
