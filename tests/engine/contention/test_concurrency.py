"""Threads that work at the same time: no acknowledged write is lost."""

from concurrent.futures import ThreadPoolExecutor
from itertools import count, pairwise
from threading import Barrier, Event
from typing import Any

import pytest

import graveler
from graveler.committed.splitting import Splitting
from graveler.config import LakeConfig
from graveler.errors import NoChangesError
from graveler.lake.factory import connect
from graveler.runs.state import RunState
from tests.harness.worlds import tree

_numbers = count(1)


@pytest.fixture(params=["memory", "sqlite"])
def repo(request, tmp_path):
    splitting = Splitting(max_bytes=5_000, raggedness=5)
    if request.param == "sqlite":
        with graveler.open(tmp_path / "lake", create=True) as lake:
            yield lake.create_repository("flights", splitting=splitting)
    else:
        storage = f"mem://threads{next(_numbers)}"
        with connect(LakeConfig("x", "mem://", storage, cache_folder=tmp_path / "cache")) as lake:
            yield lake.create_repository("flights", splitting=splitting)


def together(*works):
    """Do all the works at the same time. Return their results, or raise the error of the first."""
    barrier = Barrier(len(works))

    def begin(work):
        barrier.wait()
        return work()

    with ThreadPoolExecutor(len(works)) as pool:
        return [future.result() for future in [pool.submit(begin, work) for work in works]]


def main_line(repo):
    return list(repo.log("main", first_parent=True))


WRITES = 12


def write_all(repo, name):
    main = repo.branch("main")
    return [main.put(f"{name}/{number:02}", name.encode()).path for number in range(WRITES)]


def commit_all(repo, name):
    made = []
    for number in range(WRITES // 2):
        main = repo.branch("main")
        path = main.put(f"{name}/{number:02}", name.encode()).path
        try:
            made.append((path, main.commit(path)))
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
    works = [("w0", write_all), ("w1", write_all), ("w2", write_all)]
    works += [("c0", commit_all), ("c1", commit_all), ("m", merge_all)]
    results: list[Any] = together(
        *[lambda name=name, work=work: work(repo, name) for name, work in works]
    )
    acknowledged = [path for paths in results[:3] for path in paths]
    done = [pair for pairs in results[3:] for pair in pairs]
    acknowledged += [path for path, _ in done]

    main = repo.branch("main")
    shown = tree(main)
    assert sorted(shown) == sorted(acknowledged)
    assert all(content == path.split("/")[0] for path, content in shown.items())
    line = main_line(repo)
    ids = [commit.id for commit in line]
    for path, commit in done:
        if commit is not None:
            assert commit.id in ids  # every acknowledged commit is in the history of the head
            assert repo.ref(commit.id).exists(path)
    for child, parent in pairwise(line):
        assert child.parents[0] == parent.id
        assert child.generation > parent.generation
    if list(main.uncommitted()):
        main.commit("the rest")
    assert tree(repo.ref("main")) == shown


def test_committers_at_once_each_find_their_write_committed(repo):
    def work(name):
        main = repo.branch("main")
        main.put(name, name.encode())
        try:
            return main.commit(name)
        except NoChangesError:  # another thread's commit has included the write
            return repo.commit("main")

    names = [f"c{number}" for number in range(6)]
    commits = together(*[lambda name=name: work(name) for name in names])
    assert tree(repo.ref("main")) == {name: name for name in names}
    assert list(repo.branch("main").uncommitted()) == []
    for name, commit in zip(names, commits, strict=True):
        assert repo.ref(commit.id).exists(name)


def test_a_reader_never_misses_what_was_acknowledged(repo):
    stop = Event()
    acknowledged: list[str] = []

    def write():
        main = repo.branch("main")
        try:
            for number in range(40):
                acknowledged.append(main.put(f"p{number:02}", b"1").path)
                if number % 4 == 3:
                    main.commit(str(number))
        finally:
            stop.set()

    def read():
        main = repo.branch("main")
        looks = 0
        while True:
            last = stop.wait(0.001)  # gives the interpreter to the writer
            known = list(acknowledged)
            listed = [entry.path for entry in main.entries()]
            assert set(known) <= set(listed)
            assert listed == sorted(set(listed))
            if known:
                assert main.exists(known[looks % len(known)])
            looks += 1
            if last:
                return looks

    _, *looks = together(write, read, read)
    assert all(number > 1 for number in looks)


def test_a_path_overwritten_beside_commits_ends_as_last_written(repo):
    done = Event()

    def write():
        main = repo.branch("main")
        for number in range(60):
            main.put("p", str(number).encode())
        done.set()

    def commit():
        main = repo.branch("main")
        while not done.is_set():
            try:
                main.commit("c")
            except NoChangesError:
                continue

    together(write, commit)
    main = repo.branch("main")
    assert main.get("p") == b"59"
    if list(main.uncommitted()):
        main.commit("last")
    assert repo.ref("main").get("p") == b"59"
    values = [
        int(repo.ref(commit.id).get("p"))
        for commit in main_line(repo)
        if commit.message != "Repository created"
    ]
    assert values == sorted(values, reverse=True)


def test_eight_runs_that_publish_disjoint_hours_at_once_all_land(repo):
    def run(hour):
        with repo.run(
            f"hourly {hour:02}", gates=[lambda candidate: candidate.exists(path(hour))]
        ) as run:
            with run.step("ingest") as step:
                step.put(path(hour), str(hour).encode())
        return run.result

    def path(hour):
        return f"input/{hour:02}/part-0"

    results = together(*[lambda hour=hour: run(hour) for hour in range(8)])
    assert tree(repo.ref("main")) == {path(hour): str(hour) for hour in range(8)}
    landed = {commit.id for commit in main_line(repo)}
    assert {result.commit.id for result in results} <= landed
    assert len(landed) == 1 + 8
    assert {record.state for record in repo.runs.list()} == {RunState.PUBLISHED}
    assert [record.name for record in repo.branches(hidden=True)] == ["main"]


def test_steps_of_one_run_side_by_side_all_join(repo):
    run = repo.runs.open("hourly")

    def step(number):
        with run.step(f"step {number}") as work:
            for part in range(3):
                work.put(f"out/{number}/{part}", str(number).encode())

    together(*[lambda number=number: step(number) for number in range(6)])
    run.publish()
    expected = {f"out/{n}/{part}": str(n) for n in range(6) for part in range(3)}
    assert tree(repo.ref("main")) == expected


def test_of_many_that_open_a_run_at_once_one_can_write(repo):
    def work(number):
        try:
            run = repo.runs.open("hourly")
            run.put(f"p{number}", b"1")
            run.commit("mine")
            run.publish()
        except graveler.errors.FencedError:
            return None
        return number

    winners = [
        number
        for number in together(*[lambda n=n: work(n) for n in range(6)])
        if number is not None
    ]
    assert winners
    held = set(tree(repo.ref("main")))
    assert {f"p{number}" for number in winners} <= held
    record = repo.runs.get("hourly")
    assert (record.state, record.attempt) == (RunState.PUBLISHED, 6)
    assert [there.name for there in repo.branches(hidden=True)] == ["main"]
