"""External problems: the error is clear, main does not change, and the next attempt works."""

from contextlib import suppress

import dagster as dg
import pytest

from dagster_graveler import GravelerIOManager, GravelerResource, build_publish_asset
from dagster_graveler.resource import forget_runs
from graveler.errors import (
    BackendUnavailableError,
    FencedError,
    InvalidInputError,
    RepositoryNotFoundError,
)
from graveler.gates import gate
from graveler.lake.shared import close_lakes
from graveler.refs.mover import remove

parts = dg.StaticPartitionsDefinition(["x", "hour é 05:00 / ~^@ \N{SNOWMAN}"])


@pytest.fixture
def execute(instance, lake):
    """Make and publish one asset whose body may do anything to the lake."""

    def run(body, *, partition="x", gates=(), **settings):
        resource = GravelerResource(lake=lake, repository="flights", **settings)

        @dg.asset(partitions_def=parts)
        def made(context: dg.AssetExecutionContext, graveler: GravelerResource) -> None:
            body(context, graveler)

        publish = build_publish_asset("publish", [made], gates=gates, partitions_def=parts)
        defs = dg.Definitions(
            [made, publish],
            jobs=[dg.define_asset_job("job")],
            resources={"graveler": resource, "io_manager": GravelerIOManager(graveler=resource)},
        )
        job = defs.resolve_job_def("job")
        return job.execute_in_process(instance=instance, partition_key=partition)

    return run


def write(context, graveler):
    with graveler.step(context) as step:
        step.put("made", b"1")


def paths(repo):
    return [entry.path for entry in repo.ref("main").entries()]


def test_a_run_branch_that_somebody_deleted(repo, execute):
    def body(context, graveler):
        write(context, graveler)
        remove(repo.stores.refs, graveler.run(context).branch, lambda _: True)

    with pytest.raises(FencedError, match="was deleted"):
        execute(body)
    assert paths(repo) == []
    assert execute(write).success
    assert paths(repo) == ["made"]


def test_a_run_that_another_has_taken_over(repo, execute):
    def body(context, graveler):
        with graveler.step(context) as step:
            repo.runs.open(graveler.run(context).key)
            step.put("stale", b"1")

    with pytest.raises(FencedError):
        execute(body)
    assert paths(repo) == []
    assert execute(write).success
    assert paths(repo) == ["made"]


def test_a_partition_of_an_odd_name(repo, execute):
    odd = parts.get_partition_keys()[1]
    assert execute(write, partition=odd).success
    commit = repo.commit("main")
    assert commit.metadata["dagster.partition"] == odd
    assert repo.runs.get(commit.metadata["graveler.run"]).state == "PUBLISHED"


def test_a_lake_that_is_briefly_missing(repo, execute, tmp_path):
    away = tmp_path / "away"

    def body(context, graveler):
        write(context, graveler)
        (tmp_path / "lake").rename(away)
        (tmp_path / "lake").mkdir()  # an empty mount point
        graveler.step(context)

    with pytest.raises(BackendUnavailableError, match="is its volume mounted"):
        execute(body)
    assert list((tmp_path / "lake").iterdir()) == []  # no lake was created there
    (tmp_path / "lake").rmdir()
    away.rename(tmp_path / "lake")
    forget_runs()
    close_lakes()  # as in a new process
    assert execute(write).success


def test_a_second_step_of_one_name_in_a_try(repo, execute):
    def body(context, graveler):
        for hour in ("05:00", "06:00"):
            with graveler.step(context) as step:
                step.put(hour, b"1")

    with pytest.raises(InvalidInputError, match=r"'made' was done already in this try.*name="):
        execute(body)
    assert paths(repo) == []

    def named(context, graveler):
        for hour in ("05:00", "06:00"):
            with graveler.step(context, name=hour) as step:
                step.put(hour, b"1")

    assert execute(named).success
    assert paths(repo) == ["05:00", "06:00"]


def test_a_failed_step_may_be_tried_again_in_the_same_function(repo, execute):
    def body(context, graveler):
        with suppress(ConnectionError), graveler.step(context) as step:
            step.put("half", b"1")
            raise ConnectionError("lost")
        write(context, graveler)

    assert execute(body).success
    assert paths(repo) == ["made"]


def test_a_missing_repository(repo, lake, instance):
    resource = GravelerResource(lake=lake, repository="fights")

    @dg.asset
    def made() -> str:
        return "1"

    with pytest.raises(dg.DagsterResourceFunctionError) as error:
        dg.materialize(
            [made],
            instance=instance,
            resources={"io_manager": GravelerIOManager(graveler=resource)},
        )
    assert isinstance(error.value.__cause__, RepositoryNotFoundError)
    assert "fights" in str(error.value.__cause__)


def test_a_run_that_waits_for_another_target_stops_no_other(repo, execute):
    repo.create_branch("dev")

    def broken(context, graveler):
        write(context, graveler)
        raise ConnectionError("lost")

    with pytest.raises(ConnectionError):
        execute(broken, into="dev")
    assert execute(write).success
    assert paths(repo) == ["made"]


@pytest.mark.parametrize(
    ("judged", "message"),
    [(lambda candidate: 1 / 0, "ZeroDivisionError"), (lambda candidate: "no", "no")],
    ids=["dies", "refuses"],
)
def test_a_gate_that_does_not_let_through(repo, execute, judged, message):
    with pytest.raises(dg.Failure) as failure:
        execute(write, gates=[gate("strict")(judged)])
    assert message in str(failure.value.description)
    assert failure.value.metadata["graveler/branch"].value == next(repo.runs.list("PARKED")).branch
    assert paths(repo) == []
    assert execute(write).success
