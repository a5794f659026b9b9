"""Daily maintenance as a Dagster job."""

import dagster as dg
import pytest

from dagster_graveler import build_maintenance_job
from graveler.errors import BackendUnavailableError


@pytest.fixture
def cut(repo):
    """Two fragments on main."""
    source = repo.create_branch("source")
    for names in ("abcdefgh", "z"):
        source.put_many((f"zz/{name}", b"1") for name in names)
        source.commit(names)
        repo.merge("source", "main")
    repo.packing.set(after=1)
    return repo


@pytest.fixture
def run(resource, instance):
    def execute(job):
        defs = dg.Definitions(jobs=[job], resources={"graveler": resource})
        return defs.resolve_job_def(job.name).execute_in_process(
            instance=instance, raise_on_error=False
        )

    return execute


def test_maintenance_packs_by_the_rule(cut, run):
    assert cut.stats().badly_cut > 0
    done = run(build_maintenance_job())
    assert done.success
    assert cut.stats().badly_cut == 0
    (event,) = [event for event in done.all_events if event.is_successful_output]
    metadata = event.step_output_data.metadata
    assert metadata["graveler/packed"].value == {"main": cut.commit("main").id}
    assert metadata["graveler/reaped"].value == []


def test_a_part_that_is_left_out_does_nothing(cut, run):
    head = cut.commit("main")
    assert run(build_maintenance_job(pack=False, reap=False, gc=False)).success
    assert cut.commit("main") == head


def test_a_branch_that_fails_fails_the_op_and_is_named(cut, run, monkeypatch):
    def broken(*_, **__):
        raise BackendUnavailableError("the storage does not answer")

    monkeypatch.setattr("graveler.lake.maintenance.pack", broken)
    done = run(build_maintenance_job())
    assert not done.success
    (event,) = [event for event in done.all_events if event.is_step_failure]
    failure = event.step_failure_data.user_failure_data
    assert failure.description.startswith("branch 'main': the storage does not answer")
    assert failure.metadata["graveler/packed"].value == {}


def test_the_job_takes_a_schedule(resource):
    schedule = dg.ScheduleDefinition(job=build_maintenance_job(), cron_schedule="0 3 * * *")
    defs = dg.Definitions(schedules=[schedule], resources={"graveler": resource})
    assert defs.resolve_job_def("graveler_maintenance").name == schedule.job_name
