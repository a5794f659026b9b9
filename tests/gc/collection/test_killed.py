"""A collector is killed again and again. Nothing is lost, and the next collector continues."""

import random
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest

import graveler
from graveler.committed.splitting import Splitting
from tests.harness.gc_lakes import NOW, check_sound, keys

ROOT = Path(__file__).resolve().parents[3]
KILLS = 12


@pytest.mark.crash
@pytest.mark.slow
def test_a_collector_killed_anywhere_loses_nothing(tmp_path):
    folder = tmp_path / "lake"
    with graveler.open(folder, create=True) as lake:
        repo = lake.create_repository("flights", splitting=Splitting(raggedness=3))
        main = repo.branch("main")
        for number in range(12):
            main.put(f"p{number}", b"%d" % number)
        main.commit("kept")
        main.put("staged", b"kept too")
        seen = check_sound(repo)
        kept = keys(repo)
    moments = random.Random(20130101)
    for _ in range(KILLS):
        child = subprocess.Popen(
            [sys.executable, "-m", "tests.gc.collection.collecting_child", str(folder)],
            cwd=ROOT,
            stdout=subprocess.PIPE,
        )
        assert child.stdout is not None
        assert child.stdout.readline() == b"go\n"
        with suppress(subprocess.TimeoutExpired):
            child.wait(moments.uniform(0.0, 0.4))
        child.send_signal(signal.SIGKILL)
        assert child.wait() == -signal.SIGKILL
        child.stdout.close()
        with graveler.open(folder) as lake:
            found = check_sound(lake.repository("flights"))
            assert found["main"] == seen["main"]
    with graveler.open(folder) as lake:
        repo = lake.repository("flights")
        for record in list(repo.branches()):
            if record.name != "main":
                repo.delete_branch(record.name)
        collector = repo.gc
        collector._lease_seconds = 0.2
        for _ in range(2):
            collector.run(grace=NOW, window=NOW)
        assert check_sound(repo) == seen
        assert keys(repo) == kept
        assert {mark.state for mark in collector.marks()} <= {"swept", "superseded", "undeleted"}
