"""A project of its own: nested key prefixes, graph and multi assets, one asset in two jobs."""

import dagster as dg
import pandas as pd
import pytest

from dagster_graveler import GravelerIOManager, build_publish_asset, graveler_definitions

hours = dg.HourlyPartitionsDefinition("2013-01-01-05:00", end_date="2013-01-01-08:00")
HOURS = ("2013-01-01-05:00", "2013-01-01-06:00", "2013-01-01-07:00")


@dg.asset
def sales() -> pd.DataFrame:
    return pd.DataFrame({"amount": [1, 2]})


@dg.asset(key=["sales", "daily"])
def daily() -> pd.DataFrame:
    return pd.DataFrame({"amount": [3]})


@dg.asset(key=["sales.week"])
def dotted() -> pd.DataFrame:
    return pd.DataFrame({"amount": [4, 5, 6]})


@dg.asset(key=["mart", "total"], ins={"own": dg.AssetIn("sales")})
def total(own: pd.DataFrame) -> str:
    return str(own["amount"].sum())


@dg.op
def fetch(context: dg.OpExecutionContext) -> pd.DataFrame:
    return pd.DataFrame({"hour": [context.partition_key]})


@dg.op
def clean(frame: pd.DataFrame) -> pd.DataFrame:
    return frame


@dg.graph_asset(key=["raw", "flights"], partitions_def=hours)
def flights():
    return clean(fetch())


@dg.multi_asset(
    outs={"left": dg.AssetOut(key=["two", "left"]), "right": dg.AssetOut(key=["two", "right"])},
    partitions_def=hours,
    ins={"frame": dg.AssetIn(["raw", "flights"])},
)
def both(frame: pd.DataFrame):
    return frame, frame.head(0)


def paths(repo, ref="main"):
    return sorted(entry.path for entry in repo.ref(ref).entries())


@pytest.fixture
def nested(resource, instance):
    manager = GravelerIOManager(graveler=resource)
    defs = graveler_definitions(
        [sales, daily, dotted, total], resource, io_manager=manager, name="nested"
    )

    def run(**given):
        done = defs.resolve_job_def("nested_job").execute_in_process(instance=instance, **given)
        return done.success

    return run


def test_no_asset_replaces_files_of_another(repo, nested):
    written = [
        "mart/total/data",
        "sales.week/data.parquet",
        "sales/daily/data.parquet",
        "sales/data.parquet",
    ]
    for _ in range(2):
        assert nested()
        assert paths(repo) == written
    assert repo.ref("main").get("mart/total/data") == b"3"


def test_a_spark_frame_replaces_the_files_of_its_asset_alone(repo, resource, instance, spark):
    @dg.asset(name="sales")
    def outer():
        return spark.range(2).repartition(1)

    @dg.asset(key=["sales", "daily"], deps=[outer])
    def inner():
        return spark.range(3).repartition(1)

    defs = graveler_definitions(
        [outer, inner],
        resource,
        io_manager=GravelerIOManager(graveler=resource),
        name="nested",
    )
    job = defs.resolve_job_def("nested_job")
    for _ in range(2):
        assert job.execute_in_process(instance=instance).success
        folders = [path.rpartition("/")[0] for path in paths(repo) if path.endswith(".parquet")]
        assert folders == ["sales/daily", "sales"] or folders == ["sales", "sales/daily"]


@pytest.fixture
def hourly(resource):
    manager = GravelerIOManager(graveler=resource)
    return graveler_definitions(
        [flights, both], resource, io_manager=manager, partitions_def=hours, name="hourly"
    )


def test_graph_assets_of_several_hours_do_not_meet(repo, hourly, resource):
    job = hourly.resolve_job_def("hourly_job")
    with dg.DagsterInstance.ephemeral() as instance:
        for hour in HOURS:
            assert job.execute_in_process(instance=instance, partition_key=hour).success
    written = paths(repo)
    assert not [path for path in written if path.startswith("_dagster/")]
    for hour in ("05", "06", "07"):
        for asset in ("raw/flights", "two/left", "two/right"):
            folder = f"{asset}/2013/01/01/{hour}:00/"
            assert len([path for path in written if path.startswith(folder)]) == 1, folder


def test_graph_assets_publish_side_by_side(repo, hourly):
    """Two hours are forked from one commit, and both are published."""
    job = hourly.resolve_job_def("hourly_job")
    with dg.DagsterInstance.ephemeral() as instance:
        for hour in HOURS[:2]:
            done = job.execute_in_process(
                instance=instance,
                partition_key=hour,
                asset_selection=[dg.AssetKey(["raw", "flights"])],
                raise_on_error=False,
            )
            assert done.success
        for hour in HOURS[:2]:
            assert job.execute_in_process(instance=instance, partition_key=hour).success
    assert len([path for path in paths(repo) if path.startswith("raw/flights/")]) == 2


@pytest.fixture
def two_jobs(resource):
    manager = GravelerIOManager(graveler=resource)
    publishes = [
        build_publish_asset(f"{name}_published", ["sales"]) for name in ("morning", "evening")
    ]
    return dg.Definitions(
        assets=[sales, *publishes],
        jobs=[
            dg.define_asset_job(name, selection=["sales", f"{name}_published"])
            for name in ("morning", "evening")
        ],
        resources={"graveler": resource, "io_manager": manager},
    )


def test_one_asset_in_two_jobs_has_a_run_in_each(repo, two_jobs, instance):
    for name in ("morning", "evening", "morning"):
        job = two_jobs.resolve_job_def(name)
        assert job.execute_in_process(instance=instance).success
    assert {path.partition("/")[0] for path in paths(repo)} == {"sales"}
    assert len(paths(repo)) == 1
