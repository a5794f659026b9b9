"""Dump and restore of refs. The key-value store is lost, and the objects remain."""

from dataclasses import replace

import pytest

from graveler import checks
from graveler.base.background import Inline
from graveler.errors import (
    AlreadyExistsError,
    KVOutdatedError,
    ObjectNotFoundError,
    ProtectedBranchError,
)
from graveler.fsck.check import fsck
from graveler.lake.factory import connect
from graveler.refs.commits import Expired
from graveler.repository.dumps import restore_refs
from graveler.repository.wholeness import Wholeness
from graveler.testing.clock import FakeClock, SequenceIds
from tests.harness.histories import commit
from tests.harness.worlds import FAULTS, ScriptedWorld, struck_worlds


@pytest.fixture
def full(repo):
    """A repository with every kind of ref and record."""
    main = repo.branch("main")
    for number in range(4):
        commit(main, str(number), k1=f"{number}", k2="2")
    dev = repo.create_branch("dev", "main~2", hidden=True)
    commit(dev, "dev", dev="d")
    repo.merge("dev", into="main")
    with repo.run("hour 05", metadata={"hour": "05"}) as run:
        run.put("out", b"1")
    repo.tags.create("v1", "main~1")
    repo.protection.add("main")
    repo.protection.add("release-*", ["delete"])
    commit(repo.create_branch("side", "v1"), "side ☃", side="s")
    return repo


def without_kv(lake, tmp_path):
    """The lake over the same storage, with an empty key-value store and an empty cache."""
    config = replace(lake._config, kv_uri="mem://", cache_folder=tmp_path / "other-cache")
    return connect(config, clock=FakeClock(), ids=SequenceIds(10**6), background=Inline())


def seen(repo):
    """Return everything that can be read of a repository's refs."""
    branches = {one.name: (one.commit_id, one.hidden) for one in repo.branches(hidden=True)}
    return {
        "branches": branches,
        "tags": repo.tags.list(),
        "protection": repo.protection.list(),
        "history": [list(repo.log(name)) for name in branches],
        "spans": [[made.spans for made in repo.log(name)] for name in branches],
        "trees": {name: list(repo.ref(name).entries()) for name in branches},
        "bytes": {path: repo.ref("main").get(path) for path in ("k1", "out", "dev")},
        "past": list(repo.ref("main~3").entries()),
        "path": list(repo.log(path="dev")),
    }


def test_a_lake_whose_kv_is_lost_is_restored(lake, full, tmp_path):
    before = seen(full)
    contents = full.dump_refs(tmp_path / "refs")
    assert (len(contents.branches), len(contents.tags)) == (3, 1)
    with without_kv(lake, tmp_path) as other:
        with pytest.raises(KVOutdatedError, match="emptied"):
            other.repositories()
        repo = other.restore_repository(tmp_path / "refs", take_over=True)
        assert other.repositories() == ["flights"]
        assert repo.stores.splitting == full.stores.splitting
        assert seen(repo) == before
        assert fsck(repo.stores, objects="checksum").problems == ()
        repo.dump_refs(tmp_path / "again")
        assert (tmp_path / "again").read_bytes() == (tmp_path / "refs").read_bytes()
        repo.protection.remove("main")
        made = commit(repo.branch("main"), "on", k1="new")
        assert made.parents == (before["branches"]["main"][0],)
        assert [line.action for line in repo.moves("main")] == ["commit", "restore", "create"]
        assert [line.action for line in repo.tags.moves("v1")] == ["restore"]


def test_restoring_twice_or_where_all_is_there_changes_nothing(lake, full, tmp_path):
    full.dump_refs(tmp_path / "refs")
    before = seen(full)
    moves = list(full.moves(hidden=True))
    full.restore_refs(tmp_path / "refs")
    lake.restore_repository(tmp_path / "refs", take_over=True)
    assert seen(full) == before
    assert list(full.moves(hidden=True)) == moves


def test_what_was_deleted_since_comes_back_and_what_is_new_stays(full, tmp_path):
    full.dump_refs(tmp_path / "refs")
    side = full.commit("side")
    full.delete_branch("side")
    full.tags.delete("v1")
    full.protection.remove("release-*")
    full.protection.add("main", ["write"])
    full.create_branch("new")
    full.restore_refs(tmp_path / "refs")
    assert full.commit("side") == side
    assert set(full.tags.list()) == {"v1"}
    assert full.protection.list() == {"main": ("write",), "release-*": ("delete",)}
    assert full.branch("new").head == full.commit("main")
    full.delete_branch("dev")
    full.tags.delete("v1")
    full.tags.create("v1", "main")
    moved = commit(full.branch("side"), "moved", side="2")
    with pytest.raises(AlreadyExistsError, match="branch 'side', tag 'v1': at other commits"):
        full.restore_refs(tmp_path / "refs")
    assert full.commit("side") == moved
    assert "dev" not in {one.name for one in full.branches(hidden=True)}


def test_a_dump_is_not_restored_over_another_storage(lake, full, tmp_path):
    full.dump_refs(tmp_path / "refs")
    with without_kv(lake, tmp_path) as other:
        elsewhere = f"file://{tmp_path}/elsewhere"
        with pytest.raises(ObjectNotFoundError, match=r"elsewhere lacks parts .*--missing \d"):
            other.restore_repository(tmp_path / "refs", storage=elsewhere, take_over=True)
        with pytest.raises(KVOutdatedError, match="emptied"):
            other.repositories()
        trains = other.create_repository("trains", storage=elsewhere)
        with pytest.raises(ObjectNotFoundError, match="no ref was written"):
            trains.restore_refs(tmp_path / "refs")
        assert len(list(trains.log())) == 1


def test_a_repository_with_its_own_storage_comes_back_there(lake, tmp_path):
    storage = f"file://{tmp_path}/of-its-own"
    repo = lake.create_repository("trains", storage=storage, default_branch="trunk")
    commit(repo.branch("trunk"), "one", a="1")
    repo.dump_refs(tmp_path / "refs")
    with without_kv(lake, tmp_path) as other:
        made = other.restore_repository(tmp_path / "refs", name="wagons", take_over=True)
        assert (made.name, made.storage) == ("wagons", storage)
        assert made.stores.default_branch == "trunk"
        assert made.ref("trunk").get("a") == b"1"


def test_the_branch_of_a_run_comes_back_without_an_owner(lake, full, tmp_path):
    """An empty attempt of a run that was published then starts from the target.

    What expired is still expired.
    """
    old, expired = full.commit("main~4"), full.stores.refs.expired
    expired.write(old.id, Expired(mark="m1", at=1_357_016_400_000_000, gone=True))
    full.protection.remove("main")
    with full.runs.open("05").step("work") as step:
        step.put("p", b"1")
    full.runs.open("05").publish()
    run = full.runs.open("hour 06")
    run.put("late", b"1")
    run.commit("late")
    run.put("staged", b"1")
    full.dump_refs(tmp_path / "refs")
    with without_kv(lake, tmp_path) as other:
        repo = other.restore_repository(tmp_path / "refs", take_over=True)
        assert dict(repo.stores.refs.expired.list()) == dict(expired.list())
        branch = repo.branch(run.branch)
        assert [entry.path for entry in branch.list("late")] == ["late"]
        assert not branch.exists("staged")
        assert run.branch not in {one.name for one in repo.branches()}
        repo.delete_branch(run.branch)
        assert list(repo.runs.list()) == []
        repo.runs.open("05")
        head = commit(repo.branch("main"), "by hand", q="2")
        assert repo.branch(repo.runs.open("05").branch).head.id == head.id


@pytest.mark.parametrize("fault", FAULTS)
def test_a_restore_that_was_ended_by_a_fault_is_repeated(fault, tmp_path):
    """Branches are restored last. Nothing is visible before, and a repetition completes it."""
    dumped = ScriptedWorld().repo(scripted=False)
    commit(dumped.branch("main"), "one", a="1")
    dumped.create_branch("dev")
    dumped.protection.add("main")
    dumped.tags.create("v1")
    dumped.dump_refs(tmp_path / "refs")
    objects = dumped.stores.objects

    def prepare(repo):
        for info in objects.list():
            repo.stores.objects.put(info.key, objects.get(info.key))

    def restore(repo):
        repo.restore_refs(tmp_path / "refs")

    for world, what, failed in struck_worlds(fault, prepare, restore):
        repo = world.repo(scripted=False)
        if failed is None:
            assert repo.commit("main").message == "one", what
        repo.restore_refs(tmp_path / "refs")
        assert repo.commit("main") == dumped.commit("main") == repo.commit("dev"), what
        assert repo.protection.list() == dumped.protection.list()
        assert repo.tags.list() == dumped.tags.list()


def test_a_branch_that_moves_while_a_dump_is_restored_stays(full, tmp_path, monkeypatch):
    full.dump_refs(tmp_path / "refs")
    fresh = ScriptedWorld().repo(scripted=False)
    whole = Wholeness(())
    monkeypatch.setattr("graveler.repository.dumps.check_commits", lambda *_, **__: whole)

    def moved_then_restored(refs, contents, commits, judge):
        commit(fresh.branch("main"), "quicker", a="1")
        restore_refs(refs, contents, commits, judge=judge)

    monkeypatch.setattr("graveler.repository.dumps.restore_refs", moved_then_restored)
    with pytest.raises(AlreadyExistsError, match="was moved while the dump was restored"):
        fresh.restore_refs(tmp_path / "refs")
    assert fresh.commit("main").message == "quicker"


@pytest.mark.parametrize("deleted", [False, True])
@pytest.mark.parametrize("rule", ["gates", "protection"])
def test_a_restore_bypasses_no_rule_that_came_later(repo, tmp_path, rule, deleted):
    dump = tmp_path / "refs"
    release = repo.create_branch("release-1", "main")
    bad = commit(release, "bad", bad="1")
    repo.dump_refs(dump)
    if deleted:
        repo.delete_branch("release-1")
    else:
        release.reset("main")
    rules = repo.gates if rule == "gates" else repo.protection
    if rule == "gates":
        rules.require("release-*", checks.only_within("good/"))
    else:
        rules.add("release-*", ["merge"])
    with pytest.raises(ProtectedBranchError, match="remove that rule first"):
        repo.restore_refs(dump)
    names = {record.name for record in repo.branches()}
    assert "release-1" not in names or repo.commit("release-1") != bad

    rules.drop("release-*") if rule == "gates" else rules.remove("release-*")
    repo.restore_refs(dump)
    assert repo.commit("release-1") == bad
