"""Drivers that are killed, interrupted, and replaced."""

import signal
import subprocess
import sys
from contextlib import suppress
from datetime import timedelta
from shutil import copy

import psutil
import pytest

from graveler.config import program_environment
from graveler.fsck import fsck
from graveler.runs import RunState
from tests.harness.gc_lakes import collect, keys, needed
from tests.harness.servers.spark import ROOT, wait_until
from tests.long.cluster.waiting import mark_in, tables_of


def end(driver):
    """Kill a driver, its JVM first."""
    with suppress(psutil.NoSuchProcess):
        for process in [*driver.children(recursive=True), driver]:
            process.kill()
        driver.wait()


@pytest.fixture
def drive(cluster, bulk, inventory, tmp_path):
    """Start a driver; it ends with the test."""
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
        driver.kill()  # its JVM notices, or goes on for a while
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
