"""Repositories of a lake: their storage and creation, and what the lake keeps of them."""

import shutil
from pathlib import Path

import pytest

from graveler.base.background import Inline
from graveler.config import LakeConfig
from graveler.errors import AlreadyExistsError, RefNotFoundError
from graveler.kv.memory import MemoryKVStore
from graveler.lake.factory import init
from graveler.lake.factory import open as open_lake
from graveler.lake.lake import Lake
from graveler.testing.clock import FakeClock, SequenceIds


class CountedKV(MemoryKVStore):
    """Counts writes."""

    writes = 0

    def set(self, partition, key, value):
        self.writes += 1
        super().set(partition, key, value)

    def set_if(self, partition, key, value, predicate):
        self.writes += 1
        return super().set_if(partition, key, value, predicate)


def test_a_storage_folder_does_not_depend_on_the_working_folder(tmp_path, monkeypatch):
    here, there = tmp_path / "here", tmp_path / "there"
    here.mkdir()
    there.mkdir()
    monkeypatch.chdir(here)
    with init(tmp_path / "lake") as lake:
        main = lake.create_repository("flights", storage="bytes").branch("main")
        main.put("a", b"1")
        main.commit("one")
    monkeypatch.chdir(there)
    with open_lake(tmp_path / "lake") as lake:
        repo = lake.repository("flights")
        assert repo.storage == f"file://{here}/bytes"
        assert repo.ref("main").get("a") == b"1"


def test_asking_for_a_repository_that_is_there_writes_nothing(tmp_path):
    kv = CountedKV()
    config = LakeConfig(location=str(tmp_path), kv_uri="mem://", storage_uri=f"file://{tmp_path}")
    lake = Lake(config, kv, clock=FakeClock(), ids=SequenceIds(), background=Inline())
    made = lake.create_repository("flights", storage=str(tmp_path / "far"))
    writes = kv.writes
    assert writes > 0
    again = lake.create_repository("flights", exist_ok=True)
    assert (again.storage, again.stores.uid) == (made.storage, made.stores.uid)
    with pytest.raises(AlreadyExistsError):
        lake.create_repository("flights")
    assert kv.writes == writes
    lake.close()


@pytest.mark.parametrize("kv", ["sqlite", "rocksdb"])
def test_a_lake_can_be_moved_and_a_copy_of_one_stands_alone(tmp_path, kv):
    with init(tmp_path / "a", kv_uri=f"{kv}://kv") as lake:
        main = lake.create_repository("flights").branch("main")
        main.put("x", b"1")
        main.commit("one")
    shutil.copytree(tmp_path / "a", tmp_path / "copy")
    shutil.move(tmp_path / "a", tmp_path / "moved")
    with open_lake(tmp_path / "copy") as lake:
        copied = lake.repository("flights")
        copied.branch("main").put("y", b"2")
        copied.branch("main").commit("two")
        assert copied.storage == (tmp_path / "copy" / "objects" / "flights").as_uri()
    shutil.rmtree(tmp_path / "copy")
    with open_lake(tmp_path / "moved") as lake:
        repo = lake.repository("flights")
        assert repo.ref("main").get("x") == b"1"
        assert not repo.ref("main").exists("y")


def test_a_closed_lake_has_no_file_mapped_or_open(tmp_path):
    def held():
        files = [str(path.readlink()) for path in Path("/proc/self/fd").iterdir() if path.exists()]
        maps = Path("/proc/self/maps").read_text().splitlines()
        return [line for line in (*files, *maps) if str(tmp_path) in line]

    with init(tmp_path / "lake") as lake:
        main = lake.create_repository("flights").branch("main")
        main.put("a", b"1")
        main.commit("one")
    with open_lake(tmp_path / "lake") as lake:
        view = lake.repository("flights").ref("main")
        assert view.get("a") == b"1"
        assert [entry and entry.size for entry in view.stat_many(["a"])] == [1]
        assert [entry.path for entry in view.entries()] == ["a"]
        assert held()
    assert held() == []


def test_a_view_is_a_branch_with_its_writes_or_a_commit(lake):
    repo = lake.create_repository("flights")
    main = repo.branch("main")
    main.put("a", b"1")
    repo.tags.create("v1", main.commit("1"))
    main.put("a", b"staged")
    assert [repo.view(ref).get("a") for ref in ("main", "main@", "v1")] == [b"staged", b"1", b"1"]
    with pytest.raises(RefNotFoundError, match="'none'"):
        repo.view("none")
