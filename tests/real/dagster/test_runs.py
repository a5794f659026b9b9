"""Dagster runs that succeed, fail, are killed, retried and executed again."""

import os
import signal
import subprocess
import sys
from contextlib import suppress

import dagster as dg
import pytest

from dagster_graveler import build_lifecycle_sensors
from graveler.base.clock import SystemClock
from tests.real.dagster.programs.endings import ended
from tests.real.dagster.programs.flights import ROOT
from tests.real.dagster.programs.looking import failed_steps, shown, tree
from tests.real.dagster.programs.pipelines import (
    definitions,
    job,
    parts,
    plain,
    reported,
)

KEY = "dagster graveler_job x"
WHOLE = {
    "both/x/data": "left of x and right",
    "both/x/try 0": "1",
    "left/x/data": "left of x",
    "right/x/data": "right",
}
IN_PROCESS: dict[str, object] = {"execution": {"config": {"in_process": {}}}}


@pytest.fixture(autouse=True)
def folder(tmp_path, lake, monkeypatch):
    monkeypatch.setenv("TEST_FOLDER", str(tmp_path))
    monkeypatch.setenv("TEST_LAKE", lake)
    return tmp_path


@pytest.fixture
def defs():
    return definitions()


def branches(repo):
    return [branch.name for branch in repo.branches(hidden=True)]


def ran(folder):
    file = folder / "ran"
    names = file.read_text().split() if file.exists() else []
    file.unlink(missing_ok=True)
    return sorted(names)


@pytest.fixture
def run(instance):
    def execute(partition="x", **given):
        return job().execute_in_process(
            instance=instance, partition_key=partition, raise_on_error=False, **given
        )

    return execute


def again(instance, result, make=job):
    return dg.execute_job(
        dg.reconstructable(make),
        instance=instance,
        run_config=IN_PROCESS,
        tags=instance.get_run_by_id(result.run_id).tags,  # with the partition, as in Dagster's UI
        reexecution_options=dg.ReexecutionOptions.from_failure(result.run_id, instance),
    )


def test_a_run_is_published_as_one_commit_that_names_it(repo, run, instance, defs):
    before = repo.commit("main")
    result = run()
    assert result.success
    assert tree(repo.ref("main")) == WHOLE
    commit = repo.commit("main")
    assert commit.parents[0] == before.id
    named = {"dagster.run_id": result.run_id, "dagster.partition": "x", "graveler.run": KEY}
    assert named.items() <= commit.metadata.items()
    assert branches(repo) == ["main"]
    (publishing,) = result.asset_materializations_for_node("graveler_publish")
    assert publishing.metadata["graveler/commit"].value == commit.id
    assert publishing.tags is not None
    assert publishing.tags["dagster/data_version"] == commit.id
    output = shown(result, "left")
    assert output["graveler/branch"] == repo.runs.get(KEY).branch
    assert (output["graveler/paths"], output["graveler/files"]) == (["left/x/data"], 1)
    assert repo.commit(output["graveler/commit"]).metadata["graveler.step"] == "left:result"
    assert "is PUBLISHED" in ended(defs, instance, result.run_id)  # nothing to park
    assert repo.runs.get(KEY).state == "PUBLISHED"


@pytest.mark.parametrize("where", ["raise", "raise inside"])
def test_a_retry_replaces_the_work_of_the_try_before_it(repo, run, folder, where):
    assert run().success
    assert ran(folder) == ["both", "left", "right"]
    (folder / where).touch()  # inside its step, or after its step has joined the run
    assert run().success
    assert ran(folder) == ["both", "both", "left", "right"]
    second = {path.replace("try 0", "try 1"): body for path, body in WHOLE.items()}
    assert tree(repo.ref("main")) == second
    assert repo.runs.get(KEY).attempt == 2


def test_a_blocking_check_stops_publishing_and_the_run_is_parked(repo, run, instance, defs, folder):
    (folder / "refuse").touch()
    result = run()
    assert failed_steps(result) == ["right_is_right"]
    assert tree(repo.ref("main")) == {}
    record = repo.runs.get(KEY)
    assert record.state == "PARKED"
    assert f"Dagster run {result.run_id} failed in right_is_right" in record.reason
    # the branch can be read; assets that wait for the checked asset were not made
    assert sorted(tree(repo.ref(record.branch))) == ["left/x/data", "right/x/data"]
    ended(defs, instance, result.run_id)  # the hook has already parked the run
    assert repo.runs.get(KEY) == record


def test_executing_a_failed_run_again_resumes_the_parked_branch(repo, run, instance, defs, folder):
    (folder / "refuse").touch()
    failed = run()
    ended(defs, instance, failed.run_id)
    ran(folder)
    result = again(instance, failed)
    assert result.success
    assert ran(folder) == ["both"]  # the others had succeeded before
    assert tree(repo.ref("main")) == WHOLE
    record = repo.runs.get(KEY)
    assert (record.state, record.attempt) == ("PUBLISHED", 2)
    assert record.metadata["dagster.root_run_id"] == failed.run_id
    assert "a newer run has superseded it" in ended(defs, instance, failed.run_id)


def test_steps_are_rerun_if_the_branch_lost_their_work(repo, run, instance, defs, folder):
    (folder / "refuse").touch()
    failed = run()
    repo.runs.abandon(KEY)
    for _ in range(2):
        failed = again(instance, failed)
        assert not failed.success
        assert "is REAPED, attempt 1" in str(failed.all_events)
        assert "re-execute all steps" in str(failed.all_events)
        ended(defs, instance, failed.run_id)
    assert tree(repo.ref("main")) == {}
    assert run().success
    assert tree(repo.ref("main")) == WHOLE


def test_a_re_execution_of_one_that_never_began_resumes(repo, run, instance, folder):
    (folder / "refuse").touch()
    failed = run()
    begun = instance.create_run_for_job(
        job(),
        parent_run_id=failed.run_id,
        root_run_id=failed.run_id,
        tags={"dagster/partition": "x"},
        status=dg.DagsterRunStatus.NOT_STARTED,
    )
    plan = instance.get_execution_plan_snapshot(begun.execution_plan_snapshot_id)
    assert plan.steps
    instance.report_run_failed(begun)
    result = dg.execute_job(
        dg.reconstructable(job),
        instance=instance,
        run_config=IN_PROCESS,
        tags={"dagster/partition": "x"},
        reexecution_options=dg.ReexecutionOptions(
            begun.run_id, step_selection=["both", "graveler_publish"]
        ),
    )
    assert result.success
    assert tree(repo.ref("main")) == WHOLE


def test_what_failed_after_publishing_is_executed_again_alone(repo, instance, folder):
    publishes = reported()
    (folder / "raise").touch()
    failed = publishes.execute_in_process(instance=instance, raise_on_error=False)
    assert failed_steps(failed) == ["second"]
    (folder / "ran").unlink()
    result = again(instance, failed, reported)
    assert result.success
    whole = tree(repo.ref("main"))
    assert len(whole) == 3
    (folder / "ran").unlink()
    (folder / "write").touch()
    failed = publishes.execute_in_process(instance=instance, raise_on_error=False)
    assert failed_steps(failed) == ["report"]
    assert "needs a run of its own" in str(failed.all_events)
    (folder / "ran").unlink()
    assert again(instance, failed, reported).success  # main has the skipped assets
    assert not (folder / "ran").exists()
    assert tree(repo.ref("main")) == whole


@pytest.mark.parametrize("canceled", [False, True])
def test_a_run_that_does_not_publish_is_set_aside(repo, instance, defs, run, canceled):
    result = run(asset_selection=[dg.AssetKey("left")])
    assert result.success
    assert repo.runs.get(KEY).state == "OPEN"
    if canceled:
        dagster_run = instance.get_run_by_id(result.run_id)
        instance.report_run_canceling(dagster_run)
        instance.report_run_canceled(dagster_run)
    ended(defs, instance, result.run_id)
    record = repo.runs.get(KEY)
    assert (record.state, tree(repo.ref(record.branch))) == ("PARKED", {"left/x/data": "left of x"})
    assert tree(repo.ref("main")) == {}


def test_a_run_with_steps_left_is_not_parked(repo, run_job):
    @dg.asset
    def first() -> str:
        raise ConnectionError("lost")

    @dg.asset
    def second() -> str:
        return "kept"

    assert failed_steps(run_job([first, second], raise_on_error=False)) == ["first"]
    (record,) = repo.runs.list()
    assert (record.state, record.attempt) == ("PARKED", 1)
    assert tree(repo.ref(record.branch)) == {"second/data": "kept"}


def test_a_gate_that_refuses_stops_publishing_as_a_check(repo, run):
    with repo.run("another") as another:
        another.put("forbidden", b"1")
    result = run()
    assert failed_steps(result) == ["graveler_publish"]
    assert tree(repo.ref("main")) == {"forbidden": "1"}
    checks = {check.check_name: check for check in result.get_asset_check_evaluations()}
    assert checks["not_too_much"].asset_key == dg.AssetKey("graveler_publish")
    assert (checks["not_too_much"].passed, checks["is_right"].passed) == (False, True)
    assert checks["not_too_much"].description == "forbidden"


def test_a_run_that_failed_before_writing_leaves_its_forerunner(repo, resource, instance, make):
    defs = dg.Definitions(sensors=build_lifecycle_sensors(), resources={"graveler": resource})

    @dg.asset(partitions_def=parts)
    def fragile() -> str:
        if list(repo.runs.list("PUBLISHED")):
            raise ConnectionError("lost")
        return "whole"

    assert make(fragile, partition="x").success
    before = list(repo.runs.list())
    failed = make(fragile, partition="x", raise_on_error=False)
    assert "has no branch" in ended(defs, instance, failed.run_id)
    assert list(repo.runs.list()) == before


@pytest.mark.crash
def test_steps_in_processes_share_the_run_a_killed_one_reruns(repo, defs, folder, tmp_path):
    (tmp_path / "home").mkdir()
    (folder / "kill").touch()
    loaded = {"preload_modules": ["tests.real.dagster.programs.pipelines"]}
    forking = {"max_concurrent": 2, "start_method": {"forkserver": loaded}}
    with dg.DagsterInstance.local_temp(str(tmp_path / "home")) as instance:
        failed = dg.execute_job(
            dg.reconstructable(job),
            instance=instance,
            run_config={"execution": {"config": {"multiprocess": forking}}},
            tags={"dagster/partition": "x"},
        )
        assert not failed.success
        assert ran(folder) == ["both", "both", "left", "right"]  # a try and its retry, both killed
        (folder / "kill").unlink()
        record = repo.runs.get(KEY)
        assert (record.state, record.attempt) == ("OPEN", 1)  # no process has fenced another
        assert sorted(tree(repo.ref(record.branch))) == ["left/x/data", "right/x/data"]
        ended(defs, instance, failed.run_id)
        assert branches(repo) == ["main", record.branch]  # partial writes are gone

        result = again(instance, failed)
    assert result.success
    assert ran(folder) == ["both"]
    assert tree(repo.ref("main")) == WHOLE
    assert repo.commit("main").metadata["graveler.attempt"] == "2"


def until(what, process):
    """Wait until a file exists, and fail if the process that should make it has ended."""
    clock = SystemClock()
    while not what.exists():
        assert process is None or process.poll() is None, process.stderr.read()[-2000:]
        clock.sleep(0.05)


@pytest.mark.crash
def test_an_orphaned_step_cannot_write_into_the_next_attempt(repo, instance, folder):
    (folder / "home").mkdir()
    (folder / "wait").touch()
    worker = subprocess.Popen(
        [sys.executable, "-m", "tests.real.dagster.programs.worker", str(folder / "home")],
        cwd=ROOT,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    with worker:
        try:
            until(folder / "waiting", worker)
        finally:
            worker.kill()
        assert worker.stderr is not None
        worker.stderr.close()
    orphan = int((folder / "waiting").read_text())
    try:
        os.kill(orphan, 0)  # the orphan is alive, and holds a step of attempt 1
        result = plain().execute_in_process(instance=instance, tags={"dagster/partition": "x"})
        assert result.success
        whole = tree(repo.ref("main"))
        assert sorted(whole) == ["first/beside", "plain/first/data", "plain/second/data"]
        (folder / "go on").touch()
        until(folder / "fenced", None)
    finally:
        with suppress(ProcessLookupError):
            os.kill(orphan, signal.SIGKILL)
    assert tree(repo.ref("main")) == whole
    assert repo.runs.get("dagster plain_job x").attempt == 2
    assert branches(repo) == ["main"]


def test_a_run_without_a_partition_is_found_by_its_re_execution(repo, instance, folder):
    (folder / "raise").touch()
    failed = plain().execute_in_process(instance=instance, raise_on_error=False)
    assert failed_steps(failed) == ["second"]
    assert tree(repo.ref("main")) == {}
    assert again(instance, failed, plain).success
    assert ran(folder) == ["first", "second", "second"]
    assert tree(repo.ref("main")) == {
        "first/beside": "1",
        "plain/first/data": "first",
        "plain/second/data": "second",
    }
    (record,) = repo.runs.list()
    assert record.key == f"dagster plain_job {failed.run_id}"
    assert plain().execute_in_process(instance=instance).success  # this is another run
    assert len(list(repo.runs.list())) == 2
