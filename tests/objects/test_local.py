import io
import os
from datetime import timedelta
from pathlib import Path

import pytest

from graveler.base.clock import SystemClock
from graveler.errors import ObjectNotFoundError
from graveler.objects.local import LocalStore
from graveler.testing.clock import FakeClock
from tests.objects.suite import ObjectStoreSuite


class TestLocalStore(ObjectStoreSuite):
    @pytest.fixture
    def store(self, tmp_path):
        return LocalStore(tmp_path / "new" / "objects")


class Slow(io.BytesIO):
    """A stream that calls a function of the test before its end."""

    def __init__(self, content, meanwhile):
        super().__init__(content)
        self._meanwhile = meanwhile

    def read(self, size=-1, /):
        piece = super().read(size)
        if not piece:
            self._meanwhile()
        return piece


@pytest.mark.parametrize("days", [2, -2])
def test_files_in_writing_stay_for_a_process_whose_clock_jumped(tmp_path, days):
    clock = FakeClock(SystemClock().now() + timedelta(days=days))
    other = LocalStore(tmp_path, clock=clock)
    store = LocalStore(tmp_path)
    store.put("slow", Slow(b"content", lambda: other.put("other", b"1")))
    assert store.get("slow") == b"content"
    temporary = tmp_path / ".graveler-tmp"
    assert [path.name for path in temporary.iterdir() if path.name != "lock"] == []


def test_a_pipe_is_no_object_and_no_call_waits_for_its_writer(tmp_path):
    store = LocalStore(tmp_path)
    os.mkfifo(tmp_path / "odd")
    for read in (store.head, store.get, store.open, lambda key: store.get_range(key, 0, 1)):
        with pytest.raises(ObjectNotFoundError, match="nothing at"):
            read("odd")


@pytest.fixture
def synced(monkeypatch):
    """The folders that are synced after the fixture is set up."""
    folders = []
    fsync = os.fsync

    def noted(descriptor):
        folders.append(Path(f"/proc/self/fd/{descriptor}").readlink())
        fsync(descriptor)

    monkeypatch.setattr(os, "fsync", noted)
    return folders


def test_a_folder_with_a_durable_name_is_not_synced_again(tmp_path, synced):
    store = LocalStore(tmp_path)
    store.put("a/b/1", b"")
    assert {tmp_path, tmp_path / "a", tmp_path / "a/b"} <= set(synced)
    synced.clear()
    store.put("a/b/2", b"")
    assert [path for path in synced if path.is_dir()] == [tmp_path / "a/b"]
    synced.clear()
    assert not store.put_if_absent("a/b/2", b"")  # its writer may have died unsynced
    assert synced == [tmp_path / "a/b"]


def test_files_put_together_are_durable_before_they_have_names(tmp_path, synced):
    store = LocalStore(tmp_path)
    store.put("a/0", b"")
    synced.clear()
    assert all(store.put_all_if_absent([("a/1", b"1"), ("a/2", b"2"), ("b/1", b"3")]))
    assert [path.parent.name for path in synced[:3]] == [".graveler-tmp"] * 3
    assert {path for path in synced[3:] if path.is_dir()} >= {tmp_path / "a", tmp_path / "b"}
    assert synced[3:].count(tmp_path / "a") == 1
    synced.clear()
    assert not any(store.put_all_if_absent([("a/1", b"1"), ("a/2", b"2")]))
    assert synced == [tmp_path / "a"]  # their writer may have died unsynced


def test_a_folder_that_was_removed_and_made_again_is_another_one(tmp_path, synced):
    store, other = LocalStore(tmp_path), LocalStore(tmp_path)
    store.put("a/b/1", b"")
    other.delete("a/b/1")
    assert not (tmp_path / "a").exists()
    (tmp_path / "a/b").mkdir(parents=True)  # as by a process that dies before its sync
    synced.clear()
    store.put("a/b/2", b"")
    assert {tmp_path, tmp_path / "a", tmp_path / "a/b"} <= set(synced)


def test_few_folders_are_held_open_and_given_back(tmp_path):
    before = len(list(Path("/proc/self/fd").iterdir()))
    store = LocalStore(tmp_path)
    for number in range(30):
        store.put(f"{number}/x", b"")
    assert len(list(Path("/proc/self/fd").iterdir())) == before + 8
    del store
    assert len(list(Path("/proc/self/fd").iterdir())) == before
