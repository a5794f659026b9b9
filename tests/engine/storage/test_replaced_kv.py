"""A key-value store that is replaced under an open lake: no later write is acknowledged."""

import shutil
import sqlite3
from contextlib import closing

import pytest

import graveler
from graveler.errors import KVOutdatedError
from graveler.lake.factory import write_default_config
from tests.harness.programs import output_of


def _copy(place, copy):
    if place.is_dir():
        shutil.copytree(place, copy, ignore=shutil.ignore_patterns("LOCK"))
    else:
        with closing(sqlite3.connect(place)) as one, closing(sqlite3.connect(copy)) as other:
            one.backup(other)


def _remove(place):
    for file in sorted(place.parent.glob(f"{place.name}*")):
        shutil.rmtree(file) if file.is_dir() else file.unlink()


def _replace(place, copy):
    _remove(place)
    copy.rename(place)


def _replace_in_place(place, copy):
    if not place.is_dir():
        _replace(place, copy)
        return
    for file in place.iterdir():
        if file.name != "LOCK":
            file.unlink()
    shutil.copytree(copy, place, dirs_exist_ok=True)


def _rename_over(place, copy):
    if place.is_dir():
        place.rename(place.with_name("earlier"))
    copy.rename(place)


def _empty(place, _):
    if place.is_dir():
        for file in place.iterdir():
            file.unlink()
    else:
        _remove(place)


@pytest.fixture(params=["sqlite", "rocksdb"])
def opened(request, tmp_path):
    """An open lake with a commit, the place of its key-value store, and an earlier copy of it."""
    folder = tmp_path / "lake"
    write_default_config(folder, kv_uri=f"{request.param}://kv")
    with graveler.open(folder, create=True) as lake:
        repo = lake.create_repository("flights")
        repo.branch("main").put("kept", b"1")
        repo.branch("main").commit("kept")
        _copy(folder / "kv", tmp_path / "copy")
        repo.branch("main").put("late", b"1")
        repo.branch("main").commit("late")
        yield lake, folder / "kv", tmp_path / "copy"


@pytest.mark.parametrize(
    "change", [_replace, _replace_in_place, _rename_over, _empty, lambda kv, _: _remove(kv)]
)
def test_no_write_is_acknowledged(opened, change):
    lake, place, copy = opened
    repo = lake.repository("flights")
    main = repo.branch("main")
    main.put("staged", b"1")
    change(place, copy)
    for write in (
        lambda: main.put("lost", b"1"),
        lambda: main.put_many([("lost", b"1")]),
        lambda: main.commit("lost"),
        main.reset,
        lambda: repo.create_branch("lost"),
        lambda: repo.tags.create("lost"),
        lambda: repo.runs.open("lost"),
        lambda: lake.create_repository("lost"),
    ):
        with pytest.raises(KVOutdatedError) as refused:
            write()
        for part in (str(place), "replaced or removed", "start it again"):
            assert part in str(refused.value)


def test_the_restored_store_is_left_as_it_is(opened):
    """A new process finds the restored state, and not what the earlier process still had open."""
    lake, place, copy = opened
    _replace(place, copy)
    with pytest.raises(KVOutdatedError):
        lake.repository("flights").branch("main").put("lost", b"1")
    lake.close()
    assert output_of("engine.storage.programs.restored", place.parent) == "['kept']\n"


def test_a_process_that_ends_leaves_the_restored_store(tmp_path):
    write_default_config(tmp_path / "lake", kv_uri="rocksdb://kv")
    output_of("engine.storage.programs.replaced", tmp_path / "lake")
    assert output_of("engine.storage.programs.restored", tmp_path / "lake") == "['kept']\n"


def test_rocksdb_is_not_opened_twice_after_that(tmp_path):
    write_default_config(tmp_path / "lake", kv_uri="rocksdb://kv")
    lake = graveler.open(tmp_path / "lake", create=True)
    lake.create_repository("flights")
    shutil.rmtree(tmp_path / "lake/kv")
    lake.close()
    with pytest.raises(KVOutdatedError, match="End this process"):
        graveler.open(tmp_path / "lake")
