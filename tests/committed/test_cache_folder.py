"""The folder of the cache: its size limit, and the processes that share it."""

import errno
import os
import signal
from mmap import mmap
from pathlib import Path
from threading import Event, Thread, current_thread

import pytest

from graveler.committed import metarange
from graveler.committed.cache import disk_cache
from graveler.committed.cache.disk_cache import DiskCache, mapped
from graveler.committed.cache.form import Piece
from graveler.objects.local import LocalStore
from tests.committed.cache_files import (
    MANY,
    MIB,
    folder_bytes,
    names,
    one_range,
    pairs,
    range_of_many,
    store_over,
)
from tests.committed.trees import Forest, contents, new_store, record, write_ranges
from tests.harness.programs import FORKS, output_of, start_program


def test_a_reader_does_not_wait_for_a_process_that_is_stopped(tmp_path, monkeypatch):
    objects, info = one_range()
    monkeypatch.setattr(disk_cache, "PATIENCE_S", 0.1)
    with DiskCache(tmp_path, MIB).single(info.id.hex()):
        assert store_over(objects, tmp_path).open(info.id).get(b"a") == record("a")[2]


def test_the_folder_stays_within_its_bound_and_keeps_used_files(tmp_path):
    forest = Forest()
    infos = metarange.read(forest.fresh(), forest.tree(pairs(120)))
    bound = 20_000
    hot = infos[0].id
    fetched = 0
    for info in infos:
        # a new cache each time, so that nothing is read from memory
        store = store_over(forest.objects, tmp_path, bound)
        store.open(hot)
        fetched += store.stats.fetched
        store.open(info.id)
        assert folder_bytes(tmp_path) <= bound
    assert fetched == 1
    cache = DiskCache(tmp_path, bound)
    kept = [cache.load_flat(info.id.hex()) is not None for info in infos]
    assert (kept[0], kept[1], kept[-1]) == (True, False, True)


def test_open_ranges_keep_no_descriptors(tmp_path):
    forest = Forest()
    tree = forest.tree(pairs(120))
    store = store_over(forest.objects, tmp_path)
    infos = metarange.read(store, tree)
    before = len(list(Path("/proc/self/fd").iterdir()))
    for _ in range(2):  # first by the store that writes, then by another one
        tables = [store.open(info.id) for info in infos]
        assert all(isinstance(table.buffer, mmap) for table in tables)
        assert len(tables) > 100
        assert len(list(Path("/proc/self/fd").iterdir())) <= before + 1
        store = store_over(forest.objects, tmp_path)


def test_a_mapped_file_is_read_only_and_outlives_its_name(tmp_path):
    path = tmp_path / "file"
    path.write_bytes(content := os.urandom(3 * 4096 + 5))
    with path.open("rb") as file:
        found = mapped(file.fileno(), path.stat().st_size)
    path.unlink()
    assert (len(found), found[:]) == (len(content), content)
    assert memoryview(found).readonly
    with pytest.raises(TypeError):
        found[0] = 1
    with path.open("wb") as file:
        with pytest.raises(ValueError, match="empty"):
            mapped(file.fileno(), path.stat().st_size)
        file.write(content)
        file.flush()
        with pytest.raises(PermissionError):
            mapped(file.fileno(), path.stat().st_size)


@pytest.mark.parametrize("processes", [1, 4])
def test_processes_that_take_turns_see_what_the_others_add(tmp_path, processes):
    forest = Forest()
    infos = metarange.read(forest.fresh(), forest.tree(pairs(200)))
    bound = 60_000
    stores = [store_over(forest.objects, tmp_path, bound) for _ in range(processes)]
    for number, info in enumerate(infos):
        stores[number % processes].open(info.id)
        assert folder_bytes(tmp_path) <= bound + (processes - 1) * (bound // 16)
    assert folder_bytes(tmp_path) > bound // 2


@pytest.mark.parametrize("linked", [True, False])
def test_a_local_stores_file_is_shared_and_not_copied(tmp_path, monkeypatch, linked):
    link = Path.hardlink_to

    def refuse(self, target):
        if self.is_relative_to(tmp_path / "cache"):
            raise OSError(errno.EXDEV, "another disk")
        link(self, target)

    if not linked:
        monkeypatch.setattr(Path, "hardlink_to", refuse)
    objects, folder = LocalStore(tmp_path / "objects"), tmp_path / "cache"
    store = store_over(objects, folder)
    identifier = range_of_many(store)
    key = store.key(identifier)
    stored, cached = tmp_path / "objects" / key, folder / f"{identifier.hex()}.sst"
    assert stored.samefile(cached) is linked
    assert cached.read_bytes() == stored.read_bytes()
    before = objects.head(key)
    assert store_over(objects, folder).open(identifier).records() == MANY
    assert objects.head(key) == before, "a read is no change of the object"
    objects.delete(key)
    assert store_over(objects, folder).open(identifier).records() == MANY


class Held(DiskCache):
    """Stops one table after its room is reserved and before it gets its name."""

    def __init__(self, folder: Path, max_bytes: int) -> None:
        super().__init__(folder, max_bytes)
        self.waiting, self.go = Event(), Event()

    def add(self, name: str, data: bytes, record_ids: bytes, file: Path | None = None) -> bool:
        self.held = current_thread() if file is not None else None
        return super().add(name, data, record_ids, file)

    def _write(self, *pieces: Piece) -> Path:
        if current_thread() is self.held:
            self.waiting.set()
            assert self.go.wait(30)
        return super()._write(*pieces)


def test_threads_leave_room_for_what_another_is_about_to_place(tmp_path):
    bound, body = 50_000, bytes(10_000)
    cache = Held(tmp_path, bound)
    scratch = cache.scratch()
    assert scratch is not None
    mine = scratch / "mine"
    mine.write_bytes(body)
    thread = Thread(target=cache.add, args=("mine", body, b"", mine))
    thread.start()
    assert cache.waiting.wait(30)
    for number in range(4):
        assert cache.add(f"other{number}", body, b"")
    cache.go.set()
    thread.join()
    mine.unlink()
    assert cache.load("mine") is not None
    assert folder_bytes(tmp_path) <= bound


def test_a_child_forked_beside_a_lock_does_not_keep_it(tmp_path):
    output_of("committed.programs.forks", "lock", tmp_path, warnings=FORKS)


def test_a_child_forked_during_a_read_does_not_wait_for_it(tmp_path):
    output_of("committed.programs.forks", "cache", tmp_path, warnings=FORKS)
    cache = DiskCache(tmp_path, 50_000)
    assert cache.load("child") == cache.load("parent") == (b"table", b"", True)


def test_what_killed_writers_left_is_removed_a_day_later(tmp_path):
    scratch = tmp_path / "tmp"
    (scratch / "graveler-old").mkdir(parents=True)
    (scratch / "graveler-old" / "0.sst").write_bytes(b"half")
    (scratch / "old").write_bytes(b"half")
    for path in (scratch / "graveler-old", scratch / "old"):
        os.utime(path, (path.stat().st_mtime - 90_000,) * 2)
    (scratch / "young").write_bytes(b"half")
    forest = Forest()
    contents(store_over(forest.objects, tmp_path), forest.tree("a b"))
    assert [path.name for path in scratch.iterdir()] == ["young"]


@pytest.mark.crash
def test_a_process_killed_while_it_fills_leaves_no_bad_file(tmp_path):
    objects, folder = tmp_path / "objects", tmp_path / "cache"
    store = new_store(LocalStore(objects))
    tree = write_ranges(store, pairs(60).split("|"))
    with start_program("committed.programs.cache_filler", objects, folder, tree) as child:
        assert child.stdout is not None
        for _ in range(7):
            assert child.stdout.readline() == "opened\n"
        child.send_signal(signal.SIGKILL)
    cache = DiskCache(folder, MIB)
    assert [cache.load_flat(name.partition(".")[0]) for name in names(folder)]
    found = contents(store_over(store.objects, folder), tree)
    assert (found, cache.damaged) == (dict.fromkeys(pairs(60).replace("|", "").split(), "1"), 0)
