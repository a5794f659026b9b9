"""Ranges in the cache: fetched, verified, kept in memory, and on a full disk."""

import pickle
import resource
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import pytest

from graveler.committed import metarange
from graveler.committed.apply import apply
from graveler.committed.metarange import EMPTY_METARANGE
from graveler.errors import CorruptionError, InternalError
from graveler.objects.local import LocalStore
from graveler.objects.memory import MemoryStore
from graveler.objects.store import ANYTHING, Expected
from tests.committed.cache_files import folder_bytes, names, one_range, pairs, store_over
from tests.committed.trees import WHOLE, Forest, contents, record, write_ranges


class FaultyStore(MemoryStore):
    """Returns objects with a flipped byte for the next `bad` reads."""

    bad = 0

    def get(self, key: str, expected: Expected = ANYTHING) -> bytes:
        body = super().get(key, expected)
        if not self.bad:
            return body
        self.bad -= 1
        middle = len(body) // 3
        return body[:middle] + bytes([body[middle] ^ 1]) + body[middle + 1 :]


@pytest.fixture
def faulty():
    forest = Forest(FaultyStore())
    return forest.objects, forest.tree("a b c | d e f")


def test_a_copy_damaged_on_the_way_is_fetched_once_more(faulty, tmp_path):
    objects, tree = faulty
    store = store_over(objects, tmp_path)
    (first, second) = metarange.read(store, tree)
    objects.bad = 1
    assert store.open(first.id).get(b"b") == record("b")[2]
    assert store.stats.fetched == 3
    assert store.open(second.id).get(b"e") == record("e")[2]


def test_a_damaged_range_is_an_error_and_is_never_cached(faulty, tmp_path):
    objects, tree = faulty
    store = store_over(objects, tmp_path)
    (first, _) = metarange.read(store, tree)
    before = names(tmp_path)
    objects.bad = 2
    with pytest.raises(CorruptionError):
        store.open(first.id)
    assert names(tmp_path) == before
    assert not store.cache.has(first.id)
    assert store.open(first.id).get(b"b") == record("b")[2]


def test_files_are_read_from_the_folder_by_a_later_process(tmp_path):
    objects = MemoryStore()
    store = store_over(objects, tmp_path)
    tree = apply(store, EMPTY_METARANGE, [record("a"), record("b")], WHOLE).metarange
    assert list((tmp_path / "tmp").iterdir()) == []
    later = store_over(None, tmp_path)
    assert contents(later, tree) == {"a": "1", "b": "1"}
    assert later.stats.fetched == 0


def test_threads_that_miss_a_range_at_once_fetch_it_once(tmp_path):
    objects, info = one_range("a b")
    for folder in (None, tmp_path):
        store = store_over(objects, folder)
        with ThreadPoolExecutor(8) as pool:
            tables = list(pool.map(store.open, [info.id] * 32))
        assert {table.get(b"a") for table in tables} == {record("a")[2]}
        assert store.stats.fetched == 1


def test_memory_keeps_what_is_used_within_its_bound():
    forest = Forest()
    infos = metarange.read(forest.fresh(), forest.tree(pairs(60)))
    store = store_over(forest.objects, bound=20_000)
    for info in infos:
        store.open(infos[0].id)
        store.open(info.id)
        assert 0 < store.cache.memory_bytes <= 20_000
    assert store.stats.fetched == 60
    for info in infos:
        store.open(info.id)
    assert store.stats.fetched > 60


def test_a_table_larger_than_the_cache_is_still_read(tmp_path):
    objects, info = one_range()
    store = store_over(objects, tmp_path, bound=10)
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
    tree = forest.tree("a b | c d")
    store = store_over(forest.objects, tmp_path)
    with no_room():
        found = contents(store, tree)
        again = contents(store, tree)
    assert found == again == dict.fromkeys("abcd", "1")
    assert store.stats.fetched == 3  # the cache keeps them in memory
    assert folder_bytes(tmp_path) == 0


def test_a_folder_that_cannot_be_made_fails_no_read_or_write(tmp_path):
    (tmp_path / "file").write_bytes(b"")
    store = store_over(None, tmp_path / "file" / "cache")
    tree = apply(store, EMPTY_METARANGE, [record("a"), record("b")], WHOLE).metarange
    assert contents(store, tree) == {"a": "1", "b": "1"}


@pytest.mark.parametrize("folder", ["cache", None])
def test_a_pickled_store_reads_and_cannot_publish(tmp_path, folder):
    store = store_over(LocalStore(tmp_path / "lake"), folder and tmp_path / folder)
    tree = write_ranges(store, ["a b c"])
    copy = pickle.loads(pickle.dumps(store))
    assert contents(copy, tree) == contents(store, tree)
    assert copy.stats.fetched == (0 if folder else 2)  # both stores share one cache folder
    with pytest.raises(InternalError, match="for reading"):
        write_ranges(copy, ["a b c", "d e f"])
