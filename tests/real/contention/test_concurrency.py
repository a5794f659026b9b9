"""Threads and processes that work at the same time: no acknowledged write is lost."""

import shutil
import signal
from concurrent.futures import ThreadPoolExecutor
from itertools import count, pairwise
from threading import Barrier
from typing import Any

import pytest

import graveler
from graveler.committed.splitting import Splitting
from graveler.errors import NoChangesError
from graveler.fsck.check import fsck
from graveler.repository.commits.packing import PACK_PAIR
from graveler.runs.state import RunState
from tests.harness.programs import FORKS, output_of, start_program
from tests.harness.worlds import tree

WRITES = 12


@pytest.fixture
def repo(tmp_path):
    with graveler.open(tmp_path / "lake", create=True) as lake:
        rule = Splitting(max_bytes=5_000, raggedness=5)
        yield lake.create_repository("flights", splitting=rule)


def together(*works):
    """Do all the works at the same time. Return their results, or raise the error of the first."""
    barrier = Barrier(len(works))

    def begin(work):
        barrier.wait()
        return work()

    with ThreadPoolExecutor(len(works)) as pool:
        return [future.result() for future in [pool.submit(begin, work) for work in works]]


def sound_main(repo):
    """Assert that history is one line and all bytes are there; return the commits, newest first."""
    line = list(repo.log("main", first_parent=True))
    for child, parent in pairwise(line):
        assert child.parents[0] == parent.id
        assert child.generation > parent.generation
    assert fsck(repo.stores, objects="checksum").sound
    return line


def write_all(repo, name):
    main = repo.branch("main")
    return [(main.put(f"{name}/{n:02}", name.encode()).path, None) for n in range(WRITES)]


def commit_all(repo, name):
    made = []
    for path, _ in write_all(repo, name):
        try:
            made.append((path, repo.branch("main").commit(path)))
        except NoChangesError:
            made.append((path, None))
    return made


def merge_all(repo, name):
    merged = []
    for number in range(WRITES // 3):
        branch = repo.create_branch(f"{name}-{number}")
        path = branch.put(f"{name}/{number:02}", name.encode()).path
        branch.commit(path)
        merged.append((path, repo.merge(branch.name, "main").commit))
    return merged


def test_writers_committers_and_mergers_on_a_branch_lose_nothing(repo):
    works = [("w0", write_all), ("w1", write_all), ("c0", commit_all), ("c1", commit_all)]
    results: list[Any] = together(
        *[lambda name=name, work=work: work(repo, name) for name, work in works],
        lambda: merge_all(repo, "m"),
    )
    done = [pair for pairs in results for pair in pairs]
    main = repo.branch("main")
    shown = tree(main)
    assert shown == {path: path.split("/")[0] for path, _ in done}
    ids = {commit.id for commit in sound_main(repo)}
    for path, commit in done:
        if commit is not None:
            assert commit.id in ids
            assert repo.ref(commit.id).exists(path)
    if list(main.uncommitted()):
        main.commit("the rest")
    assert tree(repo.ref("main")) == shown


def test_eight_runs_that_publish_disjoint_hours_at_once_all_land(repo):
    def path(hour, step):
        return f"input/{hour:02}/{step}"

    def run(hour):
        def gate(candidate):
            return candidate.exists(path(hour, 0))

        with repo.run(f"hourly {hour:02}", gates=[gate]) as run:

            def step(number):
                with run.step(f"step {number}") as step:
                    step.put(path(hour, number), str(hour).encode())

            together(*[lambda number=number: step(number) for number in range(3)])
        return run.result

    results = together(*[lambda hour=hour: run(hour) for hour in range(8)])
    expected = {path(hour, step): str(hour) for hour in range(8) for step in range(3)}
    assert tree(repo.ref("main")) == expected
    landed = {commit.id for commit in sound_main(repo)}
    assert {result.commit.id for result in results} <= landed
    assert len(landed) == 1 + 8
    assert {record.state for record in repo.runs.list()} == {RunState.PUBLISHED}
    assert [record.name for record in repo.branches(hidden=True)] == ["main"]


def test_three_processes_merge_into_one_branch_and_all_land(repo, tmp_path):
    workers = [
        start_program("real.contention.programs.merges", tmp_path / "lake", f"p{number}")
        for number in range(3)
    ]
    said = [process.communicate(timeout=120)[0].splitlines() for process in workers]
    assert [process.returncode for process in workers] == [0, 0, 0]
    assert tree(repo.branch("main")) == {
        f"p{n}/{i:02}": f"p{n}" for n in range(3) for i in range(10)
    }
    ids = {commit.id for commit in sound_main(repo)}
    assert len(ids) == 1 + 30
    for path, commit in (row.split() for rows in said for row in rows):
        assert commit in ids
        assert repo.ref(commit).exists(path)


@pytest.mark.crash
def test_a_packer_killed_at_any_call_changes_no_path(tmp_path):
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
        process = start_program("real.contention.programs.packs", folder, number)
        said = process.communicate(timeout=60)[0]
        with graveler.open(folder) as lake:
            repo = lake.repository("flights")
            assert tree(repo.branch("main")) == before
            repo.maintain().check()
            repo.pack()
            assert repo.stats().badly_cut == 0
            packs = [commit for commit in sound_main(repo) if PACK_PAIR in commit.metadata]
            assert len(packs) == 1
            assert tree(repo.branch("main")) == before
        if said == "packed\n":
            break
        assert process.returncode == -signal.SIGKILL
    assert number > 5


def test_a_signal_handler_that_raises_during_a_fork_stops_nobody():
    output = output_of("real.contention.programs.interrupted_forks", warnings=FORKS, timeout=250)
    assert output == "hooks cut short\n"
