"""Rollback of a published run from Dagster."""

import dagster as dg
import pytest

from dagster_graveler import GravelerIOManager, graveler_definitions

parts = dg.StaticPartitionsDefinition(["x", "y"])
KEY = "dagster graveler_job x"


@pytest.fixture
def defs(resource):
    @dg.asset(partitions_def=parts)
    def made(context: dg.AssetExecutionContext) -> str:
        return f"made for {context.partition_key}"

    return graveler_definitions(
        [made],
        resource,
        partitions_def=parts,
        io_manager=GravelerIOManager(graveler=resource),
    )


@pytest.fixture
def publish(defs, instance):
    for part in ("x", "y"):
        job = defs.resolve_job_def("graveler_job")
        assert job.execute_in_process(instance=instance, partition_key=part).success


@pytest.fixture
def roll_back(defs, instance):
    def execute(key=KEY):
        return defs.resolve_job_def("graveler_rollback").execute_in_process(
            instance=instance,
            run_config={"ops": {"graveler_rollback_run": {"config": {"run": key}}}},
            raise_on_error=False,
        )

    return execute


def paths(repo):
    return [entry.path for entry in repo.ref("main").entries()]


def test_a_published_partition_is_taken_back_in_one_commit(repo, publish, roll_back, instance):
    by_commit = repo.runs.get(KEY).commit
    with repo.run("a reader") as reader:
        reader.put("report", reader.get("made/x/data"))
    assert roll_back().success
    assert paths(repo) == ["made/y/data", "report"]
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

    assert roll_back().success  # the second time names the commit of the rollback
    assert repo.commit("main").id == commit.id
    assert roll_back(by_commit).success
    assert repo.commit("main").id == commit.id


def test_later_changes_fail_the_rollback_and_are_named(repo, publish, roll_back):
    with repo.run("later") as later:
        later.put("made/x/data", b"changed since")
    before = repo.commit("main").id
    result = roll_back()
    assert not result.success
    failure = result.failure_data_for_node("graveler_rollback_run").user_failure_data
    assert failure.metadata["graveler/conflicts"].value == ["made/x/data"]
    assert repo.commit("main").id == before


def test_a_partition_is_rolled_back_beside_a_parked_attempt(repo, publish, roll_back):
    published = repo.runs.get(KEY).commit
    repo.runs.open(KEY).park("one asset was run alone")
    result = roll_back()
    assert result.success
    metadata = result.all_node_events
    assert paths(repo) == ["made/y/data"]
    record = repo.runs.get(KEY)
    assert (record.state, record.attempt, record.published) == ("PARKED", 2, None)
    (output,) = [event for event in metadata if event.is_successful_output]
    values = {key: value.value for key, value in output.step_output_data.metadata.items()}
    assert values["graveler/published"] == published
    assert (values["graveler/attempt"], values["graveler/state"]) == (1, "PARKED")


def test_a_missing_run_is_a_clear_failure(repo, roll_back):
    result = roll_back("dagster unknown")
    assert not result.success
    failure = result.failure_data_for_node("graveler_rollback_run").user_failure_data
    assert "dagster unknown" in failure.description


def test_a_partition_taken_back_can_be_made_again(repo, publish, roll_back, defs, instance):
    assert roll_back().success
    job = defs.resolve_job_def("graveler_job")
    assert job.execute_in_process(instance=instance, partition_key="x").success
    assert paths(repo) == ["made/x/data", "made/y/data"]
