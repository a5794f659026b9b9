"""Pipelines that share a repository: none publishes files that its own gates have not judged."""

import dagster as dg
import pytest
from dagster._core.remote_origin import (
    RegisteredCodeLocationOrigin,
    RemoteJobOrigin,
    RemoteRepositoryOrigin,
)

from dagster_graveler import (
    GravelerIOManager,
    build_lifecycle_sensors,
    build_publish_asset,
    graveler_definitions,
)
from graveler.errors import RunStateError
from graveler.gates import gate
from tests.real.dagster.programs.endings import ended
from tests.real.dagster.programs.looking import on_main, reason


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
def resources(resource):
    return {"graveler": resource, "io_manager": GravelerIOManager(graveler=resource)}


@pytest.fixture
def both(resource, resources):
    """Two pipelines in one code location."""
    manager = resources["io_manager"]
    return dg.Definitions.merge(
        graveler_definitions(
            [good], resource, io_manager=manager, name="one", publish_adhoc=True, gates=[anything]
        ),
        graveler_definitions([bad], resource, io_manager=manager, name="two", gates=[nothing_bad]),
    )


def pick(defs, instance, *names, checks=None):
    """Materialize selected assets."""
    by_hand = defs.resolve_implicit_global_asset_job_def()
    subset = by_hand.get_subset(
        asset_selection={dg.AssetKey(name) for name in names}, asset_check_selection=checks
    )
    return subset.execute_in_process(instance=instance, raise_on_error=False)


def look(defs, instance, result):
    """Evaluate every sensor of ended runs for one run, as the daemon does."""
    for name in sorted({sensor.name.partition("_park")[0] for sensor in defs.sensors}):
        if not name.endswith("_reaper"):
            ended(defs, instance, result.run_id, name=name)


def states(repo):
    return [record.state for record in repo.runs.list()]


def test_two_publishing_assets_in_one_run_are_refused_first(repo, instance, resources):
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
        said = reason(result, name)[0]
        assert "assets publish_bad and publish_good are in one Dagster run" in said
    assert on_main(repo) == []
    result = pick(defs, instance, "good", "bad", "publish_good")
    assert "holds what bad wrote" in reason(result, "publish_good")[0]
    assert "only good may be published" in reason(result, "publish_good")[0]
    assert on_main(repo) == []
    assert pick(defs, instance, "good", "publish_good").success
    assert on_main(repo) == ["good/data"]


def test_a_publish_that_gates_did_not_judge_is_no_success(repo, resource, instance, resources):
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
    assert "gates nothing_bad did not judge it" in reason(result, "publish")[0]
    assert execute(anything).success
    assert execute(nothing_bad, anything).success  # the run changed nothing


def test_assets_of_another_pipeline_are_not_published_nor_parked(repo, instance, both):
    result = pick(both, instance, "bad", checks=set())
    assert result.success
    (one, two) = (
        dg.Definitions(sensors=[sensor], resources=both.resources)
        for sensor in sorted(both.sensors, key=lambda sensor: sensor.name)
        if sensor.name.endswith("_unpublished")
    )
    look(one, instance, result)
    assert (on_main(repo), states(repo)) == ([], ["OPEN"])
    look(two, instance, result)
    assert (on_main(repo), states(repo)) == ([], ["PARKED"])


@pytest.mark.parametrize(
    ("picked", "found", "state"),
    [(["good", "bad"], [], "PARKED"), (["good"], ["good/data"], "PUBLISHED")],
    ids=["of two pipelines", "of one"],
)
def test_a_pipeline_publishes_only_its_own_assets(repo, instance, both, picked, found, state):
    look(both, instance, pick(both, instance, *picked, checks=set()))
    assert (on_main(repo), states(repo)) == (found, [state])


def test_a_resumed_run_with_other_assets_is_not_published(repo, instance, resources):
    sensors = build_lifecycle_sensors(
        publish_adhoc=True, gates=[anything], assets=[dg.AssetKey("good")]
    )
    job = dg.define_asset_job("job", [good, bad])
    defs = dg.Definitions([good, bad], jobs=[job], sensors=sensors, resources=resources)

    def execute(name):
        return defs.resolve_job_def("job").execute_in_process(
            instance=instance,
            asset_selection=[dg.AssetKey(name)],
            tags={"dagster/partition": "x"},
        )

    execute("bad")
    look(defs, instance, execute("good"))
    (record,) = repo.runs.list()
    assert (on_main(repo), record.state) == ([], "PARKED")
    assert "holds what bad wrote" in record.reason


def test_checks_without_assets_do_not_hide_what_was_refused(repo, instance, both):
    failed = both.resolve_job_def("two_job").execute_in_process(
        instance=instance, raise_on_error=False
    )
    assert not failed.success
    before = list(repo.runs.list())
    check = dg.AssetCheckKey(dg.AssetKey("bad"), "nothing_bad")
    result = pick(both, instance, checks={check})
    assert not result.success
    assert result.get_asset_check_evaluations() == []
    assert "makes no asset: there is nothing to judge" in reason(result, "two_gates_bad")[0]
    assert list(repo.runs.list()) == before


def test_a_check_judges_a_run_that_changes_nothing(instance, both, repo):
    job = both.resolve_job_def("one_job")
    assert job.execute_in_process(instance=instance).success
    again = job.execute_in_process(instance=instance)
    (check,) = again.get_asset_check_evaluations()
    assert check.passed
    assert not check.description
    assert "graveler/seconds" in check.metadata


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
    resource.run(of("a")).park()  # the run is opened again
    with pytest.raises(RunStateError, match="is PARKED, for code location 'a'"):
        resource.run(of("b"))
    resource.run(of())  # from the command line, without a Dagster run
    published = resource.run(of("a"))
    published.publish()
    resource.run(of("b"))  # a new round from main


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
    assert record.attempt == 2  # the attempt of the same script continues
    assert materialize(bad, build_publish_asset("publish", [bad])).success
    assert on_main(repo) == ["bad/data"]
