"""Pipelines that share a repository: none publishes what its own gates have not judged."""

import dagster as dg
import pytest
from dagster._core.remote_origin import (
    RegisteredCodeLocationOrigin,
    RemoteJobOrigin,
    RemoteRepositoryOrigin,
)

from dagster_graveler import (
    GravelerIOManager,
    build_publish_asset,
)
from graveler.errors import RunStateError

pytestmark = pytest.mark.filterwarnings(
    "ignore:InitResourceContext.dagster_run is deprecated:DeprecationWarning"  # Dagster's own use
)


@dg.asset
def good() -> bytes:
    return b"good"


@dg.asset
def bad() -> bytes:
    return b"bad"


@pytest.fixture
def instance():
    with dg.DagsterInstance.ephemeral() as made:
        yield made


@pytest.fixture
def resources(resource):
    return {"graveler": resource, "io_manager": GravelerIOManager(graveler=resource)}


def on_main(repo):
    return [entry.path for entry in repo.ref("main").entries()]


def in_location(run, name):
    location = RegisteredCodeLocationOrigin(name)
    return run.with_job_origin(RemoteJobOrigin(RemoteRepositoryOrigin(location, "r"), run.job_name))


def test_a_run_of_another_code_location_is_not_taken_over(repo, resource):
    def of(location="", number=[0]):  # noqa: B006 - counts
        number[0] += 1
        run = dg.DagsterRun("job", run_id=str(number[0]), tags={"dagster/partition": "x"})
        return in_location(run, location) if location else run

    with resource.run(of("a")).step("half") as step:
        step.put("half", b"1")
    with pytest.raises(RunStateError, match="for code location 'a', and this is 'b'"):
        resource.run(of("b"))
    assert repo.runs.get("dagster job x").owner == "1"
    resource.run(of("a")).park()  # run again
    with pytest.raises(RunStateError, match="is PARKED, for code location 'a'"):
        resource.run(of("b"))
    resource.run(of())  # from the command line, where nobody knows
    published = resource.run(of("a"))
    published.publish()
    resource.run(of("b"))  # begins anew from main


def test_assets_of_two_scripts_are_not_one_run(repo, instance, resources):
    def broken():
        raise ConnectionError("lost")

    half = dg.asset(name="broken", deps=[good])(broken)

    def materialize(*assets):
        return dg.materialize(
            assets,
            resources=resources,
            instance=instance,
            tags={"dagster/partition": "x"},
            raise_on_error=False,
        )

    assert not materialize(good, half).success
    assert not materialize(good, half).success
    (record,) = repo.runs.list()
    assert record.attempt == 2  # the same script goes on
    assert materialize(bad, build_publish_asset("publish", [bad])).success
    assert on_main(repo) == ["bad/data"]
