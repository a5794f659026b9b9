"""Packing by tasks, called as executors call them, without Spark."""

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import graveler
from graveler.committed.metarange import read
from graveler.committed.pack import Packer
from graveler.committed.splitting import DIRECTORY, HASH, Splitting
from graveler.errors import CorruptionError, InvalidInputError
from graveler.model import Entry
from graveler.spark.packing import TaskPacker, pack
from graveler.testing import World
from graveler.testing.world import link_unseen
from tests.harness.tasks import Tasks

POLICIES = [
    Splitting(HASH, max_bytes=400, raggedness=3, hard=2),
    Splitting(DIRECTORY, max_bytes=600, raggedness=4, hard=3, hard_directories=2),
]
TREES = st.dictionaries(st.text("ab/", min_size=1, max_size=6), st.integers(0, 9), max_size=40)


def session(**given: Any) -> Any:
    return Tasks(**given)


def commit(repo, states):
    main = repo.branch("main")
    before: dict[str, int] = {}
    for number, state in enumerate(states):
        after = {f"k{path}k": size for path, size in state.items() if "//" not in path}
        link_unseen(
            main,
            [
                Entry(path, f"data/{path}", size)
                for path, size in after.items()
                if before.get(path) != size
            ],
        )
        main.delete_many(sorted(set(before) - set(after)))
        if before != after:
            main.commit(f"{number}")
        before = after


@settings(max_examples=60, deadline=None)
@given(
    st.lists(TREES, min_size=1, max_size=5),
    st.sampled_from(POLICIES),
    st.sampled_from([1, 300, 1 << 20]),
    st.booleans(),
)
def test_tasks_pack_a_tree_as_one_process_does(states, splitting, share, everything):
    with World().open() as lake:
        repo = lake.create_repository("repo", splitting=splitting)
        commit(repo, states)
        tree = repo.branch("main").head.metarange
        expected = Packer(repo.stores.ranges, splitting, everything).pack(tree)
        packer = TaskPacker(repo.stores, session(), everything=everything, share_bytes=share)
        assert packer.pack(tree) == expected


@pytest.fixture
def repo(tmp_path):
    with graveler.open(tmp_path / "lake", create=True) as lake:
        repo = lake.create_repository("repo", splitting=POLICIES[0])
        commit(repo, [{f"{n:03d}": n for n in range(300) if n % 7 >= gone} for gone in range(5)])
        yield repo


def test_the_commit_of_tasks_is_that_of_one_process(repo, looks):
    other = repo.create_branch("other", source="main")
    tasks = session(copies=True)
    done = pack(repo, tasks, "main", method="spark", share_bytes=1)
    assert tasks.count > 1
    assert looks == [tasks]
    assert done.before > done.after > 0
    alone = pack(repo, tasks, other, method="process")
    assert replace(alone, commit=None) == replace(done, commit=None)
    assert repo.commit("other").metarange == repo.commit("main").metarange
    assert repo.commit("other").metadata == repo.commit("main").metadata
    assert list(repo.diff("main~1", "main")) == []
    assert pack(repo, tasks, "main", method="spark").commit is None


def test_few_bytes_are_packed_by_this_process(repo):
    tasks = session()
    assert pack(repo, tasks, "main").commit is not None
    assert tasks.count == 0
    with pytest.raises(InvalidInputError, match="method"):
        pack(repo, tasks, "main", method="cluster")
    with pytest.raises(InvalidInputError, match="share_bytes"):
        pack(repo, tasks, "main", everything=True, method="spark", share_bytes=0)


@pytest.mark.parametrize("given", [{"message": "x" * 70_000}, {"committer": "x" * 2_000}], ids=list)
def test_a_text_that_no_commit_holds_is_refused_at_once(repo, given):
    tasks, head = session(), repo.branch("main").head
    with pytest.raises(InvalidInputError, match="give at most"):
        pack(repo, tasks, "main", method="spark", **given)
    with pytest.raises(InvalidInputError, match="give at most"):
        repo.pack("main", **given)
    assert tasks.count == 0
    assert repo.branch("main").head == head


def test_a_task_that_cannot_read_a_range_names_it(repo):
    head = repo.branch("main").head
    first = read(repo.stores.ranges, head.metarange)[0].id.hex()
    file = repo.stores.objects.local_file(f"_graveler/{first}")
    file.write_bytes(file.read_bytes()[:-1])
    with pytest.raises(CorruptionError, match=first):
        pack(repo, session(copies=True), "main", method="spark", everything=True)
    assert repo.branch("main").head == head
