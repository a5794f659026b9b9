"""The contract of a key-value store for concurrent threads, as tests."""

# Each test is named by the sentence it checks.

from concurrent.futures import ThreadPoolExecutor
from threading import Barrier, Event, Thread

import pytest

from graveler.errors import PreconditionFailedError
from graveler.kv.store import ABSENT, KVStore
from tests.kv.suite.tools import THREADS, SuitePart, keys_of

_INCREMENTS = 20


def _increment(store: KVStore, times: int) -> int:
    """Add 1 to the counter `times` times by compare-and-set; return the number of lost races."""
    lost = done = 0
    while done < times:
        stored = store.get("p", b"counter")
        assert stored is not None
        try:
            store.set_if("p", b"counter", b"%d" % (int(stored.value) + 1), stored.predicate)
        except PreconditionFailedError:
            lost += 1
        else:
            done += 1
    return lost


class ThreadsPart(SuitePart):
    """Threads that race, and threads that take turns."""

    def test_threads_lose_no_increment(self, store: KVStore) -> None:
        store.set("p", b"counter", b"0")
        with ThreadPoolExecutor(THREADS) as pool:
            jobs = [pool.submit(_increment, store, _INCREMENTS) for _ in range(THREADS)]
        for job in jobs:
            job.result()
        stored = store.get("p", b"counter")
        assert stored is not None
        assert int(stored.value) == THREADS * _INCREMENTS

    @pytest.mark.parametrize("partitions", [("p", "p"), ("p", "q")], ids=["one", "two"])
    def test_get_many_returns_what_was_there_at_one_moment(
        self, store: KVStore, partitions: tuple[str, str]
    ) -> None:
        first, second = zip(partitions, (b"first", b"second"), strict=True)
        for key in (first, second):
            store.set(*key, b"0")
        over = Event()

        def write() -> None:
            number = 0
            while not over.is_set():
                number += 1
                store.set(*first, b"%d" % number)
                store.set(*second, b"%d" % number)

        def read(keys: list[tuple[str, bytes]]) -> None:
            for _ in range(self.snapshots):
                values = dict(zip(keys, store.get_many(keys), strict=True))
                one, other = (int(values[key].value) for key in (first, second))  # type: ignore[union-attr]
                assert one - other in {0, 1}

        with ThreadPoolExecutor(3) as pool:
            writer = pool.submit(write)
            try:
                orders = ([first, second], [second, ("p", b"none"), first])
                readers = [pool.submit(read, order) for order in orders]
                for reader in readers:
                    reader.result()
            finally:
                over.set()
            writer.result()

    def test_one_thread_of_many_creates_a_key(self, store: KVStore) -> None:
        def create(number: int) -> int | None:
            try:
                store.set_if("p", b"k", b"%d" % number, ABSENT)
            except PreconditionFailedError:
                return None
            return number

        with ThreadPoolExecutor(THREADS) as pool:
            winners = [won for won in pool.map(create, range(THREADS)) if won is not None]
        stored = store.get("p", b"k")
        assert stored is not None
        assert winners == [int(stored.value)]

    @pytest.mark.parametrize("call", ["set_if", "delete_if"])
    def test_of_many_who_read_the_same_one_wins(self, store: KVStore, call: str) -> None:
        together = Barrier(THREADS)

        def race(number: int) -> bool:
            stored = store.get("p", b"k")
            assert stored is not None
            together.wait(60)
            try:
                if call == "set_if":
                    store.set_if("p", b"k", b"%d" % number, stored.predicate)
                else:
                    store.delete_if("p", b"k", stored.predicate)
            except PreconditionFailedError:
                return False
            return True

        for _ in range(5):
            store.set("p", b"k", b"old")
            with ThreadPoolExecutor(THREADS) as pool:
                won = list(pool.map(race, range(THREADS)))
            assert won.count(True) == 1
            stored = store.get("p", b"k")
            expected = b"%d" % won.index(True) if call == "set_if" else None
            assert (stored and stored.value) == expected

    def test_threads_write_and_scan_side_by_side(self, store: KVStore) -> None:
        def work(number: int) -> list[bytes]:
            partition = f"p{number}"
            keys = [b"%06d" % key for key in range(300)]
            store.set_many(partition, ((key, b"v") for key in keys[:200]))
            for key in keys[200:]:
                store.set(partition, key, b"v")
            return keys_of(store, partition)

        with ThreadPoolExecutor(THREADS) as pool:
            results = list(pool.map(work, range(THREADS)))
        assert results == [[b"%06d" % key for key in range(300)]] * THREADS

    def test_one_thread_at_a_time_has_the_turn(self, store: KVStore) -> None:
        inside = 0
        most = 0

        def work(_: int) -> bool:
            nonlocal inside, most
            with store.turn("main", 60) as had:
                inside += 1
                most = max(most, inside)
                # the holder also needs the store while all the others wait
                store.set("p", b"k", b"v")
                inside -= 1
            return had

        with ThreadPoolExecutor(THREADS) as pool:
            had = list(pool.map(work, range(THREADS * 20)))
        assert had == [self.takes_turns] * len(had)
        assert most == 1 or not self.takes_turns

    def test_who_has_no_patience_left_goes_on_without_a_turn(self, store: KVStore) -> None:
        waited = Event()

        def hold() -> None:
            with store.turn("main", 60):
                holding.set()
                waited.wait(60)

        holding = Event()
        holder = Thread(target=hold)
        holder.start()
        try:
            assert holding.wait(60)
            for patience in (0, 0.01):
                with store.turn("main", patience) as had:
                    assert not had
        finally:
            waited.set()
            holder.join()
        with store.turn("main", 60) as had:
            assert had == self.takes_turns

    def test_who_has_the_turn_waits_for_himself(self, store: KVStore) -> None:
        with store.turn("main", 60) as outer:
            for _ in range(2):
                with store.turn("main", 0.01) as inner:
                    assert not inner
            store.set("p", b"k", b"v")
        assert outer == self.takes_turns
        with store.turn("main", 60) as had:
            assert had == self.takes_turns

    def test_many_turns_at_once_leave_the_store_usable(self, store: KVStore) -> None:
        together = Barrier(24)

        def work(number: int) -> None:
            with store.turn(f"branch {number}", 60):
                together.wait(60)
                store.set("p", b"%d" % number, b"v")

        with ThreadPoolExecutor(24) as pool:
            list(pool.map(work, range(24)))
        assert len(keys_of(store, "p")) == 24

    def test_an_error_gives_the_turn_back(self, store: KVStore) -> None:
        def fail() -> None:
            with store.turn("main", 60) as had:
                assert had == self.takes_turns
                raise ZeroDivisionError

        for _ in range(3):
            with pytest.raises(ZeroDivisionError):
                fail()

    @pytest.mark.parametrize("name", ["", "a/b", "it's", "\u00e9\U0001f980", "x" * 5000])
    def test_turns_are_taken_at_any_name(self, store: KVStore, name: str) -> None:
        with store.turn(name, 60) as had:
            assert had == self.takes_turns
