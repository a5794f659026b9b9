import pytest

from graveler.committed.ranges.range_writer import RangeWriter
from graveler.committed.splitting import Splitting
from graveler.errors import InvalidInputError, StateError, UnsortedKeysError
from graveler.model import RangeInfo
from graveler.objects.memory import MemoryStore
from graveler.values import range_id
from tests.committed.cache_files import store_over
from tests.committed.trees import CRUMBS, WHOLE, new_store, record
from tests.harness.programs import FORKS, output_of


def numbered(start, stop):
    return [record(f"key-{number:05d}") for number in range(start, stop)]


def write(store, *parts, splitting=WHOLE):
    """Write records (lists) and ranges (tuples); return the ranges, and how many were written."""
    before = store.stats.ranges_written
    with RangeWriter(store, splitting) as writer:
        for part in parts:
            (writer.add_ranges if isinstance(part, tuple) else writer.add_all)(part)
        infos = writer.finish()
    return tuple(infos), store.stats.ranges_written - before


def test_a_range_is_named_by_its_records_and_read_by_that_name():
    store = new_store()
    records = numbered(0, 50)
    infos, _ = write(store, *([one] for one in records))
    info = infos[0]
    assert info.id == range_id(identifier for _, identifier, _ in records)
    assert store.open(info.id).records() == records
    assert store.open(info.id).get(b"key-00007") == records[7][2]
    assert store.open(info.id).get(b"key-00007x") is None


@pytest.mark.parametrize(
    ("middle", "counts", "kept"),
    [(numbered(10, 15), [2, 5, 2], True), (numbered(10, 14), [2, 6], False)],
    ids=["large enough", "a small fragment"],
)
def test_a_reused_range_ends_the_current_one(middle, counts, kept):
    store = new_store()
    reused, _ = write(store, middle)
    infos, done = write(store, numbered(0, 2), reused, numbered(20, 22))
    assert [info.count for info in infos] == counts
    assert done == 2
    assert (infos[1] is reused[0]) == kept


def test_fragments_are_joined_when_the_policy_ends_their_range():
    store, splitting = new_store(), Splitting(max_bytes=1_000, raggedness=1 << 62)
    infos: tuple[RangeInfo, ...] = ()
    for start, stop in ((0, 16), (16, 20), (20, 22)):
        infos, _ = write(store, infos, numbered(start, stop), splitting=splitting)
    assert [info.count for info in infos] == [16, 6]
    infos, spent = write(store, infos, numbered(22, 25), splitting=splitting)
    assert [(info.count, info.natural) for info in infos] == [(23, True), (2, False)]
    assert spent == 2


@pytest.mark.parametrize("splitting", [WHOLE, Splitting(max_bytes=1)], ids=["within", "at breaks"])
def test_a_key_that_does_not_ascend_is_refused(splitting):
    store = new_store()
    (info,), _ = write(store, numbered(10, 13))
    with RangeWriter(store, splitting) as writer:
        writer.add_all([record("b"), record("c")])
        for key in ("c", "b", "a"):
            with pytest.raises(UnsortedKeysError, match="ascending"):
                writer.add_all([record(key)])
        writer.add_ranges((info,))
        with pytest.raises(UnsortedKeysError):
            writer.add_all([record("key-00012")])
        with pytest.raises(UnsortedKeysError):
            writer.add_ranges((info,))


def test_a_key_has_the_length_of_a_path():
    for key in ("", "k" * 1281):
        with pytest.raises(InvalidInputError, match="1280"):
            write(new_store(), [record(key)])
    assert write(new_store(), [record("k" * 1280)])[1] == 1


def test_a_finished_writer_takes_nothing_more():
    assert write(new_store(), ()) == ((), 0)
    with RangeWriter(new_store(), WHOLE) as writer:
        writer.add_all([record("a")])
        writer.finish()
        with pytest.raises(StateError):
            writer.add_all([record("b")])
        with pytest.raises(StateError):
            writer.finish()


def test_leaving_without_finishing_leaves_no_files(tmp_path):
    store = store_over(None, tmp_path)
    with RangeWriter(store, CRUMBS, hold=True) as writer:
        writer.add_all(numbered(0, 100))
        assert any(path.is_file() for path in tmp_path.rglob("*"))
    assert not any(path.is_file() for path in tmp_path.rglob("*"))
    assert list(store.objects.list()) == []


def test_a_child_that_ends_leaves_the_parents_files_alone(tmp_path):
    output_of("committed.programs.forks", "writer", tmp_path, warnings=FORKS)


def test_a_range_that_the_store_has_is_not_put_or_read_again():
    objects = MemoryStore()
    first, second = store_over(objects), store_over(objects)
    (info,), (again,) = (write(store, [record("a")])[0] for store in (first, second))
    assert info == again
    assert second.stats.ranges_written == 0
    assert second.open(info.id).get(b"a") == record("a")[2]
    assert second.stats.fetched == 0
