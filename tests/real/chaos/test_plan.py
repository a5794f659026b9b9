"""Plans of chaos, the faults of a process, and the reaper."""

import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from graveler.base.clock import SystemClock
from tests.real.chaos.faults import Fault, FaultInjector, read_plan, write_plan
from tests.real.chaos.plan import AIRFLOW, DAGSTER, DISASTERS, STARTS, each_kind, some


@pytest.mark.parametrize("kinds", [AIRFLOW, DAGSTER])
def test_a_seed_decides_a_plan(kinds):
    assert some(kinds, 50, "7") == some(kinds, 50, "7")
    assert some(kinds, 50, "7") != some(kinds, 50, "8")


@pytest.mark.parametrize("kinds", [AIRFLOW, DAGSTER])
def test_a_plan_of_two_hundred_hours_has_everything_in_it(kinds):
    plan = some(kinds, 200, "7")
    met = Counter(fate.kind for fate in plan.fates)
    alone = {kind for kind in kinds if kind not in met}
    assert {fault.name for fault in plan.faults} == {
        fault.name for fate in plan.fates for fault in fate.faults
    }
    several = {
        name for name, kind in kinds.items() for act in kind("", "")[1] if act.deed in DISASTERS
    }
    assert alone == several
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
            FaultInjector(tmp_path, "2013-01-01T00:00", "left").pause(None)
    FaultInjector(tmp_path, "2013-01-01T00:00", "left").pause(None)
    FaultInjector(tmp_path, "2013-01-01T01:00", "left").pause(None)
    assert (tmp_path / "reached" / "b").exists()


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
