"""An ingestion branch as an asset, and the schedule of its hours."""

from datetime import datetime

import dagster as dg
import pytest

from dagster_graveler import build_ingest_asset, build_ingest_schedule
from graveler.gates import gate

pytestmark = pytest.mark.filterwarnings(
    "ignore:Function `JobDefinition.run_request_for_partition`:DeprecationWarning"  # Dagster's
)

HOURS = dg.HourlyPartitionsDefinition(start_date="2013-01-01-00:00", timezone="Europe/Berlin")
BERLIN_SIX = "2013-01-01-06:00"  # 05:00 UTC


@gate
def no_bad_file(candidate):
    return not any(
        change.after and change.path.endswith(".bad") for change in candidate.changes("input/")
    )


@pytest.fixture
def materialize(resource, instance):
    def call(asset, hour=None):
        return dg.materialize(
            [asset],
            resources={"graveler": resource},
            instance=instance,
            partition_key=hour,
            raise_on_error=False,
        )

    return call


def asset(**settings):
    return build_ingest_asset(gates=[no_bad_file], partitions_def=HOURS, **settings)


def shown(result):
    (made,) = result.asset_materializations_for_node("ingest")
    return {name: value.value for name, value in made.metadata.items()}


def test_a_partition_is_the_tick_of_its_hour_in_utc(repo, materialize):
    repo.ingestion().branch.put("input/2013/01/01/05:00/a", b"1")
    repo.ingestion().branch.put("input/2013/01/01/04:00/late", b"1")
    result = materialize(asset(), BERLIN_SIX)
    assert result.success
    metadata = shown(result)
    head = repo.commit("main")
    assert metadata["graveler/hour"] == "2013-01-01T05:00Z"
    assert metadata["graveler/state"] == "published"
    assert metadata["graveler/late"] == ["2013-01-01T04:00Z"]
    assert metadata["graveler/commit"] == head.id
    assert head.metadata["hour"] == "2013-01-01T05:00Z"
    assert head.metadata["dagster.partition"] == BERLIN_SIX
    assert shown(materialize(asset(), BERLIN_SIX))["graveler/commit"] == head.id
    assert repo.commit("main") == head


def test_a_held_hour_fails_and_passes_once_it_is_mended(repo, materialize):
    branch = repo.ingestion().branch
    branch.put("input/2013/01/01/05:00/x.bad", b"1")
    result = materialize(asset(), BERLIN_SIX)
    assert not result.success
    (failure,) = result.get_step_failure_events()
    assert "ingest is held" in failure.step_failure_data.error.message
    assert failure.step_failure_data.user_failure_data.metadata["graveler/state"].value == "held"
    branch.delete("input/2013/01/01/05:00/x.bad")
    assert materialize(asset(), BERLIN_SIX).success


def test_an_hour_without_writes_is_not_materialized_while_held(repo, materialize):
    branch = repo.ingestion().branch
    branch.put("input/2013/01/01/05:00/x.bad", b"1")
    materialize(asset(), BERLIN_SIX)
    result = materialize(asset(), "2013-01-01-07:00")
    assert not result.success
    assert not result.asset_materializations_for_node("ingest")
    branch.delete("input/2013/01/01/05:00/x.bad")
    assert materialize(asset(), BERLIN_SIX).success
    result = materialize(asset(), "2013-01-01-07:00")
    assert shown(result)["graveler/state"] == "empty"


def test_an_hour_that_is_set_aside_is_shown_with_its_branch(repo, materialize):
    repo.ingestion().branch.put("input/2013/01/01/05:00/x.bad", b"1")
    result = materialize(asset(on_refusal="quarantine"), BERLIN_SIX)
    assert result.success
    metadata = shown(result)
    assert metadata["graveler/quarantined"] == ["quarantine-2013-01-01T05-00"]
    assert "no_bad_file" in metadata["graveler/refused"]
    assert "graveler/commit" not in metadata


def test_an_asset_without_partitions_ticks_the_last_full_hour(repo, materialize):
    repo.ingestion("web").branch.put("a", b"1")
    metadata = shown(materialize(build_ingest_asset(branch="web")))
    assert metadata["graveler/state"] == "published"
    assert metadata["graveler/hour"].endswith(":00Z")


@pytest.mark.parametrize(("partitions", "cron"), [(HOURS, "5 * * * *"), (None, "5 * * * *")])
def test_the_schedule_materializes_an_hour_when_it_is_over(resource, instance, partitions, cron):
    made = build_ingest_asset(partitions_def=partitions)
    defs = dg.Definitions(
        assets=[made],
        schedules=[build_ingest_schedule(made, minute=5)],
        resources={"graveler": resource},
    )
    schedule = defs.resolve_schedule_def("ingest_schedule")
    assert schedule.cron_schedule == cron
    assert schedule.job_name == "ingest_schedule_job"
    context = dg.build_schedule_context(
        instance=instance,
        repository_def=defs.get_repository_def(),
        scheduled_execution_time=datetime.fromisoformat("2013-01-01T06:05+00:00"),
    )
    (request,) = schedule.evaluate_tick(context).run_requests or ()
    assert request.partition_key == (BERLIN_SIX if partitions else None)
