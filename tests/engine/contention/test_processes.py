"""Several processes in one lake; some of them are killed."""

import random
import shutil
import signal
import subprocess
import sys
from itertools import count, pairwise
from pathlib import Path

import pytest

import graveler
from graveler.committed.splitting import Splitting
from graveler.errors import LakeLockedError
from graveler.fsck.check import fsck
from graveler.lake.factory import init
from graveler.repository.commits.packing import PACK_PAIR
from graveler.runs.state import RunState
from tests.harness.worlds import tree

ROOT = Path(__file__).parents[3]
CYCLES = 20


def worker(*arguments):
    return subprocess.Popen(
        [sys.executable, "-m", "tests.engine.contention.workers", *map(str, arguments)],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        text=True,
    )


@pytest.fixture
def folder(tmp_path):
    with graveler.open(tmp_path / "lake", create=True) as lake:
        lake.create_repository("flights")
    return tmp_path / "lake"


def assert_sound(repo):
    """Assert that each path of each branch has its bytes, and that history is one line."""
    line = list(repo.log("main", first_parent=True))
    for child, parent in pairwise(line):
        assert child.parents[0] == parent.id
    shown = tree(repo.branch("main"))
    assert set(tree(repo.ref("main"))) <= set(shown)
    report = fsck(repo.stores, objects="checksum")
    assert report.sound, report
    return shown


@pytest.mark.slow
def test_three_processes_merge_into_one_branch_and_all_land(folder):
    workers = [worker("merge", folder, f"p{number}", 10) for number in range(3)]
    said = [process.communicate(timeout=120)[0].split("\n")[:-1] for process in workers]
    assert [process.returncode for process in workers] == [0, 0, 0]
    with graveler.open(folder) as lake:
        repo = lake.repository("flights")
        shown = assert_sound(repo)
        assert shown == {f"p{n}/{i:02}": f"p{n}" for n in range(3) for i in range(10)}
        line = {commit.id: commit for commit in repo.log("main", first_parent=True)}
        assert len(line) == 1 + 30
        for path, commit in (row.split() for rows in said for row in rows):
            assert repo.ref(line[commit].id).exists(path)
        assert [record.name for record in repo.branches(hidden=True)] == ["main"]


def killed(process, wait, seconds):
    """Kill a worker a moment after its line number `wait`; return all of its lines."""
    said = [process.stdout.readline() for _ in range(wait)]
    try:
        process.wait(seconds)
    except subprocess.TimeoutExpired:
        process.send_signal(signal.SIGKILL)
    rest = process.communicate(timeout=60)[0]
    assert process.returncode == -signal.SIGKILL
    lines = ("".join(said) + rest).split("\n")
    return lines[:-1]  # the text after the last line break is empty or half a line


@pytest.mark.slow
@pytest.mark.crash
def test_a_committer_that_is_killed_loses_nothing_it_was_told(folder):
    dice = random.Random(7)
    number = 0
    for _ in range(CYCLES):
        said = killed(worker("commit", folder, number), dice.randint(1, 4), dice.random() / 20)
        with graveler.open(folder) as lake:
            repo = lake.repository("flights")
            line = {commit.id for commit in repo.log("main", first_parent=True)}
            shown = {entry.path for entry in repo.branch("main").entries()}
            for what, path, *commit in (row.split() for row in said):
                assert path in shown
                if what == "commit":
                    assert commit[0] in line
            main = repo.branch("main")
            main.put("after", str(number).encode())
            main.commit(f"after {number}")
            assert main.get("after") == str(number).encode()
            assert list(main.uncommitted()) == []
            number = max(int(path[1:]) for path in shown if path != "after") + 1
    with graveler.open(folder) as lake:
        shown = assert_sound(lake.repository("flights"))
    paths = sorted(path for path in shown if path != "after")
    assert paths == [f"p{position:06}" for position in range(len(paths))]


@pytest.mark.slow
@pytest.mark.crash
def test_a_killed_publisher_published_whole_runs_or_nothing(folder):
    dice = random.Random(11)
    for cycle in range(6):
        said = killed(worker("publish", folder, f"k{cycle}"), 1, dice.random() / 10)
        with graveler.open(folder) as lake:
            repo = lake.repository("flights")
            line = {commit.id for commit in repo.log("main", first_parent=True)}
            assert set(said) <= line
            for record in list(repo.runs.list()):
                if record.state in (RunState.OPEN, RunState.PUBLISHING):
                    name, number = record.key.split()
                    with repo.run(record.key) as run:  # the next attempt succeeds
                        with run.step("work") as step:
                            step.put(f"{name}/{int(number):04}", b"1")
            assert {record.state for record in repo.runs.list()} == {RunState.PUBLISHED}
            for record in repo.runs.list():  # also runs that died after they landed
                assert repo.runs._run(record).publish().commit.id == record.commit
            assert [record.name for record in repo.branches(hidden=True)] == ["main"]
    with graveler.open(folder) as lake:
        repo = lake.repository("flights")
        shown = assert_sound(repo)
        assert len(shown) == len(list(repo.runs.list()))


@pytest.mark.slow
@pytest.mark.crash
@pytest.mark.parametrize("moment", ["before", "after"])
def test_a_packer_killed_at_any_call_changes_no_path(tmp_path, moment):
    with graveler.open(tmp_path / "lake", create=True) as lake:
        rule = Splitting(min_bytes=800, max_bytes=2_400, raggedness=2, hard=8)
        main = lake.create_repository("flights", splitting=rule).branch("main")
        for hour in range(12):
            main.put_many([(f"in/{hour:02}/{part}", b"1") for part in range(3)])
            main.commit(f"hour {hour}")
        main.delete_many([f"in/{hour:02}/1" for hour in range(0, 12, 2)])
        main.commit("deleted")
        main.put("staged", b"1")
        before = tree(main)
    for number in count(1):
        folder = tmp_path / f"{number}"
        shutil.copytree(tmp_path / "lake", folder)
        process = worker("pack", folder, number, moment)
        said = process.communicate(timeout=60)[0]
        with graveler.open(folder) as lake:
            repo = lake.repository("flights")
            assert assert_sound(repo) == before
            repo.maintain().check()
            repo.pack()
            assert repo.stats().badly_cut == 0
            packs = [commit for commit in repo.log() if PACK_PAIR in commit.metadata]
            assert len(packs) == 1
            assert assert_sound(repo) == before
        if said == "packed\n":
            break
        assert process.returncode == -signal.SIGKILL
    assert number > 5


def test_a_second_process_is_told_that_the_lake_is_locked(tmp_path):
    with init(tmp_path / "rocks", kv_uri="rocksdb://kv") as lake:
        main = lake.create_repository("flights").branch("main")
        main.put("a", b"1")
        process = worker("open", tmp_path / "rocks")
        assert process.communicate(timeout=60)[0] == f"{LakeLockedError.__name__}\n"
        main.commit("still works")
    process = worker("open", tmp_path / "rocks")
    assert process.communicate(timeout=60)[0] == "open\n"
    with graveler.open(tmp_path / "rocks") as lake:
        assert tree(lake.repository("flights").ref("main")) == {"a": "1"}
