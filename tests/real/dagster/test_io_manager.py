"""Values of assets as folders of the lake."""

import dagster as dg
import pandas as pd
import polars as pl
import pytest

from dagster_graveler import (
    GravelerIOManager,
    build_publish_asset,
    graveler_definitions,
)
from dagster_graveler.context import partition_folder
from graveler import frames
from graveler.errors import InvalidInputError
from graveler.spark import read, write

pytestmark = pytest.mark.filterwarnings(
    "ignore:Parameter `backfill_policy`"
)  # a beta feature of Dagster

parts = dg.StaticPartitionsDefinition(["x", "y"])
hours = dg.HourlyPartitionsDefinition("2013-01-01-00:00")
HOUR = "2013-01-01-05:00"
ONCE = dg.BackfillPolicy.single_run()


@pytest.fixture
def materialize(resource, instance):
    def execute(assets, manager, partition=None, **given):
        publish = build_publish_asset(
            "publish",
            [asset for asset in assets if asset.partitions_def == assets[0].partitions_def],
            partitions_def=assets[0].partitions_def,
        )
        return dg.materialize(
            [*assets, publish],
            resources={"graveler": resource, "io_manager": manager},
            instance=instance,
            partition_key=partition,
            **given,
        )

    return execute


def rows(frame):
    return sorted(tuple(row) for row in frame.collect())


def test_frames_are_written_and_read_as_spark_does(spark, repo, resource, materialize):
    @dg.asset(partitions_def=parts)
    def numbers(context: dg.AssetExecutionContext):
        return spark.createDataFrame([(1, context.partition_key)], "n int, part string")

    @dg.asset(partitions_def=parts)
    def doubled(numbers):
        return numbers.selectExpr("n * 2 as n", "part")

    manager = GravelerIOManager(graveler=resource, prefix="tables/", partition_by=["part"])
    for part in ("x", "y"):
        assert materialize([numbers, doubled], manager, part).success
    folders = sorted(path.path.rpartition("/")[0] for path in repo.ref("main").entries())
    assert folders == [
        "tables/doubled/x/part=x",
        "tables/doubled/y/part=y",
        "tables/numbers/x/part=x",
        "tables/numbers/y/part=y",
    ]
    assert rows(read(repo.ref("main"), "tables/doubled/y/", spark=spark)) == [(2, "y")]


def test_appending_in_a_try_that_fails_later_adds_rows_once(spark, repo, resource, materialize):
    tries = []

    @dg.asset(retry_policy=dg.RetryPolicy(max_retries=2))
    def numbers(context: dg.AssetExecutionContext):
        tries.append(context.retry_number)
        yield dg.Output(spark.range(3 + len(tries)))  # written here, in a step that joins
        if len(tries) < 3:
            raise ConnectionError("lost after writing")

    manager = GravelerIOManager(graveler=resource, mode="append")
    assert materialize([numbers], manager).success
    assert tries == [0, 1, 2]
    assert rows(read(repo.ref("main"), "numbers/", spark=spark)) == [(n,) for n in range(6)]


def test_appending_to_an_hour_again_replaces_the_earlier_append(spark, repo, resource, materialize):
    @dg.asset(partitions_def=parts)
    def numbers():
        return spark.range(2)

    manager = GravelerIOManager(graveler=resource, mode="append")
    for _ in range(2):
        assert materialize([numbers], manager, "x").success
    assert rows(read(repo.ref("main"), "numbers/x/", spark=spark)) == [(0,), (1,)]


@pytest.mark.parametrize("library", [pd.DataFrame, pl.DataFrame], ids=["pandas", "polars"])
def test_frames_in_memory_are_appended_too(repo, resource, materialize, library):
    numbers = iter(range(9))

    @dg.asset(retry_policy=dg.RetryPolicy(max_retries=1))
    def runs(context: dg.AssetExecutionContext):
        yield dg.Output(library({"n": [next(numbers)]}))
        if context.retry_number == 0:
            raise ConnectionError("lost after writing")

    @dg.asset(partitions_def=parts)
    def hour():
        return library({"n": [next(numbers)]})

    manager = GravelerIOManager(graveler=resource, mode="append")
    for _ in range(2):
        assert materialize([runs], manager).success
    assert sorted(frames.read(repo.ref("main"), "runs/", pd.DataFrame)["n"]) == [1, 3]
    for _ in range(2):
        assert materialize([hour], manager, "x").success
    assert list(frames.read(repo.ref("main"), "hour/x/", pd.DataFrame)["n"]) == [5]


@pytest.fixture
def appending(spark, resource, instance):
    """Execute jobs of assets that append to their hours, in folders that they may share."""

    def define(layout="{asset}/{partition}"):
        rows_of = {"a": 4, "b": 1}

        def make(name):
            @dg.asset(name=name, partitions_def=hours, backfill_policy=ONCE)
            def appended(context: dg.AssetExecutionContext):
                frame = spark.range(rows_of[name]).repartition(rows_of[name])
                return dict.fromkeys(context.partition_keys, frame)

            return appended

        assets = [make("a"), make("b")]
        manager = GravelerIOManager(graveler=resource, mode="append", layout=layout)
        defs = graveler_definitions(
            assets, resource, io_manager=manager, partitions_def=hours, name="hourly"
        )

        def execute(job, **given):
            if "tags" not in given:
                given["partition_key"] = HOUR
            done = defs.resolve_job_def(job).execute_in_process(instance=instance, **given)
            assert done.success

        return execute, rows_of

    return define


RANGE = {
    "dagster/asset_partition_range_start": HOUR,
    "dagster/asset_partition_range_end": "2013-01-01-06:00",
}


@pytest.mark.parametrize(
    ("job", "given"),
    [("hourly_job", {}), ("__ASSET_JOB", {}), ("hourly_job", {"tags": RANGE})],
    ids=["the same job", "from the asset's page", "a backfill in one run"],
)
def test_appending_comes_once_whichever_job_has_run_the_hour(spark, repo, appending, job, given):
    execute, rows_of = appending()
    execute("hourly_job")
    rows_of["a"] = 2  # fewer rows in fewer files
    execute(job, **given)
    execute("hourly_job")
    assert rows(read(repo.ref("main"), "a/2013/01/01/05:00/", spark=spark)) == [(0,), (1,)]
    if given:
        assert rows(read(repo.ref("main"), "a/2013/01/01/06:00/", spark=spark)) == [(0,), (1,)]


def test_assets_that_append_to_one_folder_keep_each_others_rows(spark, repo, appending):
    execute, rows_of = appending("{partition}")
    for picked, count in ((["a", "b"], 4), (["a", "b"], 2), (["a"], 3), (["b"], 3)):
        rows_of["a"] = count
        names = [*picked, "hourly_publish"]
        execute("__ASSET_JOB", asset_selection=[dg.AssetKey(name) for name in names])
        results = rows(read(repo.ref("main"), "2013/01/01/05:00/", spark=spark))
        assert results == sorted([(0,), *((n,) for n in range(count))])


def test_what_somebody_else_has_put_into_the_folder_stays(spark, repo, appending):
    execute, _ = appending()
    with repo.run("by hand") as run:
        write(run, spark.range(10, 11), "b/2013/01/01/05:00/")
    for job in ("hourly_job", "__ASSET_JOB"):
        execute(job)
        assert rows(read(repo.ref("main"), "b/2013/01/01/05:00/", spark=spark)) == [(0,), (10,)]


def test_an_asset_without_partitions_appends_with_each_run(spark, repo, resource, materialize):
    @dg.asset
    def numbers():
        return spark.range(1)

    manager = GravelerIOManager(graveler=resource, mode="append")
    for _ in range(2):
        assert materialize([numbers], manager).success
    assert rows(read(repo.ref("main"), "numbers/", spark=spark)) == [(0,), (0,)]


@pytest.mark.parametrize("published", [False, True])
def test_an_output_of_none_removes_what_an_earlier_run_wrote(
    resource, materialize, repo, published
):
    runs = []

    @dg.asset(partitions_def=parts)
    def made():
        runs.append(1)
        return b"rows" if len(runs) == 1 else None

    @dg.asset(partitions_def=parts, deps=[made])
    def other() -> bytes:
        if len(runs) == 1 and not published:
            raise ConnectionError("lost")
        return b"1"

    manager = GravelerIOManager(graveler=resource)
    assert materialize([made, other], manager, "x", raise_on_error=False).success == published
    assert materialize([made, other], manager, "x").success
    assert [entry.path for entry in repo.ref("main").entries()] == ["other/x/data"]


def test_an_output_that_is_none_opens_no_run(resource, instance, repo):
    @dg.asset
    def nothing():
        return None

    manager = GravelerIOManager(graveler=resource)
    dg.materialize([nothing], resources={"io_manager": manager}, instance=instance)
    assert list(repo.runs.list()) == []


def test_an_asset_after_the_publishing_may_return_nothing(resource, instance, repo):
    @dg.asset
    def made() -> str:
        return "made"

    @dg.asset(deps=["publish"])
    def after():
        return None

    assert dg.materialize(
        [made, build_publish_asset("publish", [made]), after],
        resources={"graveler": resource, "io_manager": GravelerIOManager(graveler=resource)},
        instance=instance,
    ).success
    assert [entry.path for entry in repo.ref("main").entries()] == ["made/data"]


def test_an_asset_of_all_partitions_reads_them_as_one_frame(spark, repo, resource, materialize):
    @dg.asset(partitions_def=parts)
    def numbers(context: dg.AssetExecutionContext):
        return spark.createDataFrame([(context.partition_key,)], "part string")

    @dg.asset
    def everything(numbers):
        return numbers.groupBy().count()

    manager = GravelerIOManager(graveler=resource)
    for part in ("x", "y"):
        assert materialize([numbers], manager, part).success
    assert materialize([everything, numbers], manager, selection=["everything", "publish"]).success
    assert rows(read(repo.ref("main"), "everything/", spark=spark)) == [(2,)]


def test_outside_of_a_run_the_target_is_read_as_it_is(resource, instance, materialize, repo):
    @dg.asset(partitions_def=parts)
    def text(context: dg.AssetExecutionContext) -> str:
        return f"é {context.partition_key}"

    @dg.asset
    def texts(text: dict[str, str]) -> str:
        return ", ".join(sorted(text.values()))

    manager = GravelerIOManager(graveler=resource)
    for part in ("x", "y"):
        materialize([text], manager, part)
    defs = dg.Definitions([text, texts], resources={"graveler": resource, "io_manager": manager})
    loaded = defs.load_asset_value("text", python_type=str, partition_key="y", instance=instance)
    assert loaded == "é y"
    assert list(repo.runs.list("OPEN")) == []  # a read opens no run


def test_assets_after_the_publishing_read_what_was_published(resource, instance, repo):
    @dg.asset
    def made() -> str:
        return "made"

    seen = []

    @dg.asset(deps=["publish"])
    def reader(made: str) -> None:
        seen.append(made)

    result = dg.materialize(
        [made, build_publish_asset("publish", [made]), reader],
        resources={"graveler": resource, "io_manager": GravelerIOManager(graveler=resource)},
        instance=instance,
    )
    assert result.success
    assert seen == ["made"]


def test_a_value_of_another_type_is_refused(resource, materialize, repo):
    @dg.asset
    def number() -> int:
        return 1

    with pytest.raises(InvalidInputError, match=r"no type handler is for int: .*pickle=True"):
        materialize([number], GravelerIOManager(graveler=resource))
    assert list(repo.ref("main").entries()) == []


def test_outputs_of_ops_have_folders_by_step(resource, instance, repo):
    @dg.op(out={"one": dg.Out(bytes), "two": dg.Out(bytes)})
    def pair():
        yield dg.Output(b"1", "one")
        yield dg.Output(b"2", "two")

    @dg.op
    def add(one: bytes, two: bytes) -> str:
        return (one + two).decode()

    @dg.job(
        resource_defs={"graveler": resource, "io_manager": GravelerIOManager(graveler=resource)}
    )
    def adding():
        add(*pair())

    result = adding.execute_in_process(instance=instance)
    assert result.success
    assert result.output_for_node("add") == "12"
    (record,) = repo.runs.list()
    results = {
        entry.path: repo.ref(record.branch).get(entry.path)
        for entry in repo.ref(record.branch).entries()
    }
    assert results == {
        f"_dagster/ops/{name}/data": value
        for name, value in {"pair/one": b"1", "pair/two": b"2", "add/result": b"12"}.items()
    }


@pytest.mark.parametrize(
    ("definition", "key", "folder"),
    [
        (
            dg.HourlyPartitionsDefinition("2013-01-01-00:00"),
            "2013-01-01-05:00",
            "2013/01/01/05:00/",
        ),
        (
            dg.HourlyPartitionsDefinition("2013-01-01-00:00", timezone="America/New_York"),
            "2013-01-01-05:00",
            "2013/01/01/10:00/",
        ),
        (dg.DailyPartitionsDefinition("2013-01-01"), "2013-01-02", "2013/01/02/00:00/"),
        (parts, "x", "x/"),
        (
            dg.MultiPartitionsDefinition(
                {"day": dg.DailyPartitionsDefinition("2013-01-01"), "airport": parts}
            ),
            dg.MultiPartitionKey({"day": "2013-01-02", "airport": "x"}),
            "x/2013/01/02/00:00/",
        ),
    ],
    ids=["hour", "hour elsewhere", "day", "static", "two dimensions"],
)
def test_a_partition_is_a_folder(definition, key, folder):
    assert partition_folder(definition, key) == folder


@pytest.mark.parametrize("key", ["a/b", ".."])
def test_a_partition_that_is_no_folder_is_refused(key):
    with pytest.raises(InvalidInputError, match="another key"):
        partition_folder(dg.StaticPartitionsDefinition([key]), key)
