"""Branches of pull requests: a sensor makes and drops them, separate from production."""

from datetime import timedelta
from typing import Any

import dagster as dg
import pytest

from dagster_graveler import (
    GravelerResource,
    build_branch_sensor,
    build_commit_sensor,
    build_rollback_job,
    build_source_asset,
    deployment_branch,
    graveler_definitions,
)
from graveler.errors import InvalidInputError, RefNotFoundError
from graveler.lake import RunState
from tests.real.dagster.programs.endings import ended

parts = dg.StaticPartitionsDefinition(["x", "y"])


@pytest.fixture
def tick(resource, instance):
    """Evaluate the sensor for the numbers of open pull requests, and keep its cursor."""
    cursors: list[str | None] = [None]

    def evaluate(*numbers, keep=timedelta()):
        context = dg.build_sensor_context(
            instance=instance, resources={"graveler": resource}, cursor=cursors[-1]
        )
        result = build_branch_sensor(lambda: numbers, keep=keep)(context)
        assert isinstance(result, dg.SensorResult)
        cursors.append(result.cursor)

    return evaluate


def branches(repo):
    return [record.name for record in repo.branches()]


def test_each_open_pull_request_has_a_branch_until_it_is_closed(repo, tick):
    for name in ("dev", "pr-7-notes", "xpr-7"):  # people's
        repo.create_branch(name)
    people = ["dev", "main", "pr-7-notes", "xpr-7"]
    tick(7, "8")
    assert branches(repo) == sorted([*people, "pr-7", "pr-8"])
    assert repo.commit("pr-7") == repo.commit("main")
    for _ in range(2):
        tick(8)
        assert branches(repo) == sorted([*people, "pr-8"])
    tick()
    assert branches(repo) == people


def test_a_branch_is_kept_for_a_while_after_its_request(repo, tick):
    hour = timedelta(hours=1)
    tick(7, keep=hour)
    tick(keep=hour)
    assert branches(repo) == ["main", "pr-7"]
    tick(7, keep=hour)  # the pull request was reopened
    tick()
    assert branches(repo) == ["main"]


def test_without_an_answer_nothing_is_dropped(repo, resource, instance, tick):
    def broken():
        raise ConnectionError("GitHub is away")

    tick(7)
    sensor = build_branch_sensor(broken, keep=timedelta())
    with pytest.raises(ConnectionError):
        sensor(dg.build_sensor_context(instance=instance, resources={"graveler": resource}))
    assert branches(repo) == ["main", "pr-7"]


@pytest.mark.parametrize("number", ["../main", "7~1", "", "ma in"])
def test_what_is_no_number_makes_no_branch(repo, tick, number):
    with pytest.raises(InvalidInputError, match="no branch of a pull request"):
        tick(7, number)
    assert branches(repo) == ["main"]


def test_a_deployment_publishes_to_its_own_branch(monkeypatch):
    monkeypatch.delenv("DAGSTER_CLOUD_IS_BRANCH_DEPLOYMENT", raising=False)
    assert deployment_branch() == "main"
    monkeypatch.setenv("DAGSTER_CLOUD_IS_BRANCH_DEPLOYMENT", "1")
    monkeypatch.delenv("DAGSTER_CLOUD_PULL_REQUEST_ID", raising=False)
    with pytest.raises(InvalidInputError, match="without a pull request"):
        deployment_branch()
    monkeypatch.setenv("DAGSTER_CLOUD_PULL_REQUEST_ID", "17")
    assert deployment_branch("review-{n}") == "review-17"


@dg.asset(partitions_def=parts)
def made(context: dg.AssetExecutionContext, graveler: GravelerResource) -> str:
    with graveler.step(context, "beside") as step:
        step.put("beside", graveler.into.encode())
    if graveler.into in broken:
        raise ValueError(f"{graveler.into} is broken")
    return f"of {graveler.into}"


broken: set[str] = set()
"""The targets of the deployments whose asset must fail."""


def deployment(lake):
    return GravelerResource(lake=lake, repository="flights", into="pr-7")


@pytest.fixture
def deploy(lake):
    """Run the job of a deployment; return whether it succeeded."""

    def run(into, partition="x"):
        resource = GravelerResource(lake=lake, repository="flights", into=into)
        job = graveler_definitions([made], resource).resolve_job_def("graveler_job")
        with dg.DagsterInstance.ephemeral() as instance:
            return job.execute_in_process(
                instance=instance, partition_key=partition, raise_on_error=False
            ).success

    return run


def test_a_branch_deployment_leaves_production_as_it_is(repo, tick, deploy):
    tick(7)
    assert deploy("main")
    production = repo.commit("main")
    assert deploy("pr-7")
    assert repo.commit("main") == production
    assert repo.ref("main").get("made/x/data") == b"of main"
    assert repo.ref("pr-7").get("made/x/data") == b"of pr-7"
    broken.add("pr-7")
    try:
        assert not deploy("pr-7", "y")  # does not stop production
    finally:
        broken.clear()
    assert deploy("main", "y")
    assert not repo.ref("pr-7").exists("made/y/data")
    assert deploy("pr-7", "y")
    repo.runs.rollback("dagster graveler_job x into pr-7")
    assert not repo.ref("pr-7").exists("made/x/data")
    assert repo.ref("main").get("made/x/data") == b"of main"
    tick()
    assert branches(repo) == ["main"]


def test_without_a_target_no_asset_is_made(repo, lake):
    made = []

    @dg.asset
    def costly() -> str:
        made.append("an hour of work")
        return "value"

    job = graveler_definitions([costly], deployment(lake)).resolve_job_def("graveler_job")
    before = repo.commit("main")
    with pytest.raises(dg.DagsterResourceFunctionError) as error:
        job.execute_in_process()
    wanted = "no branch 'pr-7', which runs publish to: `graveler undo pr-7`"
    assert wanted in str(error.value.__cause__)
    assert made == []
    assert repo.commit("main") == before


def test_a_run_is_parked_until_its_target_is_back(repo, lake, tick, instance):
    resource, open_requests = deployment(lake), [(), (7,)]

    @dg.asset(partitions_def=parts)
    def written(context: dg.AssetExecutionContext, graveler: GravelerResource) -> None:
        with graveler.step(context) as step:
            step.put("written", b"1")
        tick(*open_requests.pop(0))

    defs = graveler_definitions([written], resource, partitions_def=parts)
    job = defs.resolve_job_def("graveler_job")
    tick(7)
    production = repo.commit("main")
    failed = job.execute_in_process(instance=instance, partition_key="x", raise_on_error=False)
    failure: Any = failed.failure_data_for_node("graveler_publish")
    assert "`graveler undo pr-7` brings it back" in failure.user_failure_data.description
    ended(defs, instance, failed.run_id)
    (record,) = repo.runs.list()
    assert record.state is RunState.PARKED
    assert repo.commit("main") == production

    repo.undo("pr-7")
    assert job.execute_in_process(instance=instance, partition_key="x").success
    assert repo.ref("pr-7").get("written") == b"1"


def test_what_reads_a_dropped_branch_names_the_way_back(lake, instance):
    resource = deployment(lake)
    sensor = build_commit_sensor("commits", asset="feed")
    context = dg.build_sensor_context(instance=instance, resources={"graveler": resource})
    with pytest.raises(RefNotFoundError, match="`graveler undo pr-7` brings it back"):
        sensor(context)
    source = build_source_asset("feed", "in/")
    with pytest.raises(RefNotFoundError, match="`graveler branch create pr-7` makes it"):
        source(dg.build_asset_context(resources={"graveler": resource}))


def test_the_rollback_job_of_a_deployment_leaves_production(repo, tick, deploy, lake):
    tick(7)
    assert deploy("main")
    production = repo.commit("main")
    job = build_rollback_job()

    def roll_back(**config):
        config = {"run": "dagster graveler_job x", **config}
        return job.execute_in_process(
            run_config={"ops": {"graveler_rollback_run": {"config": config}}},
            resources={"graveler": deployment(lake)},
            raise_on_error=False,
        )

    result = roll_back()
    failure = result.failure_data_for_node("graveler_rollback_run")
    assert "has published nothing to 'pr-7'" in failure.user_failure_data.description
    assert repo.commit("main") == production
    assert roll_back(into="main").success
    assert not repo.ref("main").exists("beside")
