from collections.abc import Sequence
from pathlib import Path

import pytest

from graveler.committed.cache.range_cache import RangeCache
from graveler.committed.ranges.range_store import RangeStore
from graveler.committed.ranges.range_writer import RangeWriter
from graveler.committed.splitting import Cutter, Splitting
from graveler.errors import InvalidInputError, StateError, UnsortedKeysError
from graveler.model import RangeInfo
from graveler.objects.memory import MemoryStore
from graveler.values import add_totals, range_id, total
from tests.committed.trees import CRUMBS, WHOLE, new_store, record
from tests.harness.programs import FORKS, output_of


def numbered(count, start=0):
    return [record(f"key-{number:05d}") for number in range(start, start + count)]


@pytest.mark.parametrize(
    "splitting",
    [
        CRUMBS,
        Splitting(raggedness=7),
        Splitting(min_bytes=300, max_bytes=700, raggedness=2),
        Splitting(max_bytes=1),
        Splitting("directory", max_bytes=700, raggedness=2),
    ],
)
def test_ranges_end_where_the_splitting_policy_says(splitting):
    records = [record(f"{number // 60}/{number // 7}/{number:05d}") for number in range(300)]
    records.sort()
    cutter = Cutter(splitting)
    expected, size, keys = [], 0, []
    for at, (key, _, value) in enumerate(records):
        size += len(key) + len(value)
        keys.append(key)
        following = records[at + 1][0] if at + 1 < len(records) else None
        natural = cutter.cut(key, following, size)
        if natural or following is None:
            expected.append((keys[0], key, len(keys), size, natural))
            size, keys = 0, []
    with RangeWriter(new_store(), splitting) as writer:
        writer.add_all(records)
        infos = writer.finish()
    assert len(infos) > 10
    assert [
        (info.min_key, info.max_key, info.count, info.size, info.natural) for info in infos
    ] == expected
    whole = add_totals(info.total for info in infos)
    assert whole == total(b"".join(identifier for _, identifier, _ in records))


def test_a_range_is_named_by_its_records_and_read_by_that_name():
    store = new_store()
    records = numbered(50)
    with RangeWriter(store, WHOLE) as writer:
        for key, identifier, value in records:
            writer.add_all([(key, identifier, value)])
        (info,) = writer.finish()
    assert info.id == range_id(identifier for _, identifier, _ in records)
    assert store.open(info.id).records() == records
    assert store.open(info.id).get(b"key-00007") == records[7][2]
    assert store.open(info.id).get(b"key-00007x") is None


def test_a_reused_range_ends_the_current_one_and_is_not_written():
    store = new_store()
    with RangeWriter(store, WHOLE) as writer:
        writer.add_all(numbered(5, start=10))
        (middle,) = writer.finish()
    written = store.stats.ranges_written
    with RangeWriter(store, WHOLE) as writer:
        writer.add_all(numbered(2))
        writer.add_ranges((middle,))
        writer.add_all(numbered(2, start=20))
        infos = writer.finish()
    assert [info.count for info in infos] == [2, 5, 2]
    assert infos[1] is middle
    assert (writer.written, writer.reused) == (2, 1)
    assert store.stats.ranges_written == written + 2


def test_a_small_fragment_is_written_with_what_follows_it():
    store = new_store()
    with RangeWriter(store, WHOLE) as writer:
        writer.add_all(numbered(4, start=10))
        (middle,) = writer.finish()
    with RangeWriter(store, WHOLE) as writer:
        writer.add_all(numbered(2))
        writer.add_ranges((middle,))
        writer.add_all(numbered(2, start=20))
        infos = writer.finish()
    assert [info.count for info in infos] == [2, 6]
    assert (writer.written, writer.reused) == (2, 0)


def test_fragments_are_joined_when_the_policy_ends_their_range():
    store, splitting = new_store(), Splitting(max_bytes=1_000, raggedness=1 << 62)
    infos: Sequence[RangeInfo] = ()
    records = numbered(40)
    for start, stop in ((0, 16), (16, 20), (20, 22)):
        with RangeWriter(store, splitting) as writer:
            writer.add_ranges(infos)
            writer.add_all(records[start:stop])
            infos = writer.finish()
    assert [info.count for info in infos] == [16, 6]
    with RangeWriter(store, splitting) as writer:
        writer.add_ranges(infos)
        writer.add_all(records[22:25])
        infos = writer.finish()
    assert [(info.count, info.natural) for info in infos] == [(23, True), (2, False)]
    assert (writer.written, writer.reused) == (2, 0)


@pytest.mark.parametrize("key", ["key-00002", "key-00001", "a"])
def test_a_key_that_does_not_ascend_is_refused(key):
    with RangeWriter(new_store(), WHOLE) as writer:
        writer.add_all(numbered(3))
        with pytest.raises(UnsortedKeysError, match="ascending"):
            writer.add_all([record(key)])


def test_the_order_holds_across_breaks_and_reused_ranges():
    store = new_store()
    with RangeWriter(store, WHOLE) as writer:
        writer.add_all(numbered(3, start=10))
        (info,) = writer.finish()
    with RangeWriter(store, Splitting(max_bytes=1)) as writer:
        writer.add_all([record("b")])
        with pytest.raises(UnsortedKeysError):
            writer.add_all([record("b")])
        writer.add_ranges((info,))
        with pytest.raises(UnsortedKeysError):
            writer.add_all([record("key-00012")])
        with pytest.raises(UnsortedKeysError):
            writer.add_ranges((info,))


@pytest.mark.parametrize("key", ["", "k" * 1281])
def test_a_key_of_a_length_that_no_path_has_is_refused(key):
    with RangeWriter(new_store(), WHOLE) as writer, pytest.raises(InvalidInputError, match="1280"):
        writer.add_all([record(key)])


def test_a_key_of_1024_bytes_is_taken():
    with RangeWriter(new_store(), WHOLE) as writer:
        writer.add_all([record("k" * 1024)])
        assert writer.finish()[0].count == 1


def test_nothing_written_means_no_ranges():
    with RangeWriter(new_store(), WHOLE) as writer:
        writer.add_ranges(())
        assert writer.finish() == ()


def test_a_finished_writer_takes_nothing_more():
    with RangeWriter(new_store(), WHOLE) as writer:
        writer.add_all([record("a")])
        writer.finish()
        with pytest.raises(StateError):
            writer.add_all([record("b")])
        with pytest.raises(StateError):
            writer.finish()


def test_a_writer_that_holds_publishes_at_the_end_only():
    store = new_store()
    with RangeWriter(store, CRUMBS, hold=True) as writer:
        writer.add_all(numbered(30))
        assert list(store.objects.list()) == []
        infos = writer.finish()
    assert len(list(store.objects.list())) == len(infos) > 1


def test_leaving_without_finishing_leaves_no_files(tmp_path: Path):
    store = RangeStore(MemoryStore(), RangeCache(tmp_path, 1 << 20))
    with RangeWriter(store, CRUMBS, hold=True) as writer:
        writer.add_all(numbered(100))
        assert any(path.is_file() for path in tmp_path.rglob("*"))
    assert not any(path.is_file() for path in tmp_path.rglob("*"))
    assert list(store.objects.list()) == []


def test_a_child_that_ends_leaves_the_parents_files_alone():
    output_of("committed.programs.fork_beside_writer", warnings=FORKS)


def test_equal_content_at_two_addresses_makes_two_ranges():
    objects = MemoryStore()
    first, second = (RangeStore(objects, RangeCache(None, 1 << 20)) for _ in range(2))
    found: list[RangeInfo] = []
    for store, address in ((first, "1@one"), (second, "1@other")):
        with RangeWriter(store, WHOLE) as writer:
            writer.add_all([record("a", address)])
            found += writer.finish()
    for store in (first, second):
        for info, address in zip(found, ("1@one", "1@other"), strict=True):
            assert store.open(info.id).get(b"a") == record("a", address)[2]
    assert [store.stats.ranges_written for store in (first, second)] == [1, 1]


def test_a_range_that_the_store_has_is_not_put_or_read_again():
    objects = MemoryStore()
    first, second = (RangeStore(objects, RangeCache(None, 1 << 20)) for _ in range(2))
    found: list[RangeInfo] = []
    for store in (first, second):
        with RangeWriter(store, WHOLE) as writer:
            writer.add_all([record("a")])
            found += writer.finish()
    assert second.stats.ranges_written == 0
    assert second.open(found[1].id).get(b"a") == record("a")[2]
    assert second.stats.fetched == 0
