"""Ranges in the cache: fetched, verified, kept in memory, and on a full disk."""

import pickle
import resource
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import pytest

from graveler.committed import metarange
from graveler.committed.apply import apply
from graveler.committed.cache.range_cache import RangeCache
from graveler.committed.cache.table import TableKind
from graveler.committed.metarange import EMPTY_METARANGE
from graveler.committed.ranges.range_store import RangeStore
from graveler.errors import CorruptionError, InternalError
from graveler.objects.local import LocalStore
from graveler.objects.memory import MemoryStore
from graveler.objects.store import ANYTHING, Expected, ObjectStore
from tests.committed.cache_files import MIB, folder_bytes, names
from tests.committed.trees import WHOLE, Forest, contents, record, rows_of, write_ranges


class FaultyStore(MemoryStore):
    """Returns objects with a flipped byte for the next `bad` reads."""

    def __init__(self, good: ObjectStore) -> None:
        super().__init__()
        for info in good.list():
            self.put(info.key, good.get(info.key))
        self.bad = 0

    def get(self, key: str, expected: Expected = ANYTHING) -> bytes:
        body = super().get(key, expected)
        if not self.bad:
            return body
        self.bad -= 1
        middle = len(body) // 3
        return body[:middle] + bytes([body[middle] ^ 1]) + body[middle + 1 :]


@pytest.fixture
def faulty():
    forest = Forest()
    tree = forest.tree("a b c", "d e f")
    return FaultyStore(forest.objects), tree


def test_a_copy_damaged_on_the_way_is_fetched_once_more(faulty, tmp_path):
    objects, tree = faulty
    store = RangeStore(objects, RangeCache(tmp_path, MIB))
    (first, second) = metarange.read(store, tree)
    objects.bad = 1
    assert store.open(first.id).get(b"b") == record("b")[2]
    assert store.stats.fetched == 3
    assert store.open(second.id).get(b"e") == record("e")[2]


def test_a_damaged_range_is_an_error_and_is_never_cached(faulty, tmp_path):
    objects, tree = faulty
    store = RangeStore(objects, RangeCache(tmp_path, MIB))
    (first, _) = metarange.read(store, tree)
    before = names(tmp_path)
    objects.bad = 2
    with pytest.raises(CorruptionError):
        store.open(first.id)
    assert names(tmp_path) == before
    assert not store.cache.has(first.id)
    assert store.open(first.id).get(b"b") == record("b")[2]


@pytest.mark.parametrize("position", range(0, 900, 7))
def test_a_flipped_byte_anywhere_is_found_or_harmless(position):
    forest = Forest()
    (info,) = metarange.read(forest.fresh(), forest.tree("a b c"))
    key = forest.fresh().key(info.id)
    body = bytearray(forest.objects.get(key))
    body[position % len(body)] ^= 0x10
    forest.objects.put(key, bytes(body))
    store = forest.fresh()
    try:
        records = store.open(info.id).records()
    except CorruptionError:
        return
    assert records == [record("a"), record("b"), record("c")]


def test_another_ranges_file_under_the_name_is_refused():
    forest = Forest()
    store = forest.fresh()
    (first, second) = metarange.read(store, forest.tree("a b", "c d"))
    forest.objects.put(store.key(first.id), forest.objects.get(store.key(second.id)))
    with pytest.raises(CorruptionError, match=second.id.hex()):
        store.open(first.id)


def test_a_metarange_is_no_range():
    forest = Forest()
    tree = forest.tree("a b")
    with pytest.raises(CorruptionError, match="type"):
        forest.fresh().open(bytes.fromhex(tree))
    table = forest.fresh().open(bytes.fromhex(tree), TableKind.METARANGE)
    assert [key for key, _ in rows_of(table)] == [b"b"]


def test_a_missing_range_is_damage_and_not_a_missing_path():
    forest = Forest()
    tree = forest.tree("a b")
    (info,) = metarange.read(forest.fresh(), tree)
    forest.objects.delete(forest.fresh().key(info.id))
    with pytest.raises(CorruptionError, match="missing"):
        metarange.get(forest.fresh(), tree, b"a")


def test_files_are_read_from_the_folder_by_a_later_process(tmp_path):
    forest = Forest()
    tree = forest.tree("a b", "c d")
    contents(RangeStore(forest.objects, RangeCache(tmp_path, MIB)), tree)
    store = RangeStore(MemoryStore(), RangeCache(tmp_path, MIB))
    assert contents(store, tree) == dict.fromkeys("abcd", "1")
    assert store.stats.fetched == 0


def test_what_is_written_is_in_the_cache(tmp_path):
    objects = MemoryStore()
    store = RangeStore(objects, RangeCache(tmp_path, MIB))
    tree = apply(store, EMPTY_METARANGE, [record("a"), record("b")], WHOLE).metarange
    again = RangeStore(MemoryStore(), RangeCache(tmp_path, MIB))
    assert contents(again, tree) == {"a": "1", "b": "1"}
    assert list((tmp_path / "tmp").iterdir()) == []


def test_threads_that_miss_a_range_at_once_fetch_it_once(tmp_path):
    forest = Forest()
    (info,) = metarange.read(forest.fresh(), forest.tree("a b"))
    for folder in (None, tmp_path):
        store = RangeStore(forest.objects, RangeCache(folder, MIB))
        with ThreadPoolExecutor(8) as pool:
            tables = list(pool.map(store.open, [info.id] * 32))
        assert {table.get(b"a") for table in tables} == {record("a")[2]}
        assert store.stats.fetched == 1


def test_memory_keeps_what_is_used():
    forest = Forest()
    tree = forest.tree(*(f"k{n:03d}a k{n:03d}b" for n in range(60)))
    infos = metarange.read(forest.fresh(), tree)
    store = RangeStore(forest.objects, RangeCache(None, 20_000))
    for info in infos:
        store.open(infos[0].id)
        store.open(info.id)
    assert store.stats.fetched == 60


def test_memory_stays_within_its_bound():
    forest = Forest()
    tree = forest.tree(*(f"k{n:03d}a k{n:03d}b" for n in range(60)))
    store = RangeStore(forest.objects, RangeCache(None, 20_000))
    for _ in range(2):
        for info in metarange.read(store, tree):
            store.open(info.id)
            assert 0 < store.cache.memory_bytes <= 20_000
    assert store.stats.fetched > 60


def test_a_table_larger_than_the_cache_is_still_read(tmp_path):
    forest = Forest()
    (info,) = metarange.read(forest.fresh(), forest.tree("a b"))
    store = RangeStore(forest.objects, RangeCache(tmp_path, 10))
    assert store.open(info.id).get(b"a") == record("a")[2]
    assert names(tmp_path) == []
    assert store.cache.memory_bytes == 0


@contextmanager
def no_room():
    """Limit the files of this process to a few bytes, as on a full disk."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (16, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_a_full_disk_under_the_cache_fails_no_read(tmp_path):
    forest = Forest()
    tree = forest.tree("a b", "c d")
    store = RangeStore(forest.objects, RangeCache(tmp_path, MIB))
    with no_room():
        found = contents(store, tree)
        again = contents(store, tree)
    assert found == again == dict.fromkeys("abcd", "1")
    assert store.stats.fetched == 3  # the cache keeps them in memory
    assert folder_bytes(tmp_path) == 0


def test_a_folder_that_cannot_be_made_fails_no_read_or_write(tmp_path):
    (tmp_path / "file").write_bytes(b"")
    store = RangeStore(MemoryStore(), RangeCache(tmp_path / "file" / "cache", MIB))
    tree = apply(store, EMPTY_METARANGE, [record("a"), record("b")], WHOLE).metarange
    assert contents(store, tree) == {"a": "1", "b": "1"}


def test_a_pickled_store_reads_and_cannot_publish(tmp_path):
    store = RangeStore(LocalStore(tmp_path / "lake"), RangeCache(tmp_path / "cache", MIB))
    tree = write_ranges(store, ["a b c", "d e f"])
    copy = pickle.loads(pickle.dumps(store))
    assert contents(copy, tree) == contents(store, tree)
    assert copy.stats.fetched == 0  # both stores share one cache folder
    with pytest.raises(InternalError, match="for reading"):
        write_ranges(copy, ["a b c", "d e f"])


def test_a_pickled_cache_in_memory_is_an_empty_one(tmp_path):
    store = RangeStore(LocalStore(tmp_path / "lake"), RangeCache(None, MIB))
    tree = write_ranges(store, ["a b c"])
    copy = pickle.loads(pickle.dumps(store))
    assert contents(copy, tree) == contents(store, tree)
    assert copy.stats.fetched == 2
