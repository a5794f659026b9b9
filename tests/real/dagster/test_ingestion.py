"""Ingestion branches and folders of other writers as assets, and freshness from commits."""

from datetime import datetime, timedelta

import dagster as dg
import pytest

from dagster_graveler import (
    build_freshness_checks,
    build_ingest_asset,
    build_ingest_schedule,
    build_source_asset,
)
from graveler.gates import gate
from tests.real.dagster.programs.looking import reason, shown

pytestmark = [  # Dagster's own uses
    pytest.mark.filterwarnings("ignore:Function `JobDefinition.run_request_for_partition`"),
    pytest.mark.filterwarnings("ignore:Parameter `include_sources`"),
]

HOURS = dg.HourlyPartitionsDefinition(start_date="2013-01-01-00:00", timezone="Europe/Berlin")
BERLIN_SIX = "2013-01-01-06:00"  # 05:00 UTC


@gate
def no_bad_file(candidate):
    return not any(
        change.after and change.path.endswith(".bad") for change in candidate.changes("input/")
    )


@pytest.fixture
def tick(resource, instance):
    """Materialize an hour of the branch; return Dagster's result."""

    def call(hour=None, **settings):
        if hour:
            settings |= {"gates": [no_bad_file], "partitions_def": HOURS}
        return dg.materialize(
            [build_ingest_asset(**settings)],
            resources={"graveler": resource},
            instance=instance,
            partition_key=hour,
            raise_on_error=False,
        )

    return call


def test_a_partition_is_the_tick_of_its_hour_in_utc(repo, tick):
    for path in ("05:00/a", "04:00/late"):
        repo.ingestion().branch.put(f"input/2013/01/01/{path}", b"1")
    metadata = shown(tick(BERLIN_SIX), "ingest")
    head = repo.commit("main")
    assert metadata["graveler/hour"] == "2013-01-01T05:00Z"
    assert metadata["graveler/state"] == "published"
    assert metadata["graveler/late"] == ["2013-01-01T04:00Z"]
    assert metadata["graveler/commit"] == head.id
    assert head.metadata["hour"] == "2013-01-01T05:00Z"
    assert head.metadata["dagster.partition"] == BERLIN_SIX
    assert shown(tick(BERLIN_SIX), "ingest")["graveler/commit"] == head.id
    assert repo.commit("main") == head


def test_a_held_hour_fails_and_passes_once_it_is_mended(repo, tick):
    branch = repo.ingestion().branch
    branch.put("input/2013/01/01/05:00/x.bad", b"1")
    result = tick(BERLIN_SIX)
    assert "ingest is held" in str(result.failure_data_for_node("ingest"))
    assert reason(result, "ingest")[1]["graveler/state"] == "held"
    later = tick("2013-01-01-07:00")  # without writes
    assert not later.success
    assert not later.asset_materializations_for_node("ingest")
    branch.delete("input/2013/01/01/05:00/x.bad")
    assert tick(BERLIN_SIX).success
    assert shown(tick("2013-01-01-07:00"), "ingest")["graveler/state"] == "empty"


def test_an_hour_that_is_set_aside_is_shown_with_its_branch(repo, tick):
    repo.ingestion().branch.put("input/2013/01/01/05:00/x.bad", b"1")
    metadata = shown(tick(BERLIN_SIX, on_refusal="quarantine"), "ingest")
    assert metadata["graveler/quarantined"] == ["quarantine-2013-01-01T05-00"]
    assert "no_bad_file" in metadata["graveler/refused"]
    assert "graveler/commit" not in metadata


def test_an_asset_without_partitions_ticks_the_last_full_hour(repo, tick):
    repo.ingestion("web").branch.put("a", b"1")
    metadata = shown(tick(branch="web"), "ingest")
    assert metadata["graveler/state"] == "published"
    assert metadata["graveler/hour"].endswith(":00Z")


@pytest.mark.parametrize("partitions", [HOURS, None])
def test_the_schedule_materializes_an_hour_when_it_is_over(resource, instance, partitions):
    made = build_ingest_asset(partitions_def=partitions)
    schedules = [build_ingest_schedule(made, minute=5)]
    defs = dg.Definitions(assets=[made], schedules=schedules, resources={"graveler": resource})
    schedule = defs.resolve_schedule_def("ingest_schedule")
    assert schedule.cron_schedule == "5 * * * *"
    assert schedule.job_name == "ingest_schedule_job"
    context = dg.build_schedule_context(
        instance=instance,
        repository_def=defs.get_repository_def(),
        scheduled_execution_time=datetime.fromisoformat("2013-01-01T06:05+00:00"),
    )
    (request,) = schedule.evaluate_tick(context).run_requests or ()
    assert request.partition_key == (BERLIN_SIX if partitions else None)


def publish(repo, path):
    with repo.run(f"by hand {path}") as run:
        run.put(path, b"1")
    return repo.commit("main")


@pytest.fixture
def observe(resource, instance):
    def call(source):
        defs = dg.Definitions([source], resources={"graveler": resource})
        job = defs.resolve_implicit_global_asset_job_def()
        result = job.execute_in_process(instance=instance, asset_selection=[source.key])
        (event,) = result.get_asset_observation_events()
        return event.asset_observation_data.asset_observation

    return call


def test_a_source_has_the_version_of_the_last_commit_below_it(repo, observe):
    source = build_source_asset(["lake", "input"], "input/")
    assert observe(source).metadata["graveler/files"].value == 0
    commit = publish(repo, "input/a")
    publish(repo, "other/a")
    event = observe(source)
    assert event.tags["dagster/data_version"] == commit.id
    assert event.metadata["dagster/uri"].value == f"grav://flights/{commit.id}/input/"
    assert event.metadata["dagster/last_updated_timestamp"].value == commit.created.timestamp()


def test_an_eager_asset_is_requested_when_the_source_changes(repo, resource, instance, observe):
    source = build_source_asset("feed", "input/")

    @dg.asset(deps=["feed"], automation_condition=dg.AutomationCondition.eager())
    def made(): ...

    defs = dg.Definitions([source, made], resources={"graveler": resource})
    cursor, counts = None, []
    for path in ("input/a", "input/b"):
        publish(repo, path)
        observe(source)
        result = dg.evaluate_automation_conditions(defs, instance, cursor=cursor)
        cursor = result.cursor
        counts.append(result.get_num_requested(made.key))
        observe(source)
    assert counts[1] == 1


def test_freshness_is_that_of_the_branch(repo, resource, instance):
    @dg.asset
    def made(): ...

    def judged(within):
        check = build_freshness_checks(["made"], prefix="input/", within=within)
        result = dg.materialize(
            [made, check],
            instance=instance,
            resources={"graveler": resource},
            raise_on_error=False,
        )
        (evaluation,) = result.get_asset_check_evaluations()
        return evaluation

    assert judged(timedelta(hours=1)).description.startswith("nothing was ever published")
    commit = publish(repo, "input/a")
    fresh = judged(timedelta(hours=1))
    assert fresh.passed
    assert fresh.metadata["graveler/commit"].value == commit.id
    stale = judged(timedelta(microseconds=1))
    assert not stale.passed
    assert stale.severity is dg.AssetCheckSeverity.WARN
