"""Commits by tasks, called as executors call them, without Spark."""

import pickle
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import graveler
from graveler.committed.apply import apply
from graveler.committed.metarange import EMPTY_METARANGE, read
from graveler.committed.slices import Cut
from graveler.committed.splitting import DIRECTORY, HASH, Splitting
from graveler.errors import (
    CorruptionError,
    InvalidInputError,
    MissingDependencyError,
    NoChangesError,
)
from graveler.model import Entry
from graveler.spark.tasks.commits import CommitTask, TaskCommitter
from graveler.spark.tasks.commits import commit as commit_staged
from graveler.testing import World
from graveler.testing.world import link_unseen
from graveler.values import Replacement
from tests.committed.trees import record
from tests.harness.tasks import Tasks
from tests.harness.worlds import interleave, tree

POLICIES = [
    Splitting(HASH, max_bytes=400, raggedness=3, hard=2),
    Splitting(DIRECTORY, max_bytes=600, raggedness=4, hard=3, hard_directories=2),
]
TREES = st.dictionaries(st.text("ab/", min_size=1, max_size=6), st.integers(0, 9), max_size=40)


def commit(repo: Any, spark: Any, branch: str, message: str, **given: Any) -> Any:
    """Commit the staged writes of a branch."""
    given = {"method": "spark", **given}
    return commit_staged(repo.branch(branch), message, spark=spark, **given)


def stage(branch, before, after):
    """Stage the changes from one state to another; paths begin and end with k."""
    paths = {f"k{path}k": size for path, size in after.items() if "//" not in path}
    entries = [
        Entry(path, f"data/{path}", size)
        for path, size in paths.items()
        if before.get(path) != size
    ]
    link_unseen(branch, entries)
    branch.delete_many(sorted(set(before) - set(paths)))
    return paths


def committed(branch, by):
    try:
        return by(branch).metarange
    except NoChangesError:
        return None


@settings(max_examples=25, deadline=None)
@given(
    st.lists(TREES, min_size=1, max_size=5),
    st.sampled_from(POLICIES),
    st.sampled_from([1, 300, 1000, 1 << 20]),
    st.randoms(use_true_random=False),
)
def test_a_commit_by_tasks_has_the_tree_of_one_process(states, splitting, share, random):
    with World().open() as lake:
        repo = lake.create_repository("repo", splitting=splitting)
        main, other = repo.branch("main"), repo.create_branch("other", source="main")
        tasks = Tasks(random=random)
        before: dict[str, int] = {}
        for state in states:
            after = stage(main, before, state)
            stage(other, before, state)
            alone = committed(other, lambda branch: branch.commit("one"))
            done = committed(
                main, lambda branch: commit(repo, tasks, branch.name, "one", share_bytes=share)
            )
            assert done == alone
            before = after


@pytest.fixture
def repo(tmp_path):
    with graveler.open(tmp_path / "lake", create=True) as lake:
        repo = lake.create_repository("repo", splitting=POLICIES[0])
        stage(repo.branch("main"), {}, {f"{n:03d}": n for n in range(300)})
        repo.branch("main").commit("base")
        yield repo


def write(branch):
    stage(branch, {}, {f"{n:03d}": n + 1 for n in range(0, 300, 4)})
    branch.delete_many([f"k{n:03d}k" for n in range(1, 300, 9)])
    return branch


def test_tasks_are_sent_to_other_processes_and_back(repo):
    other = write(repo.create_branch("other", source="main"))
    main, tasks = write(repo.branch("main")), Tasks(copies=True)
    pairs = {"source": "test"}
    alone = other.commit("words", metadata=pairs, committer="ann")
    done = commit(repo, tasks, "main", "words", metadata=pairs, committer="ann", share_bytes=1)
    assert tasks.count > 10
    assert main.head == done
    assert list(main.uncommitted()) == []
    same = ("metarange", "message", "committer", "metadata", "parents", "spans")
    assert [getattr(done, name) for name in same] == [getattr(alone, name) for name in same]
    with pytest.raises(NoChangesError):
        commit(repo, tasks, "main", "words")
    assert commit(repo, tasks, "main", "none", allow_empty=True) == main.head


def test_a_write_that_replaces_does_so_in_a_task(repo):
    stores = repo.stores
    ranges, splitting = stores.ranges, stores.splitting
    old = [record(f"{number:03d}", "1@a") for number in range(100)]
    base = apply(ranges, EMPTY_METARANGE, old, splitting).metarange
    new = [record(f"{number:03d}", "1@b") for number in range(100)]
    changes = [Replacement(*each) if place % 3 else each for place, each in enumerate(new)]
    tasks: Any = Tasks(copies=True)
    done = TaskCommitter(stores, tasks, share_bytes=1).apply(base, changes)
    assert done == apply(ranges, base, changes, splitting)
    assert done.tally.changed == 66
    cut = Cut.of(ranges, base, splitting, (b"a", b"z"), [])
    sent = pickle.dumps(CommitTask(stores.objects, cut))
    assert b"sqlite" not in sent
    assert b"graveler.kv" not in sent


def test_few_bytes_are_committed_by_this_process(repo, looks, monkeypatch):
    tasks = Tasks(copies=True)
    write(repo.branch("main"))
    commit(repo, tasks, "main", "small", method="auto")
    write(repo.branch("main")).put("more", b"1")
    commit(repo, tasks, "main", "asked for", method="process", share_bytes=1)
    assert (tasks.count, looks) == (0, [])
    monkeypatch.setattr("graveler.spark.tasks.commits._LARGE", 1)
    repo.branch("main").put("large", b"1")
    tasks.conf.set("spark.sql.execution.arrow.maxRecordsPerBatch", "0")  # a batch without limit
    commit(repo, tasks, "main", "large", method="auto")
    assert tasks.count > 0
    assert tasks.conf["spark.sql.execution.arrow.maxRecordsPerBatch"] == "0"
    for wrong in ({"method": "cluster"}, {"share_bytes": 0}):
        with pytest.raises(InvalidInputError, match=next(iter(wrong))):
            commit(repo, tasks, "main", "words", **wrong)


def test_workers_are_looked_at_before_tasks_run(repo, looks, monkeypatch):
    main, tasks = write(repo.branch("main")), Tasks()
    commit(repo, tasks, "main", "words")
    assert looks == [tasks]

    def refuse(*_):
        raise MissingDependencyError("a worker lacks graveler")

    monkeypatch.setattr("graveler.spark.tasks.commits.check_job", refuse)
    main.put("more", b"1")
    tasks, head = Tasks(), main.head
    with pytest.raises(MissingDependencyError):
        commit(repo, tasks, "main", "words")
    assert tasks.count == 0
    assert main.head == head


def test_a_task_that_cannot_read_a_range_names_it(repo):
    main = write(repo.branch("main"))
    head = main.head
    first = read(repo.stores.ranges, head.metarange)[0].id.hex()
    file = repo.stores.objects.local_file(f"_graveler/{first}")
    file.write_bytes(file.read_bytes()[:-1])
    with pytest.raises(CorruptionError, match=first):
        commit(repo, Tasks(copies=True), "main", "words", share_bytes=1)
    assert main.head == head
    assert list(main.uncommitted()) != []


def start(repo):
    main = repo.branch("main")
    for number in range(40):
        main.put(f"a/{number:02}", b"0")
    main.commit("base")
    for number in range(0, 60, 3):
        main.put(f"a/{number:02}", b"1")
    main.delete("a/01")


def by_tasks(repo):
    return commit(repo, Tasks(), "main", "tasks", share_bytes=1)


def other(repo):
    main = repo.branch("main")
    main.put("a/05", b"2")
    main.put("z", b"2")
    return main.commit("other")


def test_a_lost_race_loses_no_write():
    def check(world, *outcomes):
        main = world.repo(scripted=False).branch("main")
        found = tree(main)
        assert found["a/05"] == found["z"] == "2"
        assert "a/01" not in found
        assert {found[f"a/{number:02}"] for number in range(0, 60, 3)} == {"1"}
        assert len(found) == 40 - 1 + 6 + 1
        assert list(main.uncommitted()) == []

    interleave(start, by_tasks, other, check, least=10)
    interleave(start, other, by_tasks, check, least=10)
