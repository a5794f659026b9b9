"""Merges by tasks, called as executors call them, without Spark."""

import pickle
from dataclasses import replace
from threading import Lock
from typing import Any

import pytest

import graveler
from graveler.committed.merge_slices import Order, Slice
from graveler.committed.metarange import read
from graveler.committed.splitting import DIRECTORY, HASH, Splitting
from graveler.errors import CorruptionError, InvalidInputError, MergeConflictError
from graveler.model import Entry
from graveler.spark.merges import MergeTask, merge
from graveler.testing.world import link_unseen
from tests.harness.tasks import Tasks
from tests.harness.worlds import interleave, tree

POLICIES = {
    "hash": Splitting(HASH, max_bytes=400, raggedness=3, hard=2),
    "directory": Splitting(DIRECTORY, max_bytes=600, raggedness=4, hard=3, hard_directories=2),
}
LOG = "tables/a/_delta_log"


def session(**given: Any) -> Any:
    return Tasks(copies=True, **given)


@pytest.fixture(params=sorted(POLICIES))
def repo(tmp_path, request):
    with graveler.open(tmp_path / "lake", create=True) as lake:
        yield lake.create_repository("repo", splitting=POLICIES[request.param])


def put(branch, sizes):
    link_unseen(branch, [Entry(path, f"data/{path}", size) for path, size in sizes.items()])
    return branch


def diverged(repo, conflicts=()):
    """Make the branches dev, main, and other, which equals main; each side has many changes."""
    main = put(repo.branch("main"), {f"t/{number:03}": number for number in range(300)})
    main.commit("base")
    dev = put(repo.create_branch("dev"), {f"t/{number:03}": 1000 for number in range(0, 300, 6)})
    put(dev, {f"t/{number:03}": 1 for number in conflicts})
    dev.delete_many([f"t/{number:03}" for number in range(1, 300, 6)])
    dev.commit("dev")
    put(main, {f"t/{number:03}": 2000 for number in range(2, 300, 6)})
    put(main, {f"t/{number:03}": 2 for number in conflicts})
    main.delete_many([f"t/{number:03}" for number in range(3, 300, 6)])
    main.commit("main")
    repo.create_branch("other", "main")
    return repo


def by_tasks(repo, tasks=None, **given):
    arguments: dict[str, Any] = {"method": "spark", "share_bytes": 1} | given
    return merge(repo, tasks or session(), "dev", "main", **arguments)


def same_trees(repo):
    return repo.commit("main").metarange == repo.commit("other").metarange


def test_the_commit_of_tasks_is_that_of_one_process(repo):
    diverged(repo)
    tasks, words = session(), {"message": "m", "metadata": {"a": "b"}, "committer": "ann"}
    done = by_tasks(repo, tasks, **words)
    assert tasks.count > 10
    alone = repo.merge("dev", into="other", **words)
    names = ("metarange", "message", "metadata", "committer", "parents", "spans")
    assert [getattr(done.commit, name) for name in names] == [
        getattr(alone.commit, name) for name in names
    ]
    assert repo.commit("main") == done.commit
    assert by_tasks(repo, tasks).already


def test_workers_are_looked_at_before_tasks_run(repo, looks):
    diverged(repo)
    by_tasks(repo, tasks := session(), method="auto")
    assert looks == []
    merge(repo, tasks, "dev", "other", method="spark")
    assert looks == [tasks]


SOME = range(4, 300, 12)


def test_conflicts_are_those_of_one_process(repo):
    diverged(repo, SOME)
    head = repo.commit("main")
    with pytest.raises(MergeConflictError) as alone:
        repo.merge("dev", into="main")
    with pytest.raises(MergeConflictError) as refused:
        by_tasks(repo)
    assert refused.value.conflicts == alone.value.conflicts
    assert refused.value.count == alone.value.count == len(SOME)
    assert str(refused.value) == str(alone.value)
    assert repo.commit("main") == head


def by_path(conflict):
    number = int(conflict.path[-3:])
    answers = ("source-wins", "dest-wins", "delete", conflict.source, conflict.dest)
    return answers[number // 12 % 5]


@pytest.mark.parametrize(
    "strategy",
    [
        "source-wins",
        "dest-wins",
        {"t/1*": "source-wins", "**": "dest-wins"},
        by_path,
        {"t/0*": by_path, "t/2*": lambda conflict: "delete", "**": "source-wins"},
    ],
    ids=["source", "dest", "patterns", "resolver", "mixed"],
)
def test_strategies_decide_as_in_one_process(repo, strategy):
    diverged(repo, SOME)
    by_tasks(repo, strategy=strategy)
    repo.merge("dev", into="other", strategy=strategy)
    assert same_trees(repo)


def test_a_resolver_with_an_entry_of_its_own_is_refused(repo):
    diverged(repo, SOME)
    head = repo.commit("main")
    for made in (
        lambda conflict: replace(conflict.source, size=7),
        lambda conflict: conflict.base,
    ):
        with pytest.raises(InvalidInputError, match=r"t/004.*method='process'"):
            by_tasks(repo, strategy=made)
    assert repo.commit("main") == head


def test_a_resolver_that_fails_is_named_as_in_one_process(repo):
    diverged(repo, SOME)

    def broken(conflict):
        raise KeyError(conflict.path)

    with pytest.raises(InvalidInputError, match="failed at 't/004': KeyError"):
        by_tasks(repo, strategy=broken)
    with pytest.raises(InvalidInputError, match="returned 7 for 't/004'"):
        by_tasks(repo, strategy={"**": lambda conflict: 7})


def test_a_resolver_that_cannot_be_sent_is_refused(repo):
    diverged(repo, SOME)
    lock, tasks = Lock(), session()

    def locked(conflict):
        with lock:
            return "source-wins"

    with pytest.raises(InvalidInputError, match=r"cannot be sent to tasks.*lock"):
        by_tasks(repo, tasks, strategy={"**": locked})
    assert tasks.count == 0
    by_tasks(repo, tasks, strategy={"**": locked}, method="auto")
    assert tasks.count == 0
    repo.merge("dev", into="other", strategy="source-wins")
    assert same_trees(repo)


def test_few_bytes_are_merged_by_this_process(repo, monkeypatch):
    diverged(repo)
    tasks = session()
    by_tasks(repo, tasks, method="auto")
    assert tasks.count == 0
    monkeypatch.setattr("graveler.spark.merges._LARGE", 1)
    merge(repo, tasks, "dev", "other", share_bytes=1)
    assert tasks.count > 0
    assert same_trees(repo)
    with pytest.raises(InvalidInputError, match="method"):
        by_tasks(repo, method="cluster")
    with pytest.raises(InvalidInputError, match="strategy"):
        by_tasks(repo, strategy="best")
    with pytest.raises(InvalidInputError, match="two different branches"):
        merge(repo, tasks, "main", "main")


@pytest.mark.parametrize("strategy", [None, "source-wins", {"tables/a/": "dest-wins"}])
def test_a_table_of_delta_lake_is_merged_whole(repo, strategy):
    main = put(repo.branch("main"), {f"{LOG}/0.json": 0, "tables/a/part-0": 0})
    main.commit("table")
    diverged(repo)
    for number, name in enumerate(("dev", "main", "other")):
        side = min(number, 1)
        branch = repo.branch(name)
        put(branch, {f"{LOG}/1.json": 10 + side, f"tables/a/part-{side}": side})
        branch.commit("append")
    if strategy is None:
        errors = []
        for merged in (by_tasks, lambda repo: repo.merge("dev", into="main")):
            with pytest.raises(MergeConflictError, match="whole table") as refused:
                merged(repo)
            errors.append(refused.value)
        assert errors[0].conflicts == errors[1].conflicts
        assert [conflict.path for conflict in errors[0].conflicts] == [LOG]
    else:
        done = by_tasks(repo, strategy=strategy)
        alone = repo.merge("dev", into="other", strategy=strategy)
        assert done.commit.metadata == alone.commit.metadata
        assert done.commit.metadata["graveler.whole"] == LOG
        assert same_trees(repo)


def test_a_criss_cross_is_merged_by_this_process(repo):
    diverged(repo)
    dev, main = repo.commit("dev"), repo.commit("main")
    repo.merge(dev.id, into="main")
    repo.merge(main.id, into="dev")
    put(repo.branch("dev"), {"t/004": 9}).commit("more")
    put(repo.branch("main"), {"t/010": 9}).commit("more")
    repo.create_branch("again", "main")
    tasks = session()
    by_tasks(repo, tasks)
    repo.merge("dev", into="again")
    assert tasks.count == 0
    assert repo.commit("main").metarange == repo.commit("again").metarange


def test_a_task_knows_nothing_of_the_key_value_store(repo):
    tree = diverged(repo).commit("main").metarange
    order = Order(tree, tree, tree, None, (), repo.stores.splitting)
    sent = pickle.dumps(MergeTask(repo.stores.objects, order, [Slice()], {"**": "source-wins"}))
    assert b"sqlite" not in sent
    assert b"graveler.kv" not in sent


def test_a_task_that_cannot_read_a_range_names_it(repo):
    diverged(repo)
    head = repo.commit("main")
    first = read(repo.stores.ranges, head.metarange)[0].id.hex()
    file = repo.stores.objects.local_file(f"_graveler/{first}")
    file.write_bytes(file.read_bytes()[:-1])
    with pytest.raises(CorruptionError, match=first):
        by_tasks(repo)
    assert repo.commit("main") == head


def start(repo):
    main = repo.branch("main")
    for number in range(30):
        main.put(f"a/{number:02}", b"0")
    main.commit("base")
    dev = repo.create_branch("dev")
    for number in range(0, 30, 3):
        dev.put(f"a/{number:02}", b"dev")
        main.put(f"a/{number + 1:02}", b"main")
    dev.commit("dev")
    main.commit("main")


def operate(repo):
    tasks: Any = Tasks()
    return merge(repo, tasks, "dev", "main", method="spark", share_bytes=1)


def other(repo):
    main = repo.branch("main")
    main.put("a/02", b"other")
    return main.commit("other")


def test_a_lost_race_merges_again_into_the_new_head():
    def check(world, *outcomes):
        found = tree(world.repo(scripted=False).ref("main"))
        assert [found[f"a/{number:02}"] for number in range(4)] == ["dev", "main", "other", "dev"]
        assert len(found) == 30

    interleave(start, operate, other, check, least=10)
