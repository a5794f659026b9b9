"""Rollback of a published run, and daily maintenance, as Dagster jobs."""

import dagster as dg
import pytest

from dagster_graveler import build_maintenance_job, graveler_definitions
from graveler.errors import BackendUnavailableError
from tests.real.dagster.programs.looking import on_main, reason

parts = dg.StaticPartitionsDefinition(["x", "y"])
KEY = "dagster graveler_job x"


@pytest.fixture
def defs(resource):
    @dg.asset(partitions_def=parts)
    def made(context: dg.AssetExecutionContext) -> str:
        return f"made for {context.partition_key}"

    return graveler_definitions([made], resource)


@pytest.fixture
def publish(defs, instance):
    def execute(part):
        job = defs.resolve_job_def("graveler_job")
        assert job.execute_in_process(instance=instance, partition_key=part).success

    for part in ("x", "y"):
        execute(part)
    return execute


@pytest.fixture
def roll_back(defs, instance):
    def execute(key=KEY):
        return defs.resolve_job_def("graveler_rollback").execute_in_process(
            instance=instance,
            run_config={"ops": {"graveler_rollback_run": {"config": {"run": key}}}},
            raise_on_error=False,
        )

    return execute


def test_a_published_partition_is_taken_back_in_one_commit(repo, publish, roll_back, instance):
    by_commit = repo.runs.get(KEY).commit
    with repo.run("a reader") as reader:
        reader.put("report", reader.get("made/x/data"))
    assert roll_back().success
    assert on_main(repo) == ["made/y/data", "report"]
    commit = repo.commit("main")
    assert commit.metadata["orchestrator"] == "dagster"
    (made,) = instance.fetch_observations(dg.AssetKey("made"), limit=1).records
    (publishing,) = instance.fetch_observations(dg.AssetKey("graveler_publish"), limit=1).records
    assert made.asset_observation.metadata["graveler/rollback"].value == commit.id
    event = publishing.asset_observation
    assert made.partition_key == event.partition == "x"
    assert event.metadata["graveler/rollback"].value == commit.id
    readers = event.metadata["graveler/readers"].value.records
    assert [record.data["run"] for record in readers] == ["a reader"]
    removed = event.metadata["graveler/diff"].value.records
    assert [record.data["path"] for record in removed] == ["made/x/data"]

    for key in (KEY, by_commit):  # the second time names the commit of the rollback
        assert roll_back(key).success
        assert repo.commit("main").id == commit.id
    publish("x")
    assert on_main(repo) == ["made/x/data", "made/y/data", "report"]


def test_a_rollback_that_cannot_be_fails_and_says_why(repo, publish, roll_back):
    with repo.run("later") as later:
        later.put("made/x/data", b"changed since")
    before = repo.commit("main").id
    _, metadata = reason(roll_back(), "graveler_rollback_run")
    assert metadata["graveler/conflicts"] == ["made/x/data"]
    said, _ = reason(roll_back("dagster unknown"), "graveler_rollback_run")
    assert "dagster unknown" in said
    assert repo.commit("main").id == before


@pytest.fixture
def cut(repo):
    """Two fragments on main."""
    source = repo.create_branch("source")
    for names in ("abcdefgh", "z"):
        source.put_many((f"zz/{name}", b"1") for name in names)
        source.commit(names)
        repo.merge("source", "main")
    repo.packing.set(after=1)
    assert repo.stats().badly_cut > 0
    return repo


@pytest.fixture
def maintain(resource, instance):
    def execute(**given):
        schedule = dg.ScheduleDefinition(
            job=build_maintenance_job(**given), cron_schedule="0 3 * * *"
        )
        defs = dg.Definitions(schedules=[schedule], resources={"graveler": resource})
        return defs.resolve_job_def("graveler_maintenance").execute_in_process(
            instance=instance, raise_on_error=False
        )

    return execute


def test_maintenance_packs_by_the_rule(cut, maintain):
    head = cut.commit("main")
    assert maintain(pack=False, reap=False, gc=False).success
    assert cut.commit("main") == head
    done = maintain()
    assert cut.stats().badly_cut == 0
    (event,) = [event for event in done.all_events if event.is_successful_output]
    metadata = event.step_output_data.metadata
    assert metadata["graveler/packed"].value == {"main": cut.commit("main").id}
    assert metadata["graveler/reaped"].value == []


def test_a_branch_that_fails_fails_the_op_and_is_named(cut, maintain, monkeypatch):
    def broken(*_, **__):
        raise BackendUnavailableError("the storage does not answer")

    monkeypatch.setattr("graveler.lake.maintenance.pack", broken)
    said, metadata = reason(maintain(), "graveler_maintenance_run")
    assert said.startswith("branch 'main': the storage does not answer")
    assert metadata["graveler/packed"] == {}
