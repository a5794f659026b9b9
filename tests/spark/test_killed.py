"""A driver is killed during a transaction."""

import signal
import subprocess
import sys
from datetime import timedelta

import graveler

DRIVER = """
import os, signal, sys
import graveler
from graveler.spark.tables import Tables

repo = graveler.open(sys.argv[1]).repository("tables")
with Tables(repo, spark=None).transaction("main", message="load", txn=("loads", 1)) as tx:
    tx._run.put("t/a", b"1")
    if sys.argv[2] == "killed":
        os.kill(os.getpid(), signal.SIGKILL)
"""


def drive(folder, what):
    return subprocess.run([sys.executable, "-c", DRIVER, folder, what], check=False).returncode


def test_what_a_killed_driver_leaves_is_swept_and_done_again(tmp_path):
    with graveler.init(tmp_path) as lake:
        repo = lake.create_repository("tables")
        before = repo.commit("main")
        assert drive(tmp_path, "killed") == -signal.SIGKILL
        assert repo.commit("main") == before
        assert len(list(repo.branches(hidden=True))) == 2
        later = repo.stores.clock.now() + timedelta(hours=1)
        assert [str(run.to_state) for run in repo.runs.reap(now=later, dry_run=False)] == ["REAPED"]
        assert [branch.name for branch in repo.branches(hidden=True)] == ["main"]
        assert drive(tmp_path, "again") == 0
        assert repo.ref("main").get("t/a") == b"1"
        assert repo.commit("main").metadata["txn.version"] == "1"
