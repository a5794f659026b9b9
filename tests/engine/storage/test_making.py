"""Repositories that several processes make at once, that were not finished, and that are deleted."""

import shutil
from contextlib import suppress

import pytest

import graveler
from graveler.errors import (
    AlreadyExistsError,
    BackendUnavailableError,
    GravelerError,
    InvalidInputError,
    KVOutdatedError,
    PermissionDeniedError,
    RepositoryNotFoundError,
    StorageMismatchError,
)
from graveler.objects.local import LocalStore
from graveler.repository.witness.marker import MARKER
from graveler.repository.witness.witness import Witness
from graveler.testing.faults import ProcessDied
from tests.harness.gc_lakes import commit, keys
from tests.harness.worlds import FAULTS, ScriptedWorld, interleave, struck_worlds


@pytest.fixture
def folder(tmp_path):
    graveler.init(tmp_path / "lake").close()
    return tmp_path / "lake"


def attempt(make):
    try:
        return make()
    except GravelerError as error:
        return error


MAKERS = {
    "one repository": (
        lambda repo: repo.lake.create_repository("made", exist_ok=True),
        lambda one, two: one.stores.uid == two.stores.uid,
    ),
    "a new one": (
        lambda repo: repo.lake.create_repository("made"),
        lambda one, two: [AlreadyExistsError] == [type(e) for e in failed(one, two)],
    ),
}


def failed(*outcomes):
    return [outcome for outcome in outcomes if isinstance(outcome, GravelerError)]


@pytest.mark.parametrize("makers", MAKERS)
def test_of_two_makers_at_once_both_or_one_get_it(makers):
    make, fine = MAKERS[makers]

    def check(world, one, two):
        assert fine(one, two)
        commit(world.lake(scripted=False).repository("made"), "main", a="1")

    interleave(lambda _: None, make, make, check, least=1, step=1)


def test_of_two_repositories_with_one_storage_one_is_made(monkeypatch):
    monkeypatch.setattr(ScriptedWorld, "witnessed", True)

    def made(name):
        return lambda repo: repo.lake.create_repository(name, storage=f"{repo.storage}-shared")

    def check(world, one, two):
        [error] = failed(one, two)
        assert isinstance(error, InvalidInputError | StorageMismatchError)
        lake = world.lake(scripted=False)
        [name] = {*lake.repositories()} - {"flights"}
        lake.repository(name).gc.run()

    interleave(lambda _: None, made("one"), made("two"), check, least=1, step=1)


@pytest.mark.parametrize("way", ["create", "delete"])
def test_a_repository_whose_maker_died_is_finished_or_deleted(folder, monkeypatch, way):
    def dies(*_, **__):
        raise ProcessDied

    with graveler.open(folder) as lake, monkeypatch.context() as patched:
        patched.setattr("graveler.refs.branches.Branches.create", dies)
        with pytest.raises(ProcessDied):
            lake.create_repository("flights")
    with graveler.open(folder) as lake:
        with pytest.raises(RepositoryNotFoundError):
            lake.repository("flights")
        if way == "delete":
            lake.delete_repository("flights", purge=True)
            left = [path for path in folder.glob("objects/flights/**/*") if path.is_file()]
            assert [path for path in left if ".graveler-tmp" not in path.parts] == []
            assert [*lake._kv.partitions("refs:")] == []
        commit(lake.create_repository("flights"), "main", a="1")


@pytest.mark.parametrize("call", range(1, 7))
@pytest.mark.parametrize("error", [InvalidInputError, PermissionDeniedError])
def test_a_claim_that_a_store_interrupts_is_finished(folder, monkeypatch, call, error):
    calls = []

    def refused(work):
        def once(store, key, *rest):
            calls.append(key)
            if len(calls) == call:
                raise error("501 or 400, as from a proxy")
            return work(store, key, *rest)

        return once

    with monkeypatch.context() as patched:
        for name in ("head", "get", "put_if_absent", "put_if_match"):
            patched.setattr(LocalStore, name, refused(getattr(LocalStore, name)))
        with graveler.open(folder) as lake:
            assert isinstance(attempt(lambda: lake.create_repository("flights")), error)
    with graveler.open(folder) as lake:
        commit(lake.create_repository("flights"), "main", a="1")
        lake.delete_repository("flights", purge=True)
        lake.create_repository("flights")


def test_a_deleted_repository_comes_back_until_it_is_purged(folder):
    with graveler.open(folder) as lake:
        repo = lake.create_repository("flights")
        commit(repo, "main", a="1")
        lake.create_repository("other")
        repo.stores.objects.put("data/customers.csv", b"of others")
        lake.delete_repository("flights")
        assert lake.repositories() == ["other"]
        with pytest.raises(GravelerError, match="undelete"):
            lake.create_repository("flights")
        assert lake.undelete_repository("flights").ref("main").get("a") == b"1"
        lake.delete_repository("flights")
        lake.delete_repository("flights", purge=True)
        assert keys(repo) == {"data/customers.csv"}
        assert [*lake._kv.partitions(f"refs:{repo.stores.uid}")] == []
        for act in (lake.delete_repository, lake.undelete_repository):
            with pytest.raises(RepositoryNotFoundError, match="trash"):
                act("flights")
        lake.create_repository("flights", adopt=True)
        assert MARKER in keys(repo)


def deleted_twice(lake, folder):
    """Return two deleted repositories of one name; the lake's default storage is that of the first."""
    repos = []
    for number, storage in enumerate([None, folder / "second"]):
        repos.append(lake.create_repository("flights", storage=storage))
        commit(repos[-1], "main", a=str(number))
        lake.delete_repository("flights")
    return repos


def test_a_purge_of_several_in_the_trash_names_one(folder, tmp_path):
    with graveler.open(folder) as lake:
        first, second = deleted_twice(lake, tmp_path)
        before = keys(second)
        with pytest.raises(
            InvalidInputError, match=f"{first.storage}, {second.storage}: .*storage"
        ):
            lake.delete_repository("flights", purge=True)
        assert keys(first)
        assert keys(second) == before
        live = lake.create_repository("flights", storage=tmp_path / "third")
        with pytest.raises(InvalidInputError, match="repo delete flights --purge --storage"):
            lake.create_repository("other", storage=first.storage)
        lake.delete_repository("flights", purge=True, storage=first.storage)
        assert (keys(first), keys(second)) == (set(), before)
        assert lake.repositories() == ["flights"]
        with pytest.raises(RepositoryNotFoundError, match="trash neither"):
            lake.delete_repository("flights", storage=first.storage)
        lake.delete_repository("flights", purge=True, storage=tmp_path / "third")
        assert (keys(live), lake.repositories()) == (set(), [])
        lake.delete_repository("flights", purge=True)
        assert keys(second) == set()


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("act", ["discard", "undelete", "purge"])
def test_a_deletion_is_repeated_after_a_fault_at_any_call(act, fault):
    def prepare(repo):
        commit(repo, "main", a="1")

    def finish(lake):
        lake.delete_repository("flights")
        if act == "undelete":
            lake.undelete_repository("flights")
        elif act == "purge":
            lake.delete_repository("flights", purge=True)

    for world, what, _ in struck_worlds(fault, prepare, lambda repo: finish(repo.lake), step=1):
        lake = world.lake(scripted=False)
        with suppress(RepositoryNotFoundError):  # a part is done
            finish(lake)
        if act == "discard":
            assert lake.repositories() == [], what
            lake.undelete_repository("flights")
        if act == "purge":
            with suppress(RepositoryNotFoundError):
                lake.delete_repository("flights", purge=True)
            with pytest.raises(RepositoryNotFoundError):
                lake.undelete_repository("flights")
            lake.create_repository("flights", adopt=True)  # a lake in memory has no marker
        else:
            assert lake.repository("flights").ref("main").get("a") == b"1", what


@pytest.mark.parametrize("moves", ["before the deletion", "after it"])
def test_a_purge_by_a_copy_of_the_lake_deletes_nothing(tmp_path, moves):
    """The copy of a folder has the storage of the original, which goes on."""
    store = f"file://{tmp_path}/store"
    with graveler.init(tmp_path / "lake", storage_uri=store) as lake:
        commit(lake.create_repository("flights"), "main", a="1")
    shutil.copytree(tmp_path / "lake", tmp_path / "copy")
    with graveler.open(tmp_path / "copy") as copy:
        if moves == "after it":
            copy.delete_repository("flights")
        with graveler.open(tmp_path / "lake") as lake:
            commit(lake.repository("flights"), "main", a="2")
        with pytest.raises(KVOutdatedError, match="two copies"):
            copy.delete_repository("flights", purge=True)
        assert copy.undelete_repository("flights").ref("main").get("a") == b"1"
    with graveler.open(tmp_path / "lake") as lake:
        repo = lake.repository("flights")
        assert repo.fsck().sound
        assert repo.ref("main").get("a") == b"2"
        lake.delete_repository("flights", purge=True)
        assert keys(repo) == set()


def test_a_purge_that_cannot_compare_the_counts_deletes_nothing(folder, monkeypatch):
    def unreachable(_):
        raise BackendUnavailableError("the store does not answer")

    with graveler.open(folder) as lake:
        repo = lake.create_repository("flights")
        commit(repo, "main", a="1")
        before = keys(repo)
        with monkeypatch.context() as patched:
            patched.setattr(Witness, "check", unreachable)
            with pytest.raises(BackendUnavailableError):
                lake.delete_repository("flights", purge=True)
        assert keys(repo) == before
        lake.delete_repository("flights", purge=True)
        assert keys(repo) == set()
