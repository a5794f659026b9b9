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
from graveler.gates import gate

pytestmark = pytest.mark.filterwarnings(
    "ignore:InitResourceContext.dagster_run is deprecated:DeprecationWarning"  # Dagster's own use
)


@dg.asset
def good() -> bytes:
    return b"good"


@dg.asset
def bad() -> bytes:
    return b"bad"


@gate(prefix="bad/")
def nothing_bad(candidate):
    return not list(candidate.changes("bad/")) or "it is bad"


@gate
def anything(candidate):
    return True


@pytest.fixture
def instance():
    with dg.DagsterInstance.ephemeral() as made:
        yield made


@pytest.fixture
def resources(resource):
    return {"graveler": resource, "io_manager": GravelerIOManager(graveler=resource)}


def pick(defs, instance, *names, checks=None):
    """Materialize assets picked by hand."""
    by_hand = defs.resolve_implicit_global_asset_job_def()
    subset = by_hand.get_subset(
        asset_selection={dg.AssetKey(name) for name in names}, asset_check_selection=checks
    )
    return subset.execute_in_process(instance=instance, raise_on_error=False)


def on_main(repo):
    return [entry.path for entry in repo.ref("main").entries()]


def said(result, step):
    failure = result.failure_data_for_node(step)
    return failure.user_failure_data.description


def test_two_publishing_assets_in_one_run_are_refused_before_anything_moves(
    repo, instance, resources
):
    defs = dg.Definitions(
        [
            good,
            bad,
            build_publish_asset("publish_good", [good]),
            build_publish_asset("publish_bad", [bad], gates=[nothing_bad]),
        ],
        resources=resources,
    )
    result = pick(defs, instance, "good", "bad", "publish_good", "publish_bad")
    for name in ("publish_good", "publish_bad"):
        assert "assets publish_bad and publish_good are in one Dagster run" in said(result, name)
    assert on_main(repo) == []
    assert pick(defs, instance, "good", "publish_good").success
    assert on_main(repo) == ["good/data"]


def test_a_publishing_asset_leaves_what_none_of_its_assets_wrote(repo, instance, resources):
    defs = dg.Definitions([good, bad, build_publish_asset("publish", [good])], resources=resources)
    result = pick(defs, instance, "good", "bad", "publish")
    assert "holds what bad wrote" in said(result, "publish")
    assert "only good may be published" in said(result, "publish")
    assert on_main(repo) == []


def test_what_is_upstream_of_the_named_assets_is_published_with_them(repo, instance, resources):
    @dg.asset
    def raw() -> bytes:
        return b"raw"

    @dg.asset(deps=[raw])
    def refined() -> bytes:
        return b"refined"

    publish = build_publish_asset("publish", [refined])
    assert dg.materialize([raw, refined, publish], resources=resources, instance=instance).success
    assert on_main(repo) == ["raw/data", "refined/data"]


def test_published_already_is_no_success_where_its_own_gates_were_not_asked(
    repo, resource, instance, resources
):
    @dg.asset
    def hasty(context: dg.AssetExecutionContext) -> None:
        run = resource.run(context)
        with run.step("hasty") as step:
            step.put("hasty", b"1")
        run.publish([anything])

    def execute(*gates):
        return dg.materialize(
            [hasty, build_publish_asset("publish", [hasty], gates=gates)],
            resources=resources,
            instance=instance,
            raise_on_error=False,
        )

    result = execute(nothing_bad)
    assert "gates nothing_bad were not asked" in said(result, "publish")
    assert execute(anything).success
    assert execute(nothing_bad, anything).success  # it has changed nothing


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
