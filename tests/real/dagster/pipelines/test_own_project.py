"""A user's project: nested key prefixes, graph and multi assets, and an asset in two jobs."""

import re

import dagster as dg
import pandas as pd
import pytest

from dagster_graveler import (
    GravelerIOManager,
    GravelerResource,
    graveler_definitions,
)
from graveler.errors import InvalidInputError
from tests.real.dagster.programs.looking import on_main

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


def test_no_asset_replaces_files_of_another(repo, run_job):
    written = [
        "mart/total/data",
        "sales.week/data.parquet",
        "sales/daily/data.parquet",
        "sales/data.parquet",
    ]
    for _ in range(2):
        run_job([sales, daily, dotted, total])
        assert on_main(repo) == written
    assert repo.ref("main").get("mart/total/data") == b"3"


def made(key, partitions=None):
    @dg.asset(key=key, partitions_def=partitions)
    def asset() -> str:
        return "value"

    return asset


@pytest.mark.parametrize(
    "definition",
    [
        dg.StaticPartitionsDefinition(["daily", "weekly"]),
        dg.DynamicPartitionsDefinition(name="shops"),
    ],
    ids=["a static key", "a dynamic key"],
)
def test_assets_of_one_folder_are_refused(resource, definition):
    assets = [made(["sales"], definition), made(["sales", "daily"])]
    with pytest.raises(InvalidInputError, match=r"sales.* keep files in one folder"):
        graveler_definitions(assets, resource, name="sharing")
    appended = GravelerIOManager(graveler=resource, mode="append")
    graveler_definitions(assets, resource, io_manager=appended, name="sharing")


def test_a_layout_without_the_asset_is_refused_for_two(run_job):
    with pytest.raises(InvalidInputError, match="assets one and two would keep files in one"):
        run_job(
            [made(["one"], hours), made(["two"], hours)], manager={"layout": "hours/{partition}"}
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


def test_keys_that_differ_in_case_have_a_folder_each(repo, run_job):
    keys = (["sales"], ["Sales"], ["sales", "daily"], ["sales", "Daily"])
    run_job([made(key) for key in keys])
    assert on_main(repo) == sorted(f"{'/'.join(key)}/data" for key in keys)


def test_partitions_beside_nested_assets_are_accepted(resource):
    shops = dg.StaticPartitionsDefinition(["north", "south"])
    assets = [made(["shops"], shops), made(["shops", "east"]), made(["sales"], shops)]
    defs = graveler_definitions(assets, resource, name="apart")
    assert defs.resolve_asset_graph().has(dg.AssetKey(["shops", "east"]))


def test_a_pipeline_has_the_partitions_of_its_assets(repo, resource, run_job):
    assets = [made(["sales"], hours), made(["shops"])]
    defs = graveler_definitions(assets, resource, name="timed")
    (schedule,) = defs.schedules or ()
    assert schedule.name == "timed_job_schedule"
    publish = defs.resolve_asset_graph().get(dg.AssetKey("timed_publish"))
    assert publish.partitions_def == hours
    run_job(assets, HOURS[0])
    assert on_main(repo) == ["sales/2013/01/01/05:00/data", "shops/data"]


def test_assets_that_cannot_be_in_one_run_are_refused(resource):
    days = dg.DailyPartitionsDefinition("2013-01-01")
    with pytest.raises(InvalidInputError, match=r"asset mart/day has other partitions .* Daily"):
        graveler_definitions(
            [made(["sales"], hours), made(["mart", "day"], days)], resource, name="mixed"
        )
    with pytest.raises(InvalidInputError, match="asset sales has other partitions"):
        graveler_definitions([made(["sales"], hours)], resource, partitions_def=days, name="mixed")

    @dg.asset(key=["mart", "all"], automation_condition=dg.AutomationCondition.missing())
    def alone() -> str:
        return "value"

    pipeline = [made(["sales"], hours), alone]
    with pytest.raises(InvalidInputError, match="would request it without mixed_publish"):
        graveler_definitions(pipeline, resource, name="mixed")
    graveler_definitions(pipeline, resource, publish_adhoc=True, name="mixed")


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
    why = pick(chain, instance, "clean", "chain_publish")
    assert f"Dagster shows a newer readings ({HOURS[0]}) than 'main' has" in why
    for record in list(repo.runs.list(live=True)):
        repo.runs.abandon(record.key)
    why = pick(chain, instance, "clean", "chain_publish")
    assert f"on 'main' notes ({HOURS[0]}) is not, readings ({HOURS[0]}) is not" in why
    assert on_main(repo) == []
    assert pick(chain, instance, "readings", "notes", "clean", "chain_publish") == ""
    assert len(on_main(repo)) == 3


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
    why = pick(chain, instance, "clean", "chain_publish", version="2")
    assert reasons == [""]
    assert f"readings ({HOURS[0]}) has changed since, by run 'dagster __ASSET_JOB(" in why
    assert repo.ref("main").get("readings/2013/01/01/05:00/data") == b"readings 3"
    assert repo.ref("main").get("clean/2013/01/01/05:00/data") == b"clean "
    (parked,) = [run for run in repo.runs.list() if run.live]
    assert f"`graveler run abandon {parked.key!r}`" in why
    repo.runs.abandon(parked.key)
    assert pick(chain, instance, "clean", "chain_publish", version="4") == ""


def test_an_asset_without_its_rolled_back_inputs_stays_back(repo, instance, chain):
    job = chain.resolve_job_def("chain_job")
    assert job.execute_in_process(instance=instance, partition_key=HOURS[0]).success
    (published,) = repo.runs.list()
    repo.runs.rollback(published.key)
    why = pick(chain, instance, "clean", "chain_publish", version="2")
    assert f"readings ({HOURS[0]}) is not" in why
    assert on_main(repo) == []
