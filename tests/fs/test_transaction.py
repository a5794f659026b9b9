"""A transaction is one commit or changes nothing."""

from concurrent.futures import ThreadPoolExecutor

import pytest

from graveler.errors import StateError
from graveler.fs import GravelerFileSystem


def contents(view):
    return {entry.path: view.get(entry.path) for entry in view.entries()}


@pytest.fixture
def dev(repo):
    branch = repo.branch("dev")
    branch.put("old", b"old")
    branch.put("gone", b"gone")
    branch.commit("base")
    return branch


def test_all_of_a_transaction_is_one_commit(grav, repo, dev):
    before = dev.head
    with grav.transaction(message="hour 05", metadata={"source": "bts"}) as transaction:
        with grav.open("flights/dev/a", "wb") as file:
            file.write(b"one")
        grav.pipe("flights/dev/b", b"two")
        grav.mv("flights/dev/old", "flights/dev/new")
        grav.rm("flights/dev/gone")
        other = GravelerFileSystem(grav.location, skip_instance_cache=True)
        assert sorted(contents(dev)) == ["gone", "old"]
        assert other.find("flights/dev") == ["flights/dev/gone", "flights/dev/old"]
        assert grav.find("flights/dev") == ["flights/dev/a", "flights/dev/b", "flights/dev/new"]
        assert grav.cat("flights/dev/new") == b"old"
    made = transaction.commits["flights/dev"]
    assert made == dev.head
    assert made.parents == (before.id,)
    assert (made.message, made.metadata) == ("hour 05", {"source": "bts"})
    assert contents(repo.ref("dev")) == {"a": b"one", "b": b"two", "new": b"old"}
    assert not list(dev.uncommitted())


def test_an_exception_leaves_nothing(grav, dev):
    before = dev.head
    with pytest.raises(RuntimeError), grav.transaction:
        grav.pipe("flights/dev/a", b"one")
        grav.rm("flights/dev/old")
        raise RuntimeError
    assert dev.head == before
    assert sorted(contents(dev)) == ["gone", "old"]
    grav.pipe("flights/dev/after", b"")
    assert grav.exists("flights/dev/after")


def test_writes_staged_by_others_stay_and_yield_where_older(grav, repo, dev):
    dev.put("theirs", b"theirs")
    dev.put("both", b"older")
    with grav.transaction:
        grav.pipe("flights/dev/both", b"newer")
    assert [change.path for change in dev.uncommitted()] == ["theirs"]
    assert contents(repo.ref("dev"))["both"] == b"newer"
    assert contents(dev)["both"] == b"newer"


def test_a_file_that_is_still_open_at_the_end_stops_all_of_it(grav, dev):
    before = dev.head
    with pytest.raises(OSError, match="a is still open"), grav.transaction:
        grav.pipe("flights/dev/b", b"two")
        grav.open("flights/dev/a", "wb").write(b"half")
    assert dev.head == before
    assert not list(dev.uncommitted())


def test_a_transaction_that_changes_nothing_commits_nothing(grav, dev):
    before = dev.head
    with grav.transaction as transaction:
        grav.pipe("flights/dev/old", b"old")
    assert transaction.commits == {}
    assert dev.head == before
    with grav.transaction:
        pass


def test_each_branch_gets_a_commit(grav, repo, dev):
    with grav.transaction as transaction:
        grav.pipe("flights/dev/a", b"one")
        grav.cp("flights/dev/old", "flights/main/old")
    assert sorted(transaction.commits) == ["flights/dev", "flights/main"]
    assert transaction.commits["flights/dev"].message == "write a"
    assert contents(repo.ref("main")) == {"old": b"old"}


def test_without_a_with_block(grav, repo, dev):
    grav.start_transaction()
    grav.pipe({"flights/dev/a": b"one", "flights/dev/b": b"two"})
    assert "a" not in contents(dev)
    grav.end_transaction()
    assert contents(repo.ref("dev"))["a"] == b"one"
    assert dev.head.message == "write 2 files (a, …)"


def test_a_nested_transaction_is_refused_and_leaves_nothing(grav, repo, dev):
    before = dev.head
    with pytest.raises(StateError, match="do not nest"), grav.transaction:
        grav.pipe("flights/dev/a", b"one")
        with grav.transaction:
            grav.pipe("flights/dev/b", b"two")
    assert dev.head == before
    assert not list(dev.uncommitted())

    with grav.transaction:
        grav.pipe("flights/dev/a", b"one")
        with pytest.raises(StateError):
            grav.start_transaction()
        with pytest.raises(StateError), grav.transaction(message="inner"):
            pass
        grav.pipe("flights/dev/b", b"two")
    assert set(contents(repo.ref("dev"))) == {"a", "b", "old", "gone"}


def test_threads_of_one_instance_share_the_transaction(grav, repo, dev):
    with grav.transaction, ThreadPoolExecutor(8) as pool:
        for number in range(40):
            pool.submit(grav.pipe, f"flights/dev/in/{number:02}", b"")
            pool.submit(grav.find, "flights/dev")
        pool.shutdown()
        for half in range(4):
            grav.mv(f"flights/dev/in/{half}*", f"flights/dev/out{half}/")
    assert len(grav.find("flights/dev@")) == 42
    assert grav.find("flights/dev@/in") == []


def test_threads_of_one_instance_move_side_by_side(grav, repo):
    grav.pipe({f"flights/dev/in{half}/{number}": b"" for half in range(4) for number in range(10)})

    def move(half):
        grav.mv(f"flights/dev/in{half}", f"flights/dev/out{half}", recursive=True)

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(move, range(4)))
    assert len(grav.find("flights/dev")) == 40
    assert grav.ls("flights/dev", detail=False) == [f"flights/dev/out{half}" for half in range(4)]


def test_a_commit_that_lands_meanwhile_is_kept(grav, repo, dev):
    with grav.transaction:
        grav.pipe("flights/dev/a", b"one")
        dev.put("theirs", b"theirs")
        theirs = dev.commit("theirs")
    assert dev.head.parents == (theirs.id,)
    assert set(contents(repo.ref("dev"))) == {"a", "theirs", "old", "gone"}


@pytest.mark.parametrize("fault", ["no-answer", "lost-reply", "lost-write", "dies"])
def test_with_a_fault_at_any_call_all_or_nothing_is_visible(fault):
    from tests.harness.worlds import struck_worlds, tree

    def prepare(repo):
        dev = repo.create_branch("dev")
        dev.put("old", b"old")
        dev.commit("base")
        dev.put("theirs", b"theirs")

    def operate(repo):
        dev = repo.branch("dev")
        entries = [dev.store("a", b"one"), dev.store("b", b"two")]
        dev.commit_changes(entries, deleted=["old"], message="change")

    old, new = {"old": "old"}, {"a": "one", "b": "two"}
    seen = []
    for world, what, failed in struck_worlds(fault, prepare, operate):
        repo = world.repo()
        seen.append(tree(repo.ref("dev")))
        assert seen[-1] in (old, new), what
        assert tree(repo.branch("dev")) == {**seen[-1], "theirs": "theirs"}, what
        if failed is None:
            assert seen[-1] == new, what
    assert new in seen
