"""Drivers that are killed, interrupted and replaced."""

import signal
import subprocess
import sys
from contextlib import contextmanager, suppress
from datetime import timedelta
from shutil import copy

import psutil
import pytest

from graveler import spark as gs
from graveler.config import program_environment
from graveler.fsck.check import fsck
from graveler.runs.state import RunState
from tests.harness.gc_lakes import collect, keys, needed
from tests.harness.servers.spark import ROOT, wait_until
from tests.long.cluster.waiting import mark_in, tables_of


def end(driver):
    """Kill a driver, its JVM first."""
    with suppress(psutil.NoSuchProcess):
        for process in [*driver.children(recursive=True), driver]:
            process.kill()
        driver.wait()


@contextmanager
def stopped(processes):
    """Suspend processes during a block."""
    try:
        for process in processes:
            process.suspend()
        yield
    finally:
        for process in processes:
            with suppress(psutil.NoSuchProcess):
                process.resume()


def lives(process):
    with suppress(psutil.NoSuchProcess):
        return process.status() != psutil.STATUS_ZOMBIE
    return False


@pytest.fixture
def drive(cluster, bulk, inventory, tmp_path):
    """Start a driver, which ends with the test."""
    copy(inventory, tmp_path)
    started = []

    def start(work, variables=()):
        environment = {"PYTHONPATH": f"{ROOT}:{ROOT / 'integrations'}", **dict(variables)}
        command = [sys.executable, "-m", "tests.long.cluster.driver", work, cluster.url, tmp_path]
        driver = psutil.Popen(
            command, cwd=ROOT, env=program_environment(environment), stderr=subprocess.DEVNULL
        )
        started.append(driver)
        return driver, mark_in(tmp_path, "app")

    yield start
    (tmp_path / "go").touch()
    for driver in started:
        end(driver)


@pytest.mark.parametrize("work", ["import", "tables"])
def test_a_killed_driver_leaves_only_what_is_collected(cluster, bulk, drive, tmp_path, work):
    before = bulk.commit("main")
    driver, app = drive(work)
    if work == "import":
        tables_of(bulk, 10)
        end(driver)
    else:
        mark_in(tmp_path, "0")
        driver.kill()  # its JVM notices it, or runs for some more time
    wait_until(lambda: not cluster.executors(app), "the end of the executors")
    assert bulk.commit("main") == before
    assert len(keys(bulk)) > len(needed(bulk))
    later = bulk.stores.clock.now() + timedelta(hours=1)
    reaped = [str(run.to_state) for run in bulk.runs.reap(now=later, dry_run=False)]
    assert reaped == (["REAPED"] if work == "tables" else [])
    assert [record.name for record in bulk.branches(hidden=True)] == ["main"]
    collect(bulk)
    assert keys(bulk) == needed(bulk)
    assert list(fsck(bulk.stores, objects="checksum").problems) == []


def test_an_interrupted_driver_leaves_nothing_to_reap(cluster, bulk, drive, tmp_path):
    before = bulk.commit("main")
    driver, app = drive("tables")
    mark_in(tmp_path, "0")
    driver.send_signal(signal.SIGINT)
    assert driver.wait() != 0
    wait_until(lambda: not cluster.executors(app), "the end of the executors")
    assert bulk.commit("main") == before
    assert [record.name for record in bulk.branches(hidden=True)] == ["main"]
    assert not list(bulk.runs.list(RunState.OPEN))
    collect(bulk)
    assert keys(bulk) == needed(bulk)


def test_tasks_of_a_replaced_attempt_change_nothing(
    cluster, spark, executors, bulk, drive, inventory
):
    """Its executors are suspended, its driver dies, and one task outlives the next attempt."""
    stale = bulk.runs.open("load")
    driver, app = drive("step", stale.step_environment("load"))
    tables_of(bulk, 10)
    old = cluster.both(app)
    tasks = [python for executor in old for python in executor.pythons]
    others = [p for executor in old for p in (executor.jvm, *executor.daemons)]
    with stopped([*tasks, *others, *cluster.workers]):
        end(driver)
        run = bulk.runs.open("load")
        rows = spark.read.csv(str(inventory), header=True).where("size < 4000")
        with run.step("load") as step:
            gs.import_frame(step, rows, "in/", message="bulk", slice_rows=2_500)
        run.publish()
        head, there = bulk.commit("main"), keys(bulk)
        assert len(list(bulk.ref("main").entries())) == 4_000
        for task in tasks:
            task.resume()
        wait_until(lambda: keys(bulk) > there, "tables of the stale tasks")
    wait_until(lambda: not any(map(lives, [*tasks, *others])), "the end of the stale executors")
    assert bulk.commit("main") == head
    assert [record.name for record in bulk.branches(hidden=True)] == ["main"]
    collect(bulk)
    assert keys(bulk) == needed(bulk)
