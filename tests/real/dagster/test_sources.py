"""Folders of other writers as observable assets, and freshness from commits."""

from datetime import timedelta

import dagster as dg
import pytest

from dagster_graveler import build_freshness_checks, build_source_asset
from graveler.errors import InvalidInputError

pytestmark = pytest.mark.filterwarnings("ignore:Parameter `include_sources`")  # Dagster's own use


def publish(repo, path):
    with repo.run(f"by hand {path}") as run:
        run.put(path, b"1")
    return repo.commit("main")


def observe(source, resource, instance):
    defs = dg.Definitions([source], resources={"graveler": resource})
    job = defs.resolve_implicit_global_asset_job_def()
    result = job.execute_in_process(instance=instance, asset_selection=[source.key])
    (event,) = result.get_asset_observation_events()
    return event.asset_observation_data.asset_observation


def test_a_source_has_the_version_of_the_last_commit_below_it(repo, resource, instance):
    source = build_source_asset(["lake", "input"], "input/")
    assert observe(source, resource, instance).metadata["graveler/files"].value == 0
    commit = publish(repo, "input/a")
    publish(repo, "other/a")
    event = observe(source, resource, instance)
    assert event.tags["dagster/data_version"] == commit.id
    assert event.metadata["dagster/uri"].value == f"grav://flights/{commit.id}/input/"
    assert event.metadata["dagster/last_updated_timestamp"].value == commit.created.timestamp()


def test_an_eager_asset_is_requested_when_the_source_changes(repo, resource, instance):
    source = build_source_asset("feed", "input/")

    @dg.asset(deps=["feed"], automation_condition=dg.AutomationCondition.eager())
    def made(): ...

    defs = dg.Definitions([source, made], resources={"graveler": resource})

    def requested(cursor=None):
        result = dg.evaluate_automation_conditions(defs, instance, cursor=cursor)
        return result, result.get_num_requested(dg.AssetKey("made"))

    publish(repo, "input/a")
    observe(source, resource, instance)
    result, _ = requested()
    observe(source, resource, instance)
    publish(repo, "input/b")
    observe(source, resource, instance)
    result, count = requested(result.cursor)
    assert count == 1


def judge(check, made, resource, instance):
    result = dg.materialize(
        [made, check], instance=instance, resources={"graveler": resource}, raise_on_error=False
    )
    return result.get_asset_check_evaluations()


def test_freshness_is_that_of_the_branch(repo, resource, instance):
    @dg.asset
    def made(): ...

    def judged(within):
        check = build_freshness_checks(["made"], prefix="input/", within=within)
        (evaluation,) = judge(check, made, resource, instance)
        return evaluation

    assert judged(timedelta(hours=1)).description.startswith("nothing was ever published")
    commit = publish(repo, "input/a")
    fresh = judged(timedelta(hours=1))
    assert fresh.passed
    assert fresh.metadata["graveler/commit"].value == commit.id
    stale = judged(timedelta(microseconds=1))
    assert not stale.passed
    assert stale.severity is dg.AssetCheckSeverity.WARN


def test_freshness_checks_that_could_not_tell_are_refused():
    with pytest.raises(InvalidInputError, match="above 0"):
        build_freshness_checks(["made"], prefix="input/", within=timedelta())
    with pytest.raises(InvalidInputError, match="at least one asset"):
        build_freshness_checks([], prefix="input/", within=timedelta(hours=1))
