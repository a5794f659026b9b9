"""The contract of a key-value store for concurrent threads, as tests."""

# Each test is named by the sentence it checks.

from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from threading import Barrier, Event, Thread

import pytest

from graveler.errors import PreconditionFailedError
from graveler.kv.store import ABSENT, KVStore
from tests.kv.suite.tools import THREADS, SuitePart, keys_of, read

_INCREMENTS = 20


class ThreadsPart(SuitePart):
    """Threads that race, and threads that take turns."""

    def test_threads_lose_no_increment(self, store: KVStore) -> None:
        store.set("p", b"counter", b"0")

        def increment(_: int) -> None:
            done = 0
            while done < _INCREMENTS:
                stored = read(store, "p", b"counter")
                value = b"%d" % (int(stored.value) + 1)
                with suppress(PreconditionFailedError):
                    store.set_if("p", b"counter", value, stored.predicate)
                    done += 1

        with ThreadPoolExecutor(THREADS) as pool:
            list(pool.map(increment, range(THREADS)))
        assert int(read(store, "p", b"counter").value) == THREADS * _INCREMENTS

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

        def look(keys: list[tuple[str, bytes]]) -> None:
            for _ in range(self.snapshots):
                values = dict(zip(keys, store.get_many(keys), strict=True))
                one, other = (int(values[key].value) for key in (first, second))  # type: ignore[union-attr]
                assert one - other in {0, 1}

        with ThreadPoolExecutor(3) as pool:
            writer = pool.submit(write)
            try:
                orders = ([first, second], [second, ("p", b"none"), first])
                readers = [pool.submit(look, order) for order in orders]
                for reader in readers:
                    reader.result()
            finally:
                over.set()
            writer.result()

    @pytest.mark.parametrize("call", ["create", "set_if", "delete_if"])
    def test_of_many_who_read_the_same_one_wins(self, store: KVStore, call: str) -> None:
        together = Barrier(THREADS)

        def race(number: int) -> bool:
            predicate = ABSENT if call == "create" else read(store, "p", b"k").predicate
            together.wait(60)
            try:
                if call == "delete_if":
                    store.delete_if("p", b"k", predicate)
                else:
                    store.set_if("p", b"k", b"%d" % number, predicate)
            except PreconditionFailedError:
                return False
            return True

        for _ in range(5):
            store.delete("p", b"k")
            if call != "create":
                store.set("p", b"k", b"old")
            with ThreadPoolExecutor(THREADS) as pool:
                won = list(pool.map(race, range(THREADS)))
            assert won.count(True) == 1
            stored = store.get("p", b"k")
            expected = None if call == "delete_if" else b"%d" % won.index(True)
            assert (stored and stored.value) == expected

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
            had = list(pool.map(work, range(THREADS * 8)))
        assert had == [self.takes_turns] * len(had)
        assert most == 1 or not self.takes_turns

    def test_who_has_no_patience_left_goes_on_without_a_turn(self, store: KVStore) -> None:
        waited, holding = Event(), Event()

        def hold() -> None:
            with store.turn("main", 60):
                holding.set()
                waited.wait(60)

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
        with store.turn("main", 60) as outer:
            with store.turn("main", 0.01) as inner:
                assert not inner  # who has the turn waits for himself
            store.set("p", b"k", b"v")
        assert outer == self.takes_turns

    def test_many_turns_at_once_leave_the_store_usable(self, store: KVStore) -> None:
        together = Barrier(24)

        def work(number: int) -> None:
            with store.turn(f"branch {number}", 60):
                together.wait(60)
                store.set("p", b"%d" % number, b"v")

        with ThreadPoolExecutor(24) as pool:
            list(pool.map(work, range(24)))
        assert len(keys_of(store, "p")) == 24

    @pytest.mark.parametrize("name", ["", "a/b", "it's", "\u00e9\U0001f980", "x" * 5000])
    def test_an_error_gives_the_turn_back_at_any_name(self, store: KVStore, name: str) -> None:
        for _ in range(2):
            with pytest.raises(ZeroDivisionError), store.turn(name, 60) as had:
                assert had == self.takes_turns
                raise ZeroDivisionError
