"""The ranges of a large tree are uploaded to the object store, several at a time."""

import threading
from itertools import count

import pytest

from graveler.committed.apply import apply
from graveler.committed.metarange import EMPTY_METARANGE
from graveler.committed.ranges.range_writer import RangeWriter
from graveler.committed.splitting import Splitting
from graveler.errors import BackendUnavailableError
from graveler.objects.memory import MemoryStore
from tests.committed.cache_files import store_over
from tests.committed.trees import contents, record

ONE_EACH = Splitting(max_bytes=1)
"""A policy by which every record is a range."""
RECORDS = [record(f"key-{number:03d}") for number in range(14)]
MOST_WAITING = 8
FEW = 7
"""The caller itself puts this number of ranges of a store without threads."""


class Puts(MemoryStore):
    """Counts puts, and runs a function of the test before each of them."""

    def __init__(self, before=lambda number: None):
        super().__init__()
        self.before = before
        self.numbers = count(1)
        self.done: list[str] = []

    def put_if_absent(self, key, body):
        self.before(next(self.numbers))
        put = super().put_if_absent(key, body)
        if put:
            self.done.append(key)
        return put


def fails_at(*places, error=BackendUnavailableError):
    def before(number):
        if number in places:
            raise error("the network is down")

    return before


@pytest.fixture(params=["memory", "disk"])
def store(request, tmp_path):
    folder = tmp_path / "cache" if request.param == "disk" else None
    yield store_over(Puts(), folder)
    assert [thread.name for thread in threading.enumerate() if "put" in thread.name] == []
    assert list(tmp_path.glob("cache/tmp/*")) == []


def commit(store, number=14):
    return apply(store, EMPTY_METARANGE, RECORDS[:number], ONE_EACH).metarange


@pytest.mark.parametrize("place", [1, 2, 7, 8, 14, 15])
def test_after_a_failed_put_a_retry_makes_the_tree(store, place):
    store.objects.before = fails_at(place)
    with pytest.raises(BackendUnavailableError, match="network"):
        commit(store)
    assert len(store.objects.done) <= len(RECORDS)
    store.objects.before = fails_at()
    tree = commit(store)
    assert len(contents(store, tree)) == len(RECORDS)
    assert len(list(store.objects.list())) == len(RECORDS) + 1


def writer_over(objects, hold=False):
    return RangeWriter(store_over(objects), ONE_EACH, hold=hold)


def test_a_range_that_could_not_be_put_is_not_forgotten():
    with writer_over(Puts(fails_at(2))) as writer:
        writer.add_all(RECORDS[:4])
        for _ in range(2):
            with pytest.raises(BackendUnavailableError):
                writer.finish()
    alone = Puts(fails_at(1))
    with writer_over(alone) as writer:
        writer.add_all(RECORDS[:1])
        with pytest.raises(BackendUnavailableError):
            writer.finish()
        (info,) = writer.finish()
    assert alone.done == [f"_graveler/{info.id.hex()}"]


def test_a_foreign_error_is_not_taken_for_bad_order(store):
    def records():
        yield from RECORDS[:3]
        raise RuntimeError("the source broke")

    with pytest.raises(RuntimeError, match="broke"), RangeWriter(store, Splitting()) as writer:
        writer.add_all(records())
    store.objects.before = fails_at(1, error=RuntimeError)
    with pytest.raises(RuntimeError, match="network"), RangeWriter(store, ONE_EACH) as writer:
        writer.add_all(RECORDS)


def test_a_tree_is_put_beside_its_last_ranges(store):
    together = threading.Barrier(4)
    store.objects.before = lambda _number: together.wait(30)  # breaks if fewer come
    tree = commit(store, 3)
    assert store.key(bytes.fromhex(tree)) in store.objects.done
    assert len(store.objects.done) == 4


def test_a_tree_is_not_known_before_its_ranges_are_stored(store):
    go, tree_is_there, made = threading.Event(), threading.Event(), []

    class Slow(Puts):
        def put_if_absent(self, key, body):
            if threading.current_thread() is not caller:
                assert go.wait(30)
            put = super().put_if_absent(key, body)
            tree_is_there.set()
            return put

    def write():
        made.append(commit(store, 1))

    store.objects = Slow()
    caller = threading.Thread(target=write)
    caller.start()
    assert tree_is_there.wait(30)
    caller.join(0.2)
    assert not made
    go.set()
    caller.join(30)
    assert len(contents(store, made[0])) == 1


class Local(Puts):
    put_threads = 0


@pytest.mark.parametrize("number", [FEW, len(RECORDS)], ids=["few", "many"])
def test_a_store_without_threads_gets_many_from_one_thread(number):
    threads, me = [], threading.get_ident()
    puts = Local(lambda number: threads.append(threading.get_ident()))
    store = store_over(puts)
    tree = commit(store, number)
    assert len(contents(store, tree)) == number
    assert puts.done[-1] == store.key(bytes.fromhex(tree))  # after the ranges of the tree
    assert threads[-1] == me
    if number == FEW:
        assert threads == [me] * (FEW + 1)
    else:
        assert threads[0] != me
        assert len(set(threads)) == 2


@pytest.mark.parametrize("hold", [False, True])
def test_the_caller_goes_on_where_a_put_failed(hold):
    puts = Local(fails_at(3))
    with writer_over(puts, hold) as writer:
        with pytest.raises(BackendUnavailableError):
            writer.add_all(RECORDS[:FEW])
            assert not (hold and puts.done)  # what is held is put at the end only
            writer.finish()
        writer._publisher.finish()  # the second call puts nothing twice
    assert len(puts.done) == len(set(puts.done)) >= 3


def test_what_waits_is_bounded(store):
    go, added = threading.Event(), []
    store.objects.before = lambda _number: go.wait(30)

    def write():
        with RangeWriter(store, ONE_EACH) as writer:
            for item in RECORDS:
                writer.add_all([item])
                added.append(item)
            writer.finish()

    thread = threading.Thread(target=write)
    thread.start()
    thread.join(0.2)  # long enough to add all of them
    assert len(added) <= MOST_WAITING + 1  # the last range ends only with the record after it
    go.set()
    thread.join()
    assert len(store.objects.done) == len(added) == len(RECORDS)


def test_leaving_waits_for_pending_work_and_starts_nothing(store):
    leaving, begun = threading.Event(), threading.Semaphore(0)
    started = []

    def before(number):
        started.append(number)
        begun.release()
        leaving.wait(30)

    store.objects.before = before
    with pytest.raises(ValueError, match="enough"), RangeWriter(store, ONE_EACH) as writer:
        writer.add_all(RECORDS[:MOST_WAITING])
        for _ in range(4):
            assert begun.acquire(timeout=30)
        leaving.set()
        raise ValueError("enough")
    assert len(store.objects.done) == len(started)
