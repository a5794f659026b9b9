"""Frames of Spark as values of assets: files, appends, types of arguments, hours, and lineage."""

from datetime import UTC, datetime
from typing import Any

import dagster as dg
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as f

from dagster_graveler import GravelerIOManager, graveler_definitions
from dagster_graveler.io_managers import lineage
from graveler.errors import InvalidInputError
from graveler.frames.libraries import library_named
from graveler.frames.rows import PartitionRows
from graveler.spark import read, write
from tests.real.dagster.programs.looking import on_main, passing, shown, span

pytestmark = pytest.mark.filterwarnings(
    "ignore:Parameter `backfill_policy`"
)  # a beta feature of Dagster

parts = dg.StaticPartitionsDefinition(["x", "y"])
hours = dg.HourlyPartitionsDefinition("2013-01-01-00:00")
HOUR, NEXT = "2013-01-01-05:00", "2013-01-01-06:00"
ONCE = dg.BackfillPolicy.single_run()
PANDAS = pd.DataFrame({"n": [1, 2], "name": ["é", None]})


def rows(frame):
    return sorted(tuple(row) for row in frame.collect())


def folders(repo):
    return sorted({path.rpartition("/")[0] for path in on_main(repo)})


def test_frames_are_written_and_read_as_spark_does(spark, repo, make):
    @dg.asset(partitions_def=parts)
    def numbers(context: dg.AssetExecutionContext):
        return spark.createDataFrame([(1, context.partition_key)], "n int, part string")

    @dg.asset(partitions_def=parts)
    def doubled(numbers):
        return numbers.selectExpr("n * 2 as n", "part")

    @dg.asset
    def everything(numbers):
        return numbers.groupBy().count()

    manager = {"prefix": "tables/", "partition_by": ["part"]}
    for part in ("x", "y"):
        make(numbers, doubled, partition=part, manager=manager)
    assert folders(repo) == [
        f"tables/{name}/{part}/part={part}" for name in ("doubled", "numbers") for part in "xy"
    ]
    assert rows(read(repo.ref("main"), "tables/doubled/y/", spark=spark)) == [(2, "y")]
    given = {"manager": {"prefix": "tables/"}, "selection": ["everything", "publish"]}
    make(everything, numbers, **given)
    assert rows(read(repo.ref("main"), "tables/everything/", spark=spark)) == [(2,)]


def test_a_frame_replaces_the_files_of_its_asset_alone(spark, repo, run_job):
    @dg.asset(name="sales")
    def outer():
        return spark.range(2).repartition(1)

    @dg.asset(key=["sales", "daily"], deps=[outer])
    def inner():
        return spark.range(3).repartition(1)

    @dg.asset(key=["mart", "rows"], ins={"own": dg.AssetIn("sales")}, deps=[inner])
    def counted(own: DataFrame) -> str:
        return str(own.count())

    for _ in range(2):
        run_job([outer, inner, counted])
        assert folders(repo) == ["mart/rows", "sales", "sales/daily"]
        assert len(on_main(repo)) == 3
        assert repo.ref("main").get("mart/rows/data") == b"2"


@pytest.fixture
def appending(spark, resource, instance):
    """Execute jobs of assets that append to their hours, in folders that they may share."""

    def define(layout="{asset}/{partition}"):
        rows_of = {"a": 4, "b": 1}

        def appended_by(name):
            @dg.asset(name=name, partitions_def=hours, backfill_policy=ONCE)
            def appended(context: dg.AssetExecutionContext):
                frame = spark.range(rows_of[name]).repartition(rows_of[name])
                return dict.fromkeys(context.partition_keys, frame)

            return appended

        manager = GravelerIOManager(graveler=resource, mode="append", layout=layout)
        defs = graveler_definitions(
            [appended_by("a"), appended_by("b")],
            resource,
            io_manager=manager,
            partitions_def=hours,
            name="hourly",
        )

        def execute(job, **given):
            if "tags" not in given:
                given["partition_key"] = HOUR
            defs.resolve_job_def(job).execute_in_process(instance=instance, **given)

        return execute, rows_of

    return define


@pytest.mark.parametrize(
    ("job", "given"),
    [("hourly_job", {}), ("__ASSET_JOB", {}), ("hourly_job", {"tags": span(HOUR, NEXT)})],
    ids=["the same job", "from the asset's page", "a backfill in one run"],
)
def test_appending_comes_once_whichever_job_has_run_the_hour(spark, repo, appending, job, given):
    execute, rows_of = appending()
    with repo.run("by hand") as run:  # what others have put there stays
        write(run, spark.range(10, 11), "b/2013/01/01/05:00/")
    execute("hourly_job")
    rows_of["a"] = 2  # fewer rows in fewer files
    execute(job, **given)
    main = repo.ref("main")
    assert rows(read(main, "a/2013/01/01/05:00/", spark=spark)) == [(0,), (1,)]
    assert rows(read(main, "b/2013/01/01/05:00/", spark=spark)) == [(0,), (10,)]
    if given:
        assert rows(read(main, "a/2013/01/01/06:00/", spark=spark)) == [(0,), (1,)]


def test_assets_that_append_to_one_folder_keep_each_others_rows(spark, repo, appending):
    execute, rows_of = appending("{partition}")
    for picked, count in ((["a", "b"], 4), (["a"], 3), (["b"], 3)):
        rows_of["a"] = count
        names = [*picked, "hourly_publish"]
        execute("__ASSET_JOB", asset_selection=[dg.AssetKey(name) for name in names])
        found = rows(read(repo.ref("main"), "2013/01/01/05:00/", spark=spark))
        assert found == sorted([(0,), *((n,) for n in range(count))])


def test_spark_and_the_others_read_what_the_other_wrote(spark, make):
    assets, seen = passing(PANDAS, DataFrame)
    make(*assets)
    assert rows(seen[DataFrame].orderBy("n")) == [(1, "é"), (2, None)]
    written = spark.createDataFrame([(1, "é", 7), (2, None, 8)], "n int, name string, part int")
    assets, seen = passing(written, pd.DataFrame, pl.DataFrame, pa.Table, object)
    result = make(*assets, manager={"partition_by": ["part"]})
    assert sorted(seen[pd.DataFrame]["part"]) == [7, 8]  # the folder's name becomes a column
    for kind in (pl.DataFrame, pa.Table):
        assert sorted(seen[kind]["n"].to_pylist() if kind is pa.Table else seen[kind]["n"]) == [
            1,
            2,
        ]
    assert isinstance(seen[object], DataFrame)
    assert shown(result, "made")["dagster/row_count"] == 2
    assets, seen = passing(written, object)
    make(*assets, manager={"load_as": "polars"})
    assert isinstance(seen[object], pl.DataFrame)


def test_an_asset_that_changes_its_type_leaves_no_rows_behind(spark, repo, make):
    frame = spark.createDataFrame([(1, "old", 7)], "n int, name string, part int")
    make(*passing(frame)[0], manager={"partition_by": ["part"]})
    for value, file in ((PANDAS, "made/data.parquet"), (b"1", "made/data")):
        make(*passing(value)[0])
        assert on_main(repo, "made/") == [file]


def test_rows_of_a_spark_frame_go_to_the_hour_of_their_time(spark, repo, make):
    times = [datetime(2013, 1, 1, hour, 30, tzinfo=UTC) for hour in (5, 6, 6)]

    @dg.asset(partitions_def=hours, backfill_policy=ONCE, metadata={"partition_expr": "at"})
    def events():
        return spark.createDataFrame([(time,) for time in times], "at timestamp")

    make(events, ends=(HOUR, NEXT))
    assert folders(repo) == [f"events/2013/01/01/{hour}:00" for hour in ("05", "06")]
    with pytest.raises(InvalidInputError, match="rows belong to none of the partitions"):
        make(events, partition=HOUR)


def test_naive_times_of_a_spark_frame_are_in_the_zone(spark):
    day = PartitionRows(
        "2013-10-27",
        datetime(2013, 10, 26, 22, tzinfo=UTC),
        datetime(2013, 10, 27, 23, tzinfo=UTC),
        "Europe/Berlin",
    )
    times = [datetime.fromisoformat(f"2013-10-27T{hour}:30") for hour in ("00", "02", "23")]
    frame = spark.createDataFrame([(time,) for time in times], "at timestamp_ntz")
    split = library_named("spark").split_rows(frame, "at", {day.key: day})
    assert split[day.key].count() == len(times)
    other = spark.sql("SELECT TIMESTAMP_NTZ '2013-10-26 23:30:00' AS at")
    with pytest.raises(InvalidInputError, match="rows belong to none"):
        library_named("spark").split_rows(other, "at", {day.key: day})


@dg.asset
def flights() -> pd.DataFrame:
    return pd.DataFrame(
        {"carrier": ["UA", "B6"], "origin": ["EWR", "JFK"], "delay": [4, 7], "legs": [1, 2]}
    )


@dg.asset
def carriers() -> pd.DataFrame:
    return pd.DataFrame({"code": ["UA"], "name": ["United"]})


@pytest.fixture
def deps_of(make, spark):
    """Return, for each column that a function returns, the columns from which it is computed."""

    def run(function, **ins):
        asset = dg.asset(name="made", ins={"flights": dg.AssetIn(), **ins})(function)
        found: Any = shown(make(flights, carriers, asset), "made").get("dagster/column_lineage")
        return found and {
            column: [f"{dep.asset_key.to_user_string()}.{dep.column_name}" for dep in deps]
            for column, deps in found.deps_by_column.items()
        }

    return run


def test_columns_are_followed_through_a_query(deps_of):
    def made(flights: DataFrame, carriers: DataFrame):
        return (
            flights.withColumn("total", f.col("delay") * f.col("legs"))
            .join(carriers, f.col("carrier") == f.col("code"), "left")
            .where("delay > 0")
            .groupBy(f.upper("name").alias("who"))
            .agg(f.sum("total").alias("sum"), f.count("*").alias("rows"), f.lit(1).alias("one"))
        )

    assert deps_of(made, carriers=dg.AssetIn()) == {
        "who": ["carriers.name"],
        "sum": ["flights.delay", "flights.legs"],
    }


def test_a_table_that_is_joined_with_itself_is_followed(deps_of):
    def made(flights: DataFrame):
        other = flights.select("carrier", f.col("legs").alias("n"))
        both = flights.join(other, "carrier").unionByName(flights.withColumn("n", f.col("delay")))
        window = Window.partitionBy("carrier").orderBy("origin")
        return both.select("n", f.row_number().over(window).alias("at")).select(
            "at", f.explode(f.array("n")).alias("n")
        )

    assert deps_of(made) == {
        "n": ["flights.delay", "flights.legs"],
        "at": ["flights.carrier", "flights.origin"],
    }


@pytest.mark.parametrize("what", ["Python functions", "a large plan"])
def test_what_cannot_be_followed_has_no_lineage(deps_of, monkeypatch, what):
    def made(flights: DataFrame):
        if what == "a large plan":
            return flights.where("delay > 0").select("delay").limit(1)
        return flights.mapInPandas(lambda frames: frames, flights.schema)

    if what == "a large plan":
        monkeypatch.setattr(lineage, "_MOST_NODES", 2)
    assert deps_of(made) is None
