"""A user's project: nested key prefixes, graph and multi assets, and an asset in two jobs."""

import re
import warnings
from concurrent.futures import ThreadPoolExecutor
from threading import Event

import dagster as dg
import pandas as pd
import pyspark.sql
import pytest

from dagster_graveler import (
    GravelerIOManager,
    GravelerResource,
    build_publish_asset,
    graveler_definitions,
)
from graveler.errors import InvalidInputError

hours = dg.HourlyPartitionsDefinition("2013-01-01-05:00", end_date="2013-01-01-08:00")
MISSING = dg.AutomationCondition.missing() & ~dg.AutomationCondition.in_progress()
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

    @dg.asset(key=["mart", "rows"], ins={"own": dg.AssetIn("sales")}, deps=[inner])
    def rows(own: pyspark.sql.DataFrame) -> str:
        return str(own.count())

    defs = graveler_definitions(
        [outer, inner, rows],
        resource,
        io_manager=GravelerIOManager(graveler=resource),
        name="nested",
    )
    job = defs.resolve_job_def("nested_job")
    for _ in range(2):
        assert job.execute_in_process(instance=instance).success
        folders = [path.rpartition("/")[0] for path in paths(repo) if path.endswith(".parquet")]
        assert folders == ["sales/daily", "sales"] or folders == ["sales", "sales/daily"]
        assert repo.ref("main").get("mart/rows/data") == b"2"


def made(key, partitions=None):
    @dg.asset(key=key, partitions_def=partitions)
    def asset() -> str:
        return "value"

    return asset


SHARING = {
    "a static key and a nested asset": (
        made(["sales"], dg.StaticPartitionsDefinition(["daily", "weekly"])),
        made(["sales", "daily"]),
    ),
    "a dynamic key and a nested asset": (
        made(["sales"], dg.DynamicPartitionsDefinition(name="shops")),
        made(["sales", "daily"]),
    ),
}


@pytest.mark.parametrize("assets", SHARING.values(), ids=SHARING)
def test_assets_of_one_folder_are_refused(resource, assets):
    with pytest.raises(InvalidInputError, match=r"sales.* keep files in one folder"):
        graveler_definitions(assets, resource, name="sharing")
    appended = GravelerIOManager(graveler=resource, mode="append")
    graveler_definitions(assets, resource, io_manager=appended, name="sharing")


def test_a_layout_without_the_asset_is_refused_for_two(resource):
    manager = GravelerIOManager(graveler=resource, layout="hours/{partition}")
    with pytest.raises(InvalidInputError, match="assets one and two would keep files in one"):
        graveler_definitions(
            [made(["one"], hours), made(["two"], hours)],
            resource,
            io_manager=manager,
            name="layout",
        )


@dg.multi_asset(outs={"one": dg.AssetOut(key=["sales", ".."])})
def up():
    return "value"


@pytest.mark.parametrize(
    ("asset", "reason"),
    [
        (made(["sales"], dg.StaticPartitionsDefinition(["north", "a/b"])), "partition key 'a/b'"),
        (made(["sales"], dg.StaticPartitionsDefinition([".."])), "partition key '..'"),
        (up, "path 'sales/..'"),
    ],
    ids=["slash", "dots", "asset"],
)
def test_keys_that_no_folder_can_have_are_refused(resource, asset, reason):
    with pytest.raises(InvalidInputError, match=re.escape(reason)):
        graveler_definitions([asset], resource, name="odd")


def test_keys_that_differ_in_case_have_a_folder_each(repo, resource, instance):
    keys = (["sales"], ["Sales"], ["sales", "daily"], ["sales", "Daily"])
    defs = graveler_definitions([made(key) for key in keys], resource, name="apart")
    assert defs.resolve_job_def("apart_job").execute_in_process(instance=instance).success
    assert paths(repo) == sorted(f"{'/'.join(key)}/data" for key in keys)


def test_partitions_beside_nested_assets_are_accepted(resource):
    shops = dg.StaticPartitionsDefinition(["north", "south"])
    assets = [made(["shops"], shops), made(["shops", "east"]), made(["sales"], shops)]
    defs = graveler_definitions(assets, resource, name="apart")
    assert defs.resolve_asset_graph().has(dg.AssetKey(["shops", "east"]))


def test_a_pipeline_has_the_partitions_of_its_assets(repo, resource, instance):
    defs = graveler_definitions([made(["sales"], hours), made(["shops"])], resource, name="timed")
    (schedule,) = defs.schedules or ()
    assert schedule.name == "timed_job_schedule"
    publish = defs.resolve_asset_graph().get(dg.AssetKey("timed_publish"))
    assert publish.partitions_def == hours
    job = defs.resolve_job_def("timed_job")
    assert job.execute_in_process(instance=instance, partition_key=HOURS[0]).success
    assert paths(repo) == ["sales/2013/01/01/05:00/data", "shops/data"]


def test_assets_that_cannot_be_in_one_run_are_refused(resource):
    days = dg.DailyPartitionsDefinition("2013-01-01")
    with pytest.raises(InvalidInputError, match=r"asset mart/day has other partitions .* Daily"):
        graveler_definitions(
            [made(["sales"], hours), made(["mart", "day"], days)], resource, name="mixed"
        )
    with pytest.raises(InvalidInputError, match="asset sales has other partitions"):
        graveler_definitions([made(["sales"], hours)], resource, partitions_def=days, name="mixed")

    @dg.asset(key=["mart", "all"], automation_condition=MISSING)
    def alone() -> str:
        return "value"

    pipeline = [made(["sales"], hours), alone]
    with pytest.raises(InvalidInputError, match="would request it without mixed_publish"):
        graveler_definitions(pipeline, resource, name="mixed")
    graveler_definitions(pipeline, resource, publish_adhoc=True, name="mixed")


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


@pytest.mark.filterwarnings("ignore:Parameter `include_sources`")  # Dagster's own use
@pytest.mark.filterwarnings("ignore::dagster.PreviewWarning")
def test_conditions_of_graph_and_multi_assets_publish_hours(repo, resource, instance):
    condition = MISSING & ~dg.AutomationCondition.any_deps_missing()
    assets = dg.map_asset_specs(
        lambda spec: spec.replace_attributes(automation_condition=condition), [flights, both]
    )
    defs = graveler_definitions(assets, resource, partitions_def=hours, name="missing")
    result = dg.evaluate_automation_conditions(defs, instance)
    keys = defs.resolve_asset_graph().executable_asset_keys
    requested = {key.to_user_string(): result.get_requested_partitions(key) for key in keys}
    names = ("raw/flights", "two/left", "two/right", "missing_publish")
    assert requested == {name: set(HOURS) for name in names}

    for hour in HOURS[:2]:
        assert pick(defs, instance, *names, hour=hour) == ""
    assert len(paths(repo)) == 6
    again = dg.evaluate_automation_conditions(defs, instance, cursor=result.cursor)
    assert again.get_requested_partitions(flights.key) == {HOURS[2]}


def test_a_half_of_a_multi_asset_picked_by_hand_is_refused(repo, resource, instance, hourly):
    @dg.multi_asset(
        specs=[dg.AssetSpec(["part", name], skippable=True) for name in ("left", "right")],
        partitions_def=hours,
        can_subset=True,
    )
    def halves(context: dg.AssetExecutionContext, graveler: GravelerResource):
        with graveler.step(context) as step:
            for key in sorted(context.selected_asset_keys):
                step.put(f"{'/'.join(key.path)}/{context.partition_key}", b"1")
        for key in sorted(context.selected_asset_keys):
            yield dg.MaterializeResult(key)

    defs = graveler_definitions([halves], resource, partitions_def=hours, name="halves")
    reason = pick(defs, instance, "part/left", "halves_publish")
    assert f"on 'main' part/right ({HOURS[0]}) is not" in reason
    assert paths(repo) == []
    assert pick(defs, instance, "part/left", "part/right", "halves_publish") == ""
    assert len(paths(repo)) == 2
    assert pick(defs, instance, "part/right", "halves_publish") == ""
    assert len(paths(repo)) == 2


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


@pytest.fixture
def meanwhile():
    """Functions that run while `clean` is made."""
    return []


@pytest.fixture
def chain(resource, meanwhile):
    """Three assets of an hour: one uses the IO manager, one writes by itself, and one does both."""

    @dg.asset(partitions_def=hours)
    def readings(context) -> str:
        return f"readings {context.run.tags.get('version', '')}"

    @dg.asset(partitions_def=hours)
    def notes(context: dg.AssetExecutionContext, graveler: GravelerResource) -> None:
        with graveler.step(context) as step:
            step.put(f"notes/{context.partition_key}", b"note")

    @dg.asset(partitions_def=hours, deps=[readings, notes, "elsewhere"])
    def clean(context: dg.AssetExecutionContext, graveler: GravelerResource) -> str:
        graveler.run(context)
        while meanwhile:
            meanwhile.pop()()
        return f"clean {context.run.tags.get('version', '')}"

    return graveler_definitions(
        [readings, notes, clean], resource, partitions_def=hours, name="chain"
    )


def pick(defs, instance, *names, hour=HOURS[0], **tags):
    """Materialize selected assets of an hour; return the errors."""
    job = defs.resolve_implicit_global_asset_job_def()
    result = job.execute_in_process(
        instance=instance,
        partition_key=hour,
        asset_selection=[dg.AssetKey.from_user_string(name) for name in names],
        raise_on_error=False,
        tags=tags,
    )
    failed = [event for event in result.all_events if event.is_step_failure]
    return "; ".join(event.step_failure_data.user_failure_data.description for event in failed)


def test_a_part_of_an_hour_picked_by_hand_is_not_published(repo, instance, chain):
    assert pick(chain, instance, "readings") == ""
    reason = pick(chain, instance, "clean", "chain_publish")
    assert f"Dagster shows a newer readings ({HOURS[0]}) than 'main' has" in reason
    for record in list(repo.runs.list(live=True)):
        repo.runs.abandon(record.key)
    reason = pick(chain, instance, "clean", "chain_publish")
    assert f"on 'main' notes ({HOURS[0]}) is not, readings ({HOURS[0]}) is not" in reason
    assert paths(repo) == []
    assert pick(chain, instance, "readings", "notes", "clean", "chain_publish") == ""
    assert len(paths(repo)) == 3


def test_an_asset_of_a_published_hour_is_published_alone(repo, instance, chain):
    job = chain.resolve_job_def("chain_job")
    assert job.execute_in_process(instance=instance, partition_key=HOURS[0]).success
    assert pick(chain, instance, "clean", "chain_publish", version="2") == ""
    assert repo.ref("main").get("clean/2013/01/01/05:00/data") == b"clean 2"
    assert f"readings ({HOURS[1]}) is not" in pick(
        chain, instance, "clean", "chain_publish", hour=HOURS[1]
    )


def test_an_asset_whose_inputs_change_is_not_published(repo, instance, chain, meanwhile):
    job = chain.resolve_job_def("chain_job")
    assert job.execute_in_process(instance=instance, partition_key=HOURS[0]).success
    reasons = []
    meanwhile.append(
        lambda: reasons.append(pick(chain, instance, "readings", "chain_publish", version="3"))
    )
    reason = pick(chain, instance, "clean", "chain_publish", version="2")
    assert reasons == [""]
    assert f"readings ({HOURS[0]}) has changed since, by run 'dagster __ASSET_JOB(" in reason
    assert repo.ref("main").get("readings/2013/01/01/05:00/data") == b"readings 3"
    assert repo.ref("main").get("clean/2013/01/01/05:00/data") == b"clean "
    (parked,) = [run for run in repo.runs.list() if run.live]
    assert f"`graveler run abandon {parked.key!r}`" in reason
    repo.runs.abandon(parked.key)
    assert pick(chain, instance, "clean", "chain_publish", version="4") == ""


def test_an_asset_without_its_rolled_back_inputs_stays_back(repo, instance, chain):
    job = chain.resolve_job_def("chain_job")
    assert job.execute_in_process(instance=instance, partition_key=HOURS[0]).success
    (published,) = repo.runs.list()
    repo.runs.rollback(published.key)
    reason = pick(chain, instance, "clean", "chain_publish", version="2")
    assert f"readings ({HOURS[0]}) is not" in reason
    assert paths(repo) == []


def test_threads_that_make_definitions_meet_no_warning(resource):
    def define(number):
        return graveler_definitions(
            assets, resource, gates=[nothing], partitions_def=hours, name="apart"
        )

    def nothing(candidate):
        return True

    def restore_filters():
        while not ended.is_set():
            with warnings.catch_warnings():  # any library may do this in any thread
                ended.wait(0.0001)

    assets = [made(["sales"], hours)]
    ended = Event()
    with ThreadPoolExecutor(5) as threads:
        other = threads.submit(restore_filters)
        try:
            assert len([*threads.map(define, range(100))]) == 100
        finally:
            ended.set()
    assert other.result() is None
