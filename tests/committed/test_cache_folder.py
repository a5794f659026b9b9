"""The folder of the cache: its size limit, and the processes that share it."""

import errno
import os
import signal
from mmap import mmap
from multiprocessing import get_context
from pathlib import Path
from threading import Event, Thread, current_thread

import pytest

from graveler.committed import metarange
from graveler.committed.apply import apply
from graveler.committed.cache import disk_cache
from graveler.committed.cache.disk_cache import DiskCache, mapped
from graveler.committed.cache.form import Piece
from graveler.committed.cache.range_cache import RangeCache
from graveler.committed.cache.table import TableKind
from graveler.committed.metarange import EMPTY_METARANGE
from graveler.committed.ranges.range_store import RangeStore
from graveler.objects.local import LocalStore
from tests.committed.cache_files import MANY, MIB, folder_bytes, names, range_of_many
from tests.committed.trees import CRUMBS, Forest, contents, new_store, record, write_ranges
from tests.harness.programs import FORKS, output_of, start_program


def test_a_reader_does_not_wait_for_a_process_that_is_stopped(tmp_path, monkeypatch):
    forest = Forest()
    (info,) = metarange.read(forest.fresh(), forest.tree("a b"))
    monkeypatch.setattr(disk_cache, "PATIENCE_S", 0.1)
    with DiskCache(tmp_path, MIB).single(info.id.hex()):
        store = RangeStore(forest.objects, RangeCache(tmp_path, MIB))
        assert store.open(info.id).get(b"a") == record("a")[2]


def test_the_folder_stays_within_its_bound_and_keeps_used_files(tmp_path):
    forest = Forest()
    tree = forest.tree(*(f"k{n:03d}a k{n:03d}b" for n in range(120)))
    infos = metarange.read(forest.fresh(), tree)
    bound = 20_000
    hot = infos[0].id
    fetched = 0
    for info in infos:
        # a new cache each time, so that nothing is read from memory
        store = RangeStore(forest.objects, RangeCache(tmp_path, bound))
        store.open(hot)
        fetched += store.stats.fetched
        store.open(info.id)
        assert folder_bytes(tmp_path) <= bound
    assert fetched == 1
    assert DiskCache(tmp_path, bound).load_flat(hot.hex()) is not None
    assert DiskCache(tmp_path, bound).load_flat(infos[1].id.hex()) is None
    assert DiskCache(tmp_path, bound).load_flat(infos[-1].id.hex()) is not None


def test_open_ranges_keep_no_descriptors(tmp_path):
    forest = Forest()
    tree = forest.tree(*(f"k{n:03d}a k{n:03d}b" for n in range(120)))
    store = RangeStore(forest.objects, RangeCache(tmp_path, MIB))
    infos = metarange.read(store, tree)
    before = len(list(Path("/proc/self/fd").iterdir()))
    for _ in range(2):  # first by the store that writes, then by another one
        tables = [store.open(info.id) for info in infos]
        assert all(isinstance(table.buffer, mmap) for table in tables)
        assert len(tables) > 100
        assert len(list(Path("/proc/self/fd").iterdir())) <= before + 1
        store = RangeStore(forest.objects, RangeCache(tmp_path, MIB))


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


def test_one_process_keeps_within_the_bound_without_scanning(tmp_path):
    forest = Forest()
    tree = forest.tree(*(f"k{n:03d}a k{n:03d}b" for n in range(120)))
    store = RangeStore(forest.objects, RangeCache(tmp_path, 50_000))
    for info in metarange.read(store, tree):
        store.open(info.id)
        assert folder_bytes(tmp_path) <= 50_000
    assert folder_bytes(tmp_path) > 25_000


def test_a_local_stores_file_is_shared_and_not_copied(tmp_path):
    objects, folder = LocalStore(tmp_path / "objects"), tmp_path / "cache"
    store = RangeStore(objects, RangeCache(folder, 2**20))
    identifier = range_of_many(store)
    stored = tmp_path / "objects" / store.key(identifier)
    cached = folder / f"{identifier.hex()}.sst"
    assert stored.samefile(cached)
    before = objects.head(store.key(identifier))
    assert RangeStore(objects, RangeCache(folder, 2**20)).open(identifier).records() == MANY
    assert objects.head(store.key(identifier)) == before, "a read is no change of the object"
    objects.delete(store.key(identifier))
    assert RangeStore(objects, RangeCache(folder, 2**20)).open(identifier).records() == MANY


def test_where_no_second_name_can_be_had_a_copy_is_kept(tmp_path, monkeypatch):
    link = Path.hardlink_to

    def refuse(self, target):
        if self.is_relative_to(tmp_path / "cache"):
            raise OSError(errno.EXDEV, "another disk")
        link(self, target)

    monkeypatch.setattr(Path, "hardlink_to", refuse)
    objects, folder = LocalStore(tmp_path / "objects"), tmp_path / "cache"
    store = RangeStore(objects, RangeCache(folder, 2**20))
    identifier = range_of_many(store)
    stored = tmp_path / "objects" / store.key(identifier)
    cached = folder / f"{identifier.hex()}.sst"
    assert cached.read_bytes() == stored.read_bytes()
    assert not stored.samefile(cached)


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
    output_of("committed.programs.fork_beside_lock", tmp_path, warnings=FORKS)


def test_a_child_forked_during_a_read_does_not_wait_for_it(tmp_path):
    output_of("committed.programs.fork_beside_cache", tmp_path, warnings=FORKS)
    cache = DiskCache(tmp_path, 50_000)
    assert cache.load("child") == cache.load("parent") == (b"table", b"", True)


def test_processes_that_take_turns_see_what_the_others_add(tmp_path):
    forest = Forest()
    tree = forest.tree(*(f"k{n:03d}a k{n:03d}b" for n in range(200)))
    bound = 60_000
    stores = [RangeStore(forest.objects, RangeCache(tmp_path, bound)) for _ in range(4)]
    for number, info in enumerate(metarange.read(forest.fresh(), tree)):
        stores[number % 4].open(info.id)
        assert folder_bytes(tmp_path) <= bound + 4 * (bound // 16)


def test_what_killed_writers_left_is_removed_a_day_later(tmp_path):
    scratch = tmp_path / "tmp"
    (scratch / "graveler-old").mkdir(parents=True)
    (scratch / "graveler-old" / "0.sst").write_bytes(b"half")
    (scratch / "old").write_bytes(b"half")
    for path in (scratch / "graveler-old", scratch / "old"):
        os.utime(path, (path.stat().st_mtime - 90_000,) * 2)
    (scratch / "young").write_bytes(b"half")
    forest = Forest()
    contents(RangeStore(forest.objects, RangeCache(tmp_path, MIB)), forest.tree("a b"))
    assert [path.name for path in scratch.iterdir()] == ["young"]


def fill(objects: Path, folder: Path, tree: str, bound: int) -> int:
    store = RangeStore(LocalStore(objects), RangeCache(folder, bound))
    for _ in range(3):
        assert len(contents(store, tree)) == 300
    return store.cache.damaged


def forms_of(store: RangeStore, tree: str, name: str) -> list[bytes]:
    """Return the local forms of a table of a tree, as other hosts build them."""
    store = RangeStore(store.objects, RangeCache(None, 1 << 26))
    for info in metarange.read(store, tree):
        if info.id.hex() == name:
            tables = [store.open_range(info, numbered=numbered) for numbered in (False, True)]
            return [bytes(table.buffer) for table in tables]
    return [bytes(store.open(bytes.fromhex(name), TableKind.METARANGE).buffer)]


def test_several_processes_fill_one_folder_at_once(tmp_path):
    objects = tmp_path / "objects"
    store = new_store(LocalStore(objects))
    tree = apply(
        store, EMPTY_METARANGE, (record(f"k{n:04d}") for n in range(300)), CRUMBS
    ).metarange
    bound = 60_000
    with get_context("spawn").Pool(3) as pool:
        found = pool.starmap(fill, [(objects, tmp_path / "cache", tree, bound)] * 3)
    assert found == [0, 0, 0]
    assert folder_bytes(tmp_path / "cache") <= bound + 3 * bound // 16
    cache = DiskCache(tmp_path / "cache", bound)
    kept = {name.partition(".")[0] for name in names(tmp_path / "cache")}
    assert len(kept) > 10
    for name in kept:
        loaded = cache.load_flat(name)
        assert loaded is None or loaded.buffer[:] in forms_of(store, tree, name)
    assert cache.damaged == 0


@pytest.mark.crash
@pytest.mark.parametrize("killed_after", [1, 7, 40])
def test_a_process_killed_while_it_fills_leaves_no_bad_file(tmp_path, killed_after):
    objects, folder = tmp_path / "objects", tmp_path / "cache"
    store = new_store(LocalStore(objects))
    tree = write_ranges(store, [f"k{n:03d}a k{n:03d}b" for n in range(60)])
    with start_program("committed.programs.cache_filler", objects, folder, tree) as child:
        assert child.stdout is not None
        for _ in range(killed_after):
            assert child.stdout.readline() == "opened\n"
        child.send_signal(signal.SIGKILL)
    kept = {name.partition(".")[0] for name in names(folder)}
    assert kept
    cache = DiskCache(folder, MIB)
    for name in kept:
        loaded = cache.load_flat(name)
        assert loaded is None or loaded.buffer[:] in forms_of(store, tree, name)
    assert cache.damaged == 0
    assert len(contents(RangeStore(store.objects, RangeCache(folder, MIB)), tree)) == 120
