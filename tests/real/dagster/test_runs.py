"""Dagster runs that succeed, fail, are killed, retried and executed again."""

import os
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

import dagster as dg
import pytest

from dagster_graveler import (
    GravelerIOManager,
    build_lifecycle_sensors,
    build_publish_asset,
    graveler_definitions,
)
from graveler.base.clock import SystemClock
from graveler.errors import FencedError
from graveler.gates import gate
from tests.real.dagster.endings import ended
from tests.real.dagster.flights import ROOT
from tests.real.dagster.pipelines import (
    definitions,
    job,
    not_too_much,
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


def tree(view):
    return {entry.path: view.get(entry.path).decode() for entry in view.list()}


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


def failed_steps(result):
    return sorted(event.step_key for event in result.all_events if event.is_step_failure)


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
    assert "is PUBLISHED" in ended(defs, instance, result.run_id)  # nothing to park
    assert repo.runs.get(KEY).state == "PUBLISHED"


def test_an_asset_shows_its_branch_and_paths(repo, run):
    (left,) = run().asset_materializations_for_node("left")
    output = {name: value.value for name, value in left.metadata.items()}
    assert output["graveler/branch"] == repo.runs.get(KEY).branch
    assert output["graveler/paths"] == ["left/x/data"]
    assert output["graveler/files"] == 1
    assert repo.commit(output["graveler/commit"]).metadata["graveler.step"] == "left:result"


def test_a_retry_replaces_what_the_try_before_it_had_committed(repo, run, folder):
    (folder / "raise").touch()  # after its own step has joined the run
    result = run()
    assert result.success
    assert ran(folder) == ["both", "both", "left", "right"]
    assert tree(repo.ref("main")) == {
        **{path: body for path, body in WHOLE.items() if path != "both/x/try 0"},
        "both/x/try 1": "1",
    }


def test_a_try_that_fails_leaves_nothing(repo, run, folder):
    (folder / "raise inside").touch()
    assert run().success
    assert "both/x/try 0" not in tree(repo.ref("main"))


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


def test_steps_are_rerun_if_another_run_forked_the_branch(repo, run, instance, folder):
    (folder / "refuse").touch()
    first = run()
    repo.runs.abandon(KEY)
    (folder / "refuse").touch()
    second = run()
    assert not again(instance, first).success
    assert repo.runs.get(KEY).owner == second.run_id
    assert again(instance, second).success
    assert tree(repo.ref("main")) == WHOLE
    late = again(instance, first)  # main has the hour from another run
    assert "is PUBLISHED, attempt 3" in str(late.all_events)


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


def test_a_job_that_fails_without_a_daemon_is_parked(repo, folder, tmp_path, monkeypatch):
    monkeypatch.setenv("DAGSTER_HOME", str(tmp_path))
    (folder / "refuse").touch()
    code = ["-m", "tests.real.dagster.pipelines", "-a", "definitions", "-j", "graveler_job"]
    tags = ["--tags", '{"dagster/partition": "x"}']
    given = [sys.executable, "-m", "dagster", "job", "execute", *code, *tags]
    done = subprocess.run(given, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 1, done.stderr
    record = repo.runs.get(KEY)
    assert record.state == "PARKED"
    assert "failed in right_is_right" in record.reason
    assert {"left/x/data", "right/x/data"} == set(tree(repo.ref(record.branch)))


def test_a_run_with_steps_left_is_not_parked(repo, resource, instance):
    @dg.asset
    def first() -> str:
        raise ConnectionError("lost")

    @dg.asset
    def second() -> str:
        return "kept"

    defs = graveler_definitions([first, second], resource, name="two")
    result = defs.resolve_job_def("two_job").execute_in_process(
        instance=instance, raise_on_error=False
    )
    assert failed_steps(result) == ["first"]
    (record,) = repo.runs.list()
    assert (record.state, record.attempt) == ("PARKED", 1)
    assert tree(repo.ref(record.branch)) == {"second/data": "kept"}


def test_all_assets_picked_by_hand_resume_what_the_job_parked(repo, instance, run, folder, defs):
    (folder / "refuse").touch()
    assert not run().success
    assert repo.runs.get(KEY).state == "PARKED"
    keys = defs.resolve_asset_graph().materializable_asset_keys
    catalog = defs.resolve_implicit_global_asset_job_def()
    result = catalog.execute_in_process(
        instance=instance, partition_key="x", asset_selection=sorted(keys)
    )
    assert result.success
    record = repo.runs.get(KEY)
    assert (record.state, record.attempt) == ("PUBLISHED", 2)
    assert tree(repo.ref("main")) == WHOLE
    assert [each.key for each in repo.runs.list()] == [KEY]


def test_a_gate_that_refuses_stops_publishing_as_a_check(repo, run, folder):
    with repo.run("another") as another:
        another.put("forbidden", b"1")
    result = run()
    assert failed_steps(result) == ["graveler_publish"]
    assert tree(repo.ref("main")) == {"forbidden": "1"}
    checks = {check.check_name: check for check in result.get_asset_check_evaluations()}
    assert checks["not_too_much"].asset_key == dg.AssetKey("graveler_publish")
    assert (checks["not_too_much"].passed, checks["is_right"].passed) == (False, True)
    assert checks["not_too_much"].description == "forbidden"


def test_publishing_judges_gates_without_checks(repo, resource, instance):
    @dg.asset
    def forbidden() -> str:
        return "forbidden"

    publish = build_publish_asset("publish", [forbidden], gates=[not_too_much])
    job = dg.Definitions(
        [forbidden, publish],
        jobs=[dg.define_asset_job("job", op_retry_policy=dg.RetryPolicy(max_retries=1))],
        resources={"graveler": resource, "io_manager": GravelerIOManager(graveler=resource)},
    ).resolve_job_def("job")
    result = job.execute_in_process(instance=instance, raise_on_error=False)
    assert failed_steps(result) == ["publish"]
    assert not result.retry_attempts_for_node("publish")
    assert tree(repo.ref("main")) == {}
    failure = result.failure_data_for_node("publish")
    assert failure is not None
    assert "was refused: not too much: forbidden" in str(failure.user_failure_data)
    (record,) = repo.runs.list("PARKED")
    assert tree(repo.ref(record.branch)) == {"forbidden/data": "forbidden"}


def test_paths_that_main_changed_meanwhile_fail_publishing(repo, resource, instance):
    @dg.asset
    def mine(context: dg.AssetExecutionContext) -> str:
        resource.run(context)
        with repo.run("another") as other:
            other.put("mine/data", b"theirs")
        return "mine"

    result = dg.materialize(
        [mine, build_publish_asset("publish", [mine])],
        resources={"graveler": resource, "io_manager": GravelerIOManager(graveler=resource)},
        instance=instance,
        raise_on_error=False,
    )
    assert failed_steps(result) == ["publish"]
    assert tree(repo.ref("main")) == {"mine/data": "theirs"}
    assert [record.state for record in repo.runs.list()].count("PARKED") == 1


def test_a_run_that_does_not_publish_is_set_aside(repo, instance, defs, run):
    result = run(asset_selection=[dg.AssetKey("left")])
    assert result.success
    assert repo.runs.get(KEY).state == "OPEN"
    ended(defs, instance, result.run_id)
    record = repo.runs.get(KEY)
    assert (record.state, tree(repo.ref(record.branch))) == ("PARKED", {"left/x/data": "left of x"})
    assert tree(repo.ref("main")) == {}


def test_a_canceled_run_is_set_aside(repo, instance, defs, run):
    result = run(asset_selection=[dg.AssetKey("left")])
    dagster_run = instance.get_run_by_id(result.run_id)
    instance.report_run_canceling(dagster_run)
    instance.report_run_canceled(dagster_run)
    ended(defs, instance, result.run_id)
    assert repo.runs.get(KEY).state == "PARKED"


def test_a_step_that_outlived_its_run_is_refused(repo, resource, instance, run, folder):
    (folder / "refuse").touch()
    before = repo.runs.open(KEY)
    failed = run()
    zombie = instance.get_run_by_id(failed.run_id)
    with pytest.raises(FencedError, match="is over"):
        resource.run(zombie)
    with pytest.raises(FencedError), before.step("late") as step:
        step.put("late", b"1")
    assert again(instance, failed).success
    with pytest.raises(FencedError, match="opened since"):
        resource.run(zombie)
    assert tree(repo.ref("main")) == WHOLE


def test_a_run_that_failed_before_writing_leaves_its_forerunner(repo, resource, instance):
    defs = dg.Definitions(sensors=build_lifecycle_sensors(), resources={"graveler": resource})

    @dg.asset(partitions_def=parts)
    def fragile() -> str:
        if list(repo.runs.list("PUBLISHED")):
            raise ConnectionError("lost")
        return "whole"

    publish = build_publish_asset("publish", [fragile], partitions_def=parts)

    def execute():
        return dg.materialize(
            [fragile, publish],
            resources={"graveler": resource, "io_manager": GravelerIOManager(graveler=resource)},
            instance=instance,
            partition_key="x",
            raise_on_error=False,
        )

    assert execute().success
    before = list(repo.runs.list())
    failed = execute()
    assert not failed.success
    assert "has no branch" in ended(defs, instance, failed.run_id)
    assert list(repo.runs.list()) == before


def test_the_gates_wait_for_every_otherwise_unawaited_asset(repo, resource, instance):
    @dg.asset
    def a() -> str:
        return "a"

    @dg.asset(deps=[a])
    def b() -> str:
        return "b"

    @dg.asset(deps=[b])
    def z() -> str:
        return "z"

    @dg.asset
    def m() -> str:
        return "m"

    @gate
    def complete(candidate):
        return sorted(tree(candidate)) == ["a/data", "b/data", "m/data", "z/data"]

    defs = graveler_definitions(
        [z, m, a, b], resource, gates=[complete], io_manager=GravelerIOManager(graveler=resource)
    )
    job = defs.resolve_job_def("graveler_job")
    assert job.execute_in_process(instance=instance).success
    assert len(tree(repo.ref("main"))) == 4


def test_two_partitions_at_once_are_both_published(repo, tmp_path):
    # Dagster captures the output of a run by the file descriptors of its process. Two runs in one
    # process would wait for each other's capture; each run of a daemon has its own process.
    uncaptured = {
        "compute_logs": {
            "module": "dagster._core.storage.noop_compute_log_manager",
            "class": "NoOpComputeLogManager",
        }
    }
    with dg.DagsterInstance.local_temp(str(tmp_path), overrides=uncaptured) as instance:

        def execute(partition):
            return job().execute_in_process(instance=instance, partition_key=partition)

        with ThreadPoolExecutor(2) as pool:
            results = list(pool.map(execute, ["x", "y"]))
    assert [result.success for result in results] == [True, True]
    assert tree(repo.ref("main")) == WHOLE | {
        path.replace("x", "y"): body.replace("of x", "of y") for path, body in WHOLE.items()
    }
    assert len(list(repo.log("main", first_parent=True))) == 3


def test_the_partition_run_again_replaces_its_files(repo, run, folder):
    run()
    (folder / "raise inside").touch()  # the second try uses another file name
    run()
    assert sorted(tree(repo.ref("main"))) == [
        "both/x/data",
        "both/x/try 1",
        "left/x/data",
        "right/x/data",
    ]
    assert repo.runs.get(KEY).attempt == 2


@pytest.mark.crash
def test_steps_in_processes_share_the_run_a_killed_one_reruns(repo, defs, folder, tmp_path):
    (tmp_path / "home").mkdir()
    (folder / "kill").touch()
    with dg.DagsterInstance.local_temp(str(tmp_path / "home")) as instance:
        failed = dg.execute_job(
            dg.reconstructable(job),
            instance=instance,
            run_config={"execution": {"config": {"multiprocess": {"max_concurrent": 2}}}},
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
        [sys.executable, "-m", "tests.real.dagster.worker", str(folder / "home")],
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


def test_the_definitions_are_whole(defs):
    dg.Definitions.validate_loadable(defs)
    assert sorted(sensor.name for sensor in defs.sensors or ()) == [
        "graveler_park_canceled",
        "graveler_park_failed",
        "graveler_park_unpublished",
        "graveler_reaper",
    ]
