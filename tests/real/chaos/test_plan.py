"""Plans of chaos, the faults of a process, services, the reaper, and the page of the failures."""

import subprocess
import sys
from collections import Counter
from datetime import UTC, datetime
from pathlib import Path

import pytest

from graveler.base.clock import SystemClock
from tests.real.chaos.driving import Row
from tests.real.chaos.faults import Fault, FaultInjector, read_plan, write_plan
from tests.real.chaos.page import section, write
from tests.real.chaos.plan import AIRFLOW, DAGSTER, DISASTERS, STARTS, Fate, each_kind, some
from tests.real.chaos.processes.services import Services


@pytest.mark.parametrize("kinds", [AIRFLOW, DAGSTER], ids=["airflow", "dagster"])
def test_a_seed_decides_a_plan_which_has_everything_in_it(kinds):
    plan = some(kinds, 200, "7")
    assert plan == some(kinds, 200, "7") != some(kinds, 200, "8")
    met = Counter(fate.kind for fate in plan.fates)
    assert {fault.name for fault in plan.faults} == {
        fault.name for fate in plan.fates for fault in fate.faults
    }
    several = {
        name for name, kind in kinds.items() for act in kind("", "")[1] if act.deed in DISASTERS
    }
    assert {kind for kind in kinds if kind not in met} == several
    assert len({disaster.deed for disaster in plan.disasters}) == len(several)
    assert met["nothing"] > 40


def test_every_kind_has_an_hour_of_its_own_in_the_matrix():
    plan = each_kind(AIRFLOW)
    assert sorted(fate.kind for fate in plan.fates) == sorted(AIRFLOW)
    assert len({fate.hour for fate in plan.fates}) == len(AIRFLOW)
    assert {fate.dag for fate in plan.fates} == STARTS.keys() - {"split"}
    assert all(fate.renewals for fate in plan.fates)


def test_a_blow_falls_as_often_as_it_is_to(tmp_path):
    fault = Fault("b", "2013-01-01T00:00", "left", "raise", times=2)
    write_plan(tmp_path, [fault])
    assert read_plan(tmp_path) == [fault]
    for _ in range(2):
        with pytest.raises(RuntimeError, match="half of it"):
            FaultInjector(tmp_path, fault.hour, "left").pause(None)
    for hour in (fault.hour, "2013-01-01T01:00"):
        FaultInjector(tmp_path, hour, "left").pause(None)
    assert (tmp_path / "reached" / "b").exists()


def test_a_row_of_the_page_shows_what_ran_and_what_is_next(tmp_path):
    failed = "failed: ingest success, left failed (try 2), close_run failed"
    passed = "success: ingest success, left success, close_run success"
    states = ["unchanged", "whole"], ["parked, attempt 1", "published, attempt 2"]
    row = Row(Fate(datetime(2013, 1, 1, tzinfo=UTC), "exception"), [failed, passed], *states)
    first = "**failed**: left failed (try 2), close_run failed | unchanged | parked, attempt 1"
    last = "**success**: every task that ran: success; main whole, published, attempt 2"
    line = f"| exception | {first} | {last} |"
    assert section("dagster", [row]).splitlines()[-2] == line
    page = tmp_path / "page.md"
    page.write_text("# a\n<!-- airflow -->\nold\n<!-- /airflow -->\n")
    write(page, "airflow", [row])
    assert page.read_text().count(line) == 1
    assert "old" not in page.read_text()
    with pytest.raises(ValueError, match="has no section"):
        write(page, "dagster", [row])


@pytest.fixture
def services(tmp_path):
    lasting = [sys.executable, "-c", "import time; time.sleep(600)"]
    ending = [sys.executable, "-c", "print('no more')"]
    made = Services(tmp_path, {}, {"lasting": lasting, "ending": ending})
    made.start()
    yield made
    made.die()


def ended(services):
    for _ in range(600):
        if names := services.tend():
            return names
        SystemClock().sleep(0.05)
    raise AssertionError("nothing ended")


def test_services_are_tended_unless_they_were_killed(services):
    assert [ended(services) for _ in range(2)] == [["ending"]] * 2
    assert "no more" in services.logs()
    services.die()
    assert services.tend() == []


@pytest.mark.crash
def test_what_the_dead_leave_behind_does_not_survive_the_reaper(tmp_path):
    survivor = (
        "import time, pathlib, os; pathlib.Path('up').write_text(str(os.getpid())); time.sleep(99)"
    )
    parent = (
        "import subprocess, sys, os, time, pathlib\n"
        f"subprocess.Popen([sys.executable, '-c', {survivor!r}], start_new_session=True)\n"
        "while not pathlib.Path('up').exists() or not pathlib.Path('up').read_text():\n"
        "    time.sleep(0.01)\n"
        "os.kill(os.getpid(), 9)\n"
    )
    (tmp_path / "parent.py").write_text(parent)
    reaper = "import sys; from tests.real.chaos.processes.reaper import keep; print(keep([sys.executable, 'parent.py']))"
    done = subprocess.run(
        [sys.executable, "-c", reaper],
        cwd=tmp_path,
        env={"PYTHONPATH": str(Path(__file__).parents[3])},
        capture_output=True,
        text=True,
    )
    assert done.stdout == "-9\n", done.stderr
    orphan = Path("/proc", (tmp_path / "up").read_text())
    for _ in range(100):
        if not orphan.exists():
            break
        SystemClock().sleep(0.05)
    assert not orphan.exists()
