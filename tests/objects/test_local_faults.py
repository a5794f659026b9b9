"""The disk fails, the process dies, or processes race: an object is old or new, not a mix."""

import errno
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, wait
from datetime import timedelta
from itertools import count
from pathlib import Path

import pytest

from graveler.base.clock import SystemClock
from graveler.base.local_files import exclusive
from graveler.errors import (
    BackendUnavailableError,
    GravelerError,
    InvalidInputError,
    OutcomeUnknownError,
    PermissionDeniedError,
    PreconditionFailedError,
    StorageFullError,
)
from graveler.objects.local import LocalStore
from graveler.objects.registry import open_store
from graveler.objects.store import PIECE_BYTES
from graveler.testing.clock import FakeClock
from tests.harness.programs import start_program

CALLS = ("write", "fsync", "utime", "mkdir", "rename", "replace", "link")
LONG = bytes(range(256)) * (PIECE_BYTES // 256 * 2)  # two pieces, so two writes at least


class FailingDisk:
    """Makes one file system call fail: number `fail_at` of all calls in CALLS."""

    def __init__(self, monkeypatch, error_number):
        self.made = 0
        self.fail_at = None
        self.error_number = error_number
        for name in CALLS:
            monkeypatch.setattr(os, name, self.counting(name, getattr(os, name)))

    def counting(self, name, call):
        def counted(*args, **kwargs):
            self.made += 1
            if self.made == self.fail_at:
                raise OSError(self.error_number, os.strerror(self.error_number), name)
            return call(*args, **kwargs)

        return counted


def left_in(folder):
    """Return all files and folders, except the store's own folder and lock."""
    names = {str(path.relative_to(folder)) for path in folder.rglob("*")}
    return names - {".graveler-tmp", ".graveler-tmp/lock"}


WRITES = {
    "put": lambda store, etag: store.put("folder/a", LONG),
    "put_if_match": lambda store, etag: store.put_if_match("folder/a", LONG, etag),
    "put elsewhere": lambda store, etag: store.put("new/folder/a", LONG),
    "put_if_absent": lambda store, etag: store.put_if_absent("new/folder/a", LONG),
    "put_all_if_absent": lambda store, etag: store.put_all_if_absent([("new/folder/a", LONG)]),
}


@pytest.mark.parametrize("write", WRITES)
@pytest.mark.parametrize(
    ("error_number", "expected"),
    [
        (errno.ENOSPC, StorageFullError),
        (errno.EDQUOT, StorageFullError),
        (errno.EIO, BackendUnavailableError),
        (errno.EACCES, PermissionDeniedError),
    ],
)
def test_a_disk_that_fails_at_any_call_leaves_old_or_new(
    tmp_path, monkeypatch, write, error_number, expected
):
    failed = 0
    for fail_at in count(1):
        root = tmp_path / str(fail_at)
        store = LocalStore(root)
        etag = store.put("folder/a", b"old").etag
        with monkeypatch.context() as patch:
            disk = FailingDisk(patch, error_number)
            disk.fail_at = fail_at
            try:
                WRITES[write](store, etag)
            except GravelerError as error:
                told = error
            else:
                assert disk.made < fail_at  # the operation made fewer calls, without a fault
                break
        failed += 1
        objects = {info.key: store.get(info.key) for info in store.list()}
        key = "folder/a" if write in {"put", "put_if_match"} else "new/folder/a"
        if isinstance(told, OutcomeUnknownError):
            assert objects == {"folder/a": b"old"} | {key: LONG}
        else:
            assert isinstance(told, expected)
            assert objects == {"folder/a": b"old"}
            assert left_in(root) == {"folder", "folder/a"}
        assert list((root / ".graveler-tmp").iterdir()) in ([], [root / ".graveler-tmp" / "lock"])
    assert failed >= 6


def test_an_unwritable_folder_is_named_with_the_remedy(tmp_path, monkeypatch):
    def refused(*args, **kwargs):
        raise OSError(errno.EROFS, os.strerror(errno.EROFS))

    monkeypatch.setattr(os, "mkdir", refused)
    with pytest.raises(PermissionDeniedError, match=f"{tmp_path}.*give this user the right"):
        LocalStore(tmp_path).put("a", b"")


def test_processes_that_race_store_each_key_once(tmp_path):
    store, names = LocalStore(tmp_path), "abc"
    store.put("n", b"0")
    children = [start_program("objects.programs.race", tmp_path, name) for name in names]
    for child in children:
        assert child.stdout.readline() == "ready\n"
    for child in children:
        child.stdin.write("go\n")
        child.stdin.flush()
    winners: dict[int, str] = {}
    for name, child in zip(names, children, strict=True):
        output, _ = child.communicate(timeout=60)
        assert child.returncode == 0
        for number in map(int, output.split()):
            assert winners.setdefault(number, name) == name
    assert sorted(winners) == list(range(50))
    for number, name in winners.items():
        assert store.get(f"f{number}/a") == name.encode() * 1000
    assert store.get("n") == b"75"
    assert not (tmp_path / "folder").exists()


@pytest.mark.parametrize("change", ["put", "put_if_match", "delete"])
def test_a_call_that_takes_a_name_waits_for_the_lock(tmp_path, change):
    store = LocalStore(tmp_path)
    etag = store.put("a", b"old").etag
    calls: dict[str, Callable[[], object]] = {
        "put": lambda: store.put("a", b"new"),
        "put_if_match": lambda: store.put_if_match("a", b"new", etag),
        "delete": lambda: store.delete("a"),
    }
    with ThreadPoolExecutor(1) as pool:
        with exclusive(tmp_path / ".graveler-tmp" / "lock"):
            changing = pool.submit(calls[change])
            done, _ = wait([changing], timeout=0.2)
            assert not done
            assert store.get("a") == b"old"
            (tmp_path / "a").write_bytes(b"another writer's")
        if change == "put_if_match":
            with pytest.raises(PreconditionFailedError):
                changing.result(timeout=60)
            assert store.get("a") == b"another writer's"
        else:
            changing.result(timeout=60)


@pytest.mark.crash
@pytest.mark.parametrize("verb", ["put", "put_if_absent"])
def test_a_process_killed_in_a_put_leaves_no_object(tmp_path, verb):
    store = LocalStore(tmp_path)
    store.put("a/old", b"old")
    child = start_program("objects.programs.endless_put", tmp_path, verb)
    for _ in range(3):
        assert child.stdout.readline() == "reading\n"
    child.kill()
    child.communicate(timeout=60)
    assert [info.key for info in store.list()] == ["a/old"]
    assert store.put_if_absent("a/b", b"new") is True
    assert [info.key for info in store.list()] == ["a/b", "a/old"]


def test_leftovers_of_a_dead_writer_are_cleared_after_a_day(tmp_path):
    LocalStore(tmp_path).put("a", b"")
    abandoned = tmp_path / ".graveler-tmp" / "abandoned"
    abandoned.write_bytes(b"half")
    LocalStore(tmp_path).put("a", b"")
    assert abandoned.exists()
    tomorrow = FakeClock(SystemClock().now() + timedelta(days=1, seconds=1))
    LocalStore(tmp_path, clock=tomorrow).put("a", b"")
    assert not abandoned.exists()
    assert (tmp_path / ".graveler-tmp" / "lock").exists()


def test_unfinished_objects_are_no_objects(tmp_path):
    store = LocalStore(tmp_path)
    store.put("a", b"")
    (tmp_path / ".graveler-tmp" / "half").write_bytes(b"half")
    for prefix in ("", ".", ".graveler-tmp", ".graveler-tmp/", ".graveler-tmp/half"):
        assert [info.key for info in store.list(prefix)] == (["a"] if not prefix else [])
    with pytest.raises(InvalidInputError, match="kept for unfinished objects"):
        store.get(".graveler-tmp/half")


def test_a_key_that_the_folder_cannot_take_is_refused(tmp_path):
    store = LocalStore(tmp_path)
    store.put("a/b", b"1")
    store.put("x" * 255, b"2")
    for key in ("a", "a/b/c", "a/b/c/e"):
        for write in (store.put, store.put_if_absent):
            with pytest.raises(InvalidInputError, match="cannot be the beginning of another"):
                write(key, b"")
    with pytest.raises(InvalidInputError, match="255 bytes"):
        store.put("a/" + "é" * 128, b"")
    assert left_in(tmp_path) == {"a", "a/b", "x" * 255}


def test_a_file_whose_name_is_not_text_is_listed(tmp_path):
    store = LocalStore(tmp_path)
    store.put("a/b", b"1")
    Path(os.fsdecode(os.fsencode(tmp_path / "a") + b"/\xff\xfe")).write_bytes(b"")
    assert [info.key for info in store.list("a/b")] == ["a/b"]
    assert [info.key for info in store.list()] == ["a/b", "a/\udcff\udcfe"]
    assert list(store.level()) == ["a/"]


def test_files_of_other_programs_are_objects(tmp_path):
    (tmp_path / "data" / "x").mkdir(parents=True)
    (tmp_path / "data" / "x" / "part-0.parquet").write_bytes(b"rows")
    (tmp_path / "data" / "empty folder").mkdir()
    store = LocalStore(tmp_path)
    assert [(info.key, info.size) for info in store.list()] == [("data/x/part-0.parquet", 4)]
    assert store.get("data/x/part-0.parquet") == b"rows"
    assert store.put_if_absent("data/x/part-0.parquet", b"") is False


def test_folders_are_made_by_the_first_put_and_go_with_the_last(tmp_path):
    store = LocalStore(tmp_path / "none")
    assert list(store.list()) == []
    store.delete("a")
    assert not (tmp_path / "none").exists()
    store.put("a/b/c", b"")
    store.put("a/d", b"")
    store.delete("a/b/c")
    assert left_in(tmp_path / "none") == {"a", "a/d"}


def test_versions_of_the_same_size_differ_in_etag(tmp_path):
    store = LocalStore(tmp_path, clock=FakeClock())
    assert len({store.put("a", bytes([number])).etag for number in range(100)}) == 100
    assert store.put("a", b"").mtime.year == store.head("a").mtime.year == 2013


def test_the_root_and_its_uris_are_those_of_the_files(tmp_path):
    store = open_store(f"{tmp_path}/a b/../c%20d/")
    store.put("x:y/z", b"1")
    assert store.root == f"file://{tmp_path}/c%20d"
    assert Path(store.uri("x:y/z").removeprefix("file://")).read_bytes() == b"1"
