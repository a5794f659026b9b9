"""What a key-value driver must do, as tests.

Derive from :class:`KVStoreSuite` in a test module and give it a fixture ``store``::

    class TestMyStore(KVStoreSuite):
        @pytest.fixture
        def store(self, tmp_path):
            with MyStore(tmp_path) as store:
                yield store
"""

# Each test is named by the sentence it checks.
# ruff: noqa: D102

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import count
from threading import Event, Thread
from typing import Any, ClassVar, Final

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule, run_state_machine_as_test

from graveler.errors import InvalidInputError, PreconditionFailedError, StateError
from graveler.kv.store import ABSENT, MAX_KEY_BYTES, PRESENT, KVStore

__all__ = ["KVStoreSuite"]

_EVERY_BYTE: Final = [bytes([byte]) for byte in range(256)]
_TRICKY_NAMES: Final = (
    *("a", "ab", "b", "a/b", "a/", "/", "A", "a%", "a_", "a:b", "a.b", " a", "'"),
    *("\x01", "\x7f", "\u00e9", "e\u0301", "\U0001f980", "\uffff", "x" * MAX_KEY_BYTES),
)
_TOO_LONG: Final = MAX_KEY_BYTES + 1
_BAD_PARTITIONS: Final = ("", "x" * _TOO_LONG, "\u00e9" * 600, "a\0b", "\ud800")
_BAD_KEYS: Final = (b"", b"x" * _TOO_LONG)
_THREADS: Final = 8
_INCREMENTS: Final = 20


def _fill(store: KVStore, partition: str, keys: list[bytes]) -> None:
    store.set_many(partition, ((key, b"=" + key) for key in keys))


def _keys(store: KVStore, partition: str, start: bytes = b"") -> list[bytes]:
    return [key for key, _ in store.scan(partition, start)]


def _increment(store: KVStore, times: int) -> int:
    """Add `times` to the counter by compare-and-set; return how often it had to start over."""
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


def _calls(store: KVStore, partition: str, key: bytes) -> list[Callable[[], object]]:
    return [
        lambda: store.get(partition, key),
        lambda: store.get_each([partition], key),
        lambda: store.set(partition, key, b"v"),
        lambda: store.set_many(partition, [(b"fine", b"v"), (key, b"v")]),
        lambda: store.set_if(partition, key, b"v", ABSENT),
        lambda: store.delete(partition, key),
    ]


class KVStoreSuite:
    """The port's promises, one test each.

    Attributes:
        takes_turns: Whether the store knows turns.
    """

    takes_turns: ClassVar[bool] = True

    @pytest.fixture
    def store(self) -> Iterator[KVStore]:
        """Yield an empty store; to be overridden."""
        raise NotImplementedError("give the suite a fixture named store")

    # Reading and writing

    def test_a_key_never_written_is_none(self, store: KVStore) -> None:
        assert store.get("p", b"k") is None

    def test_what_was_set_is_read(self, store: KVStore) -> None:
        store.set("p", b"k", b"v")
        stored = store.get("p", b"k")
        assert stored is not None
        assert stored.value == b"v"

    def test_set_overwrites(self, store: KVStore) -> None:
        store.set("p", b"k", b"first")
        store.set("p", b"k", b"second")
        assert list(store.scan("p")) == [(b"k", b"second")]

    def test_an_empty_value_is_a_value(self, store: KVStore) -> None:
        store.set("p", b"k", b"")
        stored = store.get("p", b"k")
        assert stored is not None
        assert stored.value == b""
        assert list(store.scan("p")) == [(b"k", b"")]
        with pytest.raises(PreconditionFailedError):
            store.set_if("p", b"k", b"v", ABSENT)
        store.set_if("p", b"k", b"v", stored.predicate)

    def test_a_value_holds_any_bytes(self, store: KVStore) -> None:
        value = bytes(range(256)) * 1000
        store.set("p", b"k", value)
        stored = store.get("p", b"k")
        assert stored is not None
        assert stored.value == value
        assert type(stored.value) is bytes

    def test_the_longest_names_are_taken(self, store: KVStore) -> None:
        partition, key = "p" * MAX_KEY_BYTES, b"\xff" * MAX_KEY_BYTES
        store.set(partition, key, b"v")
        store.set_many(partition, [(key[:-1], b"u")])
        assert list(store.scan(partition)) == [(key[:-1], b"u"), (key, b"v")]
        assert list(store.scan(partition, key)) == [(key, b"v")]
        store.delete(partition, key)
        assert store.get(partition, key) is None

    @pytest.mark.parametrize("partition", _BAD_PARTITIONS, ids=range(len(_BAD_PARTITIONS)))
    def test_a_bad_partition_is_refused(self, store: KVStore, partition: str) -> None:
        calls: list[Callable[[], object]] = [
            *_calls(store, partition, b"k"),
            lambda: store.set_many(partition, []),
            lambda: store.drop(partition),
            lambda: store.scan(partition),
        ]
        for call in calls:
            with pytest.raises(InvalidInputError):
                call()

    @pytest.mark.parametrize("key", _BAD_KEYS, ids=["empty", "long"])
    def test_a_bad_key_is_refused(self, store: KVStore, key: bytes) -> None:
        for call in _calls(store, "p", key):
            with pytest.raises(InvalidInputError):
                call()

    # One key of many partitions

    def test_get_each_is_get_of_each(self, store: KVStore) -> None:
        for number in range(0, 700, 2):
            store.set(f"p{number}", b"k", b"%d" % number)
            store.set(f"p{number}", b"other", b"-")
        names = [f"p{number}" for number in range(700)]
        assert store.get_each(names, b"k") == [store.get(name, b"k") for name in names]
        found = [stored and stored.value for stored in store.get_each(names[::-1], b"k")]
        assert found == [b"%d" % n if n % 2 == 0 else None for n in reversed(range(700))]

    def test_get_each_takes_a_partition_twice_and_none_at_all(self, store: KVStore) -> None:
        store.set("p", b"k", b"")
        found = store.get_each(["p", "q", "p"], b"k")
        assert [stored and stored.value for stored in found] == [b"", None, b""]
        assert store.get_each([], b"k") == []

    def test_what_get_each_returns_is_good_for_set_if(self, store: KVStore) -> None:
        store.set("p", b"k", b"old")
        (stored,) = store.get_each(["p"], b"k")
        assert stored is not None
        store.set_if("p", b"k", b"new", stored.predicate)
        with pytest.raises(PreconditionFailedError):
            store.set_if("p", b"k", b"newer", stored.predicate)

    def test_get_each_tells_tricky_names_apart(self, store: KVStore) -> None:
        for number, name in enumerate(_TRICKY_NAMES):
            store.set(name, b"\x00\xff", b"%d" % number)
        found = [stored and stored.value for stored in store.get_each(_TRICKY_NAMES, b"\x00\xff")]
        assert found == [b"%d" % number for number in range(len(_TRICKY_NAMES))]

    # Many at once

    def test_set_many_writes_all(self, store: KVStore) -> None:
        items = [(b"%06d" % number, b"v%d" % number) for number in range(12_345)]
        store.set_many("p", iter(items))
        assert list(store.scan("p")) == items

    def test_set_many_overwrites(self, store: KVStore) -> None:
        store.set_many("p", [(b"a", b"1"), (b"b", b"1")])
        store.set_many("p", [(b"b", b"2"), (b"c", b"2")])
        assert list(store.scan("p")) == [(b"a", b"1"), (b"b", b"2"), (b"c", b"2")]

    def test_set_many_lets_the_last_one_count(self, store: KVStore) -> None:
        store.set_many("p", [(b"k", b"1"), (b"l", b"1"), (b"k", b"2"), (b"k", b"3")])
        assert list(store.scan("p")) == [(b"k", b"3"), (b"l", b"1")]

    def test_set_many_of_nothing_is_fine(self, store: KVStore) -> None:
        store.set_many("p", [])
        assert list(store.scan("p")) == []

    def test_the_items_of_set_many_may_come_from_the_store(self, store: KVStore) -> None:
        _fill(store, "from", [b"a", b"b"])

        def items() -> Iterator[tuple[bytes, bytes]]:
            for key, value in store.scan("from"):
                store.set("log", key, b"seen")
                yield key, value

        store.set_many("to", items())
        assert list(store.scan("to")) == list(store.scan("from"))
        assert _keys(store, "log") == [b"a", b"b"]

    # Compare and set

    def test_set_if_absent_writes_what_is_not_there(self, store: KVStore) -> None:
        store.set_if("p", b"k", b"v", ABSENT)
        assert list(store.scan("p")) == [(b"k", b"v")]

    def test_set_if_absent_leaves_what_is_there(self, store: KVStore) -> None:
        store.set("p", b"k", b"old")
        with pytest.raises(PreconditionFailedError):
            store.set_if("p", b"k", b"new", ABSENT)
        assert list(store.scan("p")) == [(b"k", b"old")]

    def test_set_if_present_writes_over_any_value(self, store: KVStore) -> None:
        store.set("p", b"k", b"old")
        store.set_if("p", b"k", b"new", PRESENT)
        assert list(store.scan("p")) == [(b"k", b"new")]

    def test_set_if_present_does_not_create(self, store: KVStore) -> None:
        with pytest.raises(PreconditionFailedError):
            store.set_if("p", b"k", b"v", PRESENT)
        assert list(store.scan("p")) == []

    def test_set_if_writes_over_the_value_read(self, store: KVStore) -> None:
        store.set("p", b"k", b"old")
        stored = store.get("p", b"k")
        assert stored is not None
        store.set_if("p", b"k", b"new", stored.predicate)
        assert list(store.scan("p")) == [(b"k", b"new")]

    def test_set_if_leaves_a_value_changed_since(self, store: KVStore) -> None:
        store.set("p", b"k", b"old")
        stored = store.get("p", b"k")
        assert stored is not None
        store.set("p", b"k", b"others")
        with pytest.raises(PreconditionFailedError):
            store.set_if("p", b"k", b"new", stored.predicate)
        assert list(store.scan("p")) == [(b"k", b"others")]

    def test_set_if_does_not_revive_what_was_deleted(self, store: KVStore) -> None:
        store.set("p", b"k", b"old")
        stored = store.get("p", b"k")
        assert stored is not None
        store.delete("p", b"k")
        with pytest.raises(PreconditionFailedError):
            store.set_if("p", b"k", b"new", stored.predicate)
        assert store.get("p", b"k") is None

    def test_a_predicate_is_spent_by_its_own_write(self, store: KVStore) -> None:
        store.set("p", b"k", b"old")
        stored = store.get("p", b"k")
        assert stored is not None
        store.set_if("p", b"k", b"new", stored.predicate)
        with pytest.raises(PreconditionFailedError):
            store.set_if("p", b"k", b"newer", stored.predicate)

    def test_set_if_may_write_the_same_value_again(self, store: KVStore) -> None:
        store.set("p", b"k", b"same")
        for _ in range(2):
            stored = store.get("p", b"k")
            assert stored is not None
            store.set_if("p", b"k", b"same", stored.predicate)
        assert list(store.scan("p")) == [(b"k", b"same")]

    def test_set_if_looks_in_its_own_partition_only(self, store: KVStore) -> None:
        store.set("other", b"k", b"v")
        with pytest.raises(PreconditionFailedError):
            store.set_if("p", b"k", b"v", PRESENT)
        store.set_if("p", b"k", b"v", ABSENT)

    def test_what_is_no_predicate_is_refused(self, store: KVStore) -> None:
        store.set("p", b"k", b"v")
        with pytest.raises(InvalidInputError):
            store.set_if("p", b"k", b"new", None)
        assert list(store.scan("p")) == [(b"k", b"v")]

    # Deleting

    def test_delete_removes_one_key(self, store: KVStore) -> None:
        _fill(store, "p", [b"a", b"b", b"c"])
        store.delete("p", b"b")
        assert store.get("p", b"b") is None
        assert _keys(store, "p") == [b"a", b"c"]

    def test_deleting_what_is_not_there_is_fine(self, store: KVStore) -> None:
        store.delete("p", b"k")
        store.set("p", b"k", b"v")
        store.delete("p", b"k")
        store.delete("p", b"k")
        assert list(store.scan("p")) == []

    def test_delete_if_removes_the_value_read(self, store: KVStore) -> None:
        _fill(store, "p", [b"a", b"b"])
        stored = store.get("p", b"a")
        assert stored is not None
        store.delete_if("p", b"a", stored.predicate)
        assert _keys(store, "p") == [b"b"]
        with pytest.raises(PreconditionFailedError):
            store.delete_if("p", b"a", stored.predicate)

    def test_delete_if_leaves_a_value_changed_since(self, store: KVStore) -> None:
        store.set("p", b"k", b"old")
        stored = store.get("p", b"k")
        assert stored is not None
        store.set("p", b"k", b"others")
        with pytest.raises(PreconditionFailedError):
            store.delete_if("p", b"k", stored.predicate)
        assert list(store.scan("p")) == [(b"k", b"others")]

    @pytest.mark.parametrize("predicate", [None, ABSENT, PRESENT])
    def test_delete_if_takes_only_what_was_read(self, store: KVStore, predicate: Any) -> None:
        store.set("p", b"k", b"v")
        with pytest.raises(InvalidInputError):
            store.delete_if("p", b"k", predicate)
        assert list(store.scan("p")) == [(b"k", b"v")]

    def test_a_deleted_key_can_be_made_again(self, store: KVStore) -> None:
        store.set("p", b"k", b"old")
        store.delete("p", b"k")
        store.set_if("p", b"k", b"new", ABSENT)
        assert list(store.scan("p")) == [(b"k", b"new")]

    def test_drop_removes_the_whole_partition(self, store: KVStore) -> None:
        keys = [b"%06d" % number for number in range(11_000)]
        _fill(store, "p", [*keys, b"\x00", b"\xff" * MAX_KEY_BYTES])
        store.drop("p")
        assert list(store.scan("p")) == []
        assert store.get("p", keys[0]) is None
        store.set_if("p", keys[0], b"v", ABSENT)
        assert _keys(store, "p") == [keys[0]]

    def test_dropping_what_is_not_there_is_fine(self, store: KVStore) -> None:
        store.drop("p")
        store.drop("p")
        assert list(store.scan("p")) == []

    # Scanning

    def test_an_unknown_partition_scans_empty(self, store: KVStore) -> None:
        assert list(store.scan("p")) == []

    def test_a_scan_ascends_bytewise(self, store: KVStore) -> None:
        keys = [*_EVERY_BYTE, b"\x00\x00", b"\x00\xff", b"a\x00", b"aa", b"\xff\x00", b"\xff\xff"]
        _fill(store, "p", keys[::-1])
        assert list(store.scan("p")) == [(key, b"=" + key) for key in sorted(keys)]

    @pytest.mark.parametrize(
        ("start", "expected"),
        [
            (b"", [b"b", b"d", b"f"]),
            (b"a", [b"b", b"d", b"f"]),
            (b"b", [b"b", b"d", b"f"]),
            (b"b\x00", [b"d", b"f"]),
            (b"c", [b"d", b"f"]),
            (b"f", [b"f"]),
            (b"f\x00", []),
            (b"\xff" * 2000, []),
        ],
    )
    def test_a_scan_starts_at_or_after_its_start(
        self, store: KVStore, start: bytes, expected: list[bytes]
    ) -> None:
        _fill(store, "p", [b"b", b"d", b"f"])
        _fill(store, "q", [b"a", b"z"])
        assert _keys(store, "p", start) == expected

    @pytest.mark.parametrize("size", [63, 64, 65, 319, 320, 321, 5000])
    def test_a_scan_goes_on_over_its_pages(self, store: KVStore, size: int) -> None:
        keys = [b"%06d" % number for number in range(size)]
        _fill(store, "p", keys)
        assert _keys(store, "p") == keys
        assert _keys(store, "p", keys[size // 2]) == keys[size // 2 :]

    def test_keys_may_be_deleted_behind_a_scan(self, store: KVStore) -> None:
        keys = [b"%06d" % number for number in range(500)]
        _fill(store, "p", keys)
        seen = []
        for key, _ in store.scan("p"):
            seen.append(key)
            store.delete("p", key)
        assert seen == keys
        assert list(store.scan("p")) == []

    def test_keys_may_be_deleted_ahead_of_a_scan(self, store: KVStore) -> None:
        keys = [b"%06d" % number for number in range(500)]
        _fill(store, "p", keys)
        scan = store.scan("p")
        seen = [next(scan)[0]]
        for key in keys[1::2]:
            store.delete("p", key)
        seen += [key for key, _ in scan]
        assert seen == sorted(set(seen))
        assert set(keys[::2]) <= set(seen) <= set(keys)

    def test_keys_may_be_added_while_a_scan_runs(self, store: KVStore) -> None:
        keys = [b"%06d" % number for number in range(0, 1000, 2)]
        _fill(store, "p", keys)
        seen = []
        for number, (key, _) in enumerate(store.scan("p")):
            seen.append(key)
            if number < len(keys):
                store.set("p", b"%06d" % (int(key) + 1), b"new")
        assert seen == sorted(set(seen))
        assert set(keys) <= set(seen)

    def test_a_partition_may_be_dropped_while_a_scan_runs(self, store: KVStore) -> None:
        keys = [b"%06d" % number for number in range(500)]
        _fill(store, "p", keys)
        scan = store.scan("p")
        assert next(scan)[0] == keys[0]
        store.drop("p")
        rest = [key for key, _ in scan]
        assert rest == keys[1 : len(rest) + 1]
        assert list(store.scan("p")) == []

    def test_a_scan_may_be_left_half_way(self, store: KVStore) -> None:
        _fill(store, "p", [b"%06d" % number for number in range(500)])
        scan = store.scan("p")
        next(scan)
        store.set("p", b"later", b"v")
        store.drop("p")
        assert list(store.scan("p")) == []

    def test_scans_do_not_disturb_each_other(self, store: KVStore) -> None:
        keys = [b"%06d" % number for number in range(700)]
        _fill(store, "p", keys)
        pairs = list(zip(store.scan("p"), store.scan("p", keys[100]), strict=False))
        assert [left for (left, _), _ in pairs] == keys[:600]
        assert [right for _, (right, _) in pairs] == keys[100:]

    # Partitions

    def test_partitions_do_not_see_each_other(self, store: KVStore) -> None:
        for name in _TRICKY_NAMES:
            store.set_many(name, [(b"k", name.encode()), (b"\x00", b""), (b"\xff", b"")])
        for name in _TRICKY_NAMES:
            assert list(store.scan(name)) == [(b"\x00", b""), (b"k", name.encode()), (b"\xff", b"")]
            stored = store.get(name, b"k")
            assert stored is not None
            assert stored.value == name.encode()

    @pytest.mark.parametrize("dropped", ["a", "a/", "a%", "\uffff"])
    def test_dropping_a_partition_leaves_the_others(self, store: KVStore, dropped: str) -> None:
        for name in _TRICKY_NAMES:
            _fill(store, name, [b"\x00", b"k", b"\xff\xff"])
        store.drop(dropped)
        for name in _TRICKY_NAMES:
            assert _keys(store, name) == ([] if name == dropped else [b"\x00", b"k", b"\xff\xff"])

    def test_a_key_is_no_part_of_a_partition_name(self, store: KVStore) -> None:
        store.set("a", b"bc", b"1")
        store.set("ab", b"c", b"2")
        store.set("a/b", b"c", b"3")
        store.set("a", b"/bc", b"4")
        assert list(store.scan("a")) == [(b"/bc", b"4"), (b"bc", b"1")]
        assert list(store.scan("ab")) == [(b"c", b"2")]
        assert list(store.scan("a/b")) == [(b"c", b"3")]

    # Threads

    def test_partitions_are_found_by_the_start_of_their_names(self, store: KVStore) -> None:
        filled = ["a", "a:", "a:1", "a:\u00e9", "a:x" + "y" * 300, "a;", "b:1", "\U0001f980"]
        for name in filled:
            store.set_many(name, [(b"%d" % number, b"v") for number in range(3)])
        store.set("a:emptied", b"k", b"v")
        store.delete("a:emptied", b"k")
        store.set("a:dropped", b"k", b"v")
        store.drop("a:dropped")
        found = list(store.partitions("a:"))
        if not found and type(store).partitions is KVStore.partitions:
            return  # a driver that cannot tell
        assert sorted(found) == ["a:", "a:1", "a:x" + "y" * 300, "a:\u00e9"]
        assert sorted(store.partitions("")) == sorted(filled)
        assert list(store.partitions("c")) == []

    def test_threads_lose_no_increment(self, store: KVStore) -> None:
        store.set("p", b"counter", b"0")
        with ThreadPoolExecutor(_THREADS) as pool:
            jobs = [pool.submit(_increment, store, _INCREMENTS) for _ in range(_THREADS)]
        for job in jobs:
            job.result()
        stored = store.get("p", b"counter")
        assert stored is not None
        assert int(stored.value) == _THREADS * _INCREMENTS

    def test_one_thread_of_many_creates_a_key(self, store: KVStore) -> None:
        def create(number: int) -> int | None:
            try:
                store.set_if("p", b"k", b"%d" % number, ABSENT)
            except PreconditionFailedError:
                return None
            return number

        with ThreadPoolExecutor(_THREADS) as pool:
            winners = [won for won in pool.map(create, range(_THREADS)) if won is not None]
        stored = store.get("p", b"k")
        assert stored is not None
        assert winners == [int(stored.value)]

    def test_threads_write_and_scan_side_by_side(self, store: KVStore) -> None:
        def work(number: int) -> list[bytes]:
            partition = f"p{number}"
            keys = [b"%06d" % key for key in range(300)]
            store.set_many(partition, ((key, b"v") for key in keys[:200]))
            for key in keys[200:]:
                store.set(partition, key, b"v")
            return _keys(store, partition)

        with ThreadPoolExecutor(_THREADS) as pool:
            found = list(pool.map(work, range(_THREADS)))
        assert found == [[b"%06d" % key for key in range(300)]] * _THREADS

    # Turns

    def test_one_thread_at_a_time_has_the_turn(self, store: KVStore) -> None:
        inside = 0
        most = 0

        def work(_: int) -> bool:
            nonlocal inside, most
            with store.turn("main", 60) as had:
                inside += 1
                most = max(most, inside)
                # It, too, needs the store, while all the others wait.
                store.set("p", b"k", b"v")
                inside -= 1
            return had

        with ThreadPoolExecutor(_THREADS) as pool:
            had = list(pool.map(work, range(_THREADS * 20)))
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

    # Closing

    def test_close_may_be_called_twice(self, store: KVStore) -> None:
        store.set("p", b"k", b"v")
        store.close()
        store.close()

    def test_a_closed_store_says_so(self, store: KVStore) -> None:
        store.close()
        calls: list[Callable[[], object]] = [
            *_calls(store, "p", b"k"),
            lambda: store.set_many("p", []),
            lambda: store.drop("p"),
            lambda: store.scan("p"),
            lambda: store.get_each(["p"], b"k"),
            lambda: store.turn("main", 0).__enter__(),
        ]
        for call in calls:
            with pytest.raises(StateError, match="closed"):
                call()

    def test_a_scan_under_way_says_that_the_store_was_closed(self, store: KVStore) -> None:
        _fill(store, "p", [b"%06d" % number for number in range(3000)])
        scan = store.scan("p")
        next(scan)
        store.close()
        with pytest.raises(StateError, match="closed"):
            list(scan)

    def test_leaving_the_with_block_closes(self, store: KVStore) -> None:
        with store as entered:
            assert entered is store
        with pytest.raises(StateError, match="closed"):
            store.get("p", b"k")

    # Everything together

    def test_it_behaves_like_a_sorted_dict(self, store: KVStore) -> None:
        class Machine(_Machine):
            tested = store
            numbers = count(1)

        run_state_machine_as_test(
            Machine,
            settings=settings(
                max_examples=30,
                stateful_step_count=40,
                deadline=None,
                suppress_health_check=[HealthCheck.too_slow],
            ),
        )


_some_keys = st.lists(
    st.sampled_from([b"\x00", b"\x01", b"\x61", b"\x7f", b"\x80", b"\xff"]), min_size=1, max_size=3
).map(b"".join)
_some_values = st.sampled_from([b"", b"\x00", b"1", b"2"])
_some_partitions = st.sampled_from(["", "/a", "/a\x01"])


class _Machine(RuleBasedStateMachine):
    """A store beside a dict of dicts; every example has partitions of its own."""

    tested: ClassVar[KVStore]
    numbers: ClassVar[Iterator[int]]

    def __init__(self) -> None:
        super().__init__()
        self.store = self.tested
        self.name = f"machine {next(self.numbers)}"
        self.model: dict[str, dict[bytes, bytes]] = {"": {}, "/a": {}, "/a\x01": {}}
        self.seen: dict[tuple[str, bytes], Any] = {}

    @rule(partition=_some_partitions, key=_some_keys)
    def get(self, partition: str, key: bytes) -> None:
        stored = self.store.get(self.name + partition, key)
        assert (None if stored is None else stored.value) == self.model[partition].get(key)
        if stored is not None:
            self.seen[partition, key] = (stored.predicate, stored.value)

    @rule(partition=_some_partitions, key=_some_keys, value=_some_values)
    def set(self, partition: str, key: bytes, value: bytes) -> None:
        self.store.set(self.name + partition, key, value)
        self.model[partition][key] = value

    @rule(
        partition=_some_partitions,
        items=st.lists(st.tuples(_some_keys, _some_values), max_size=10),
    )
    def set_many(self, partition: str, items: list[tuple[bytes, bytes]]) -> None:
        self.store.set_many(self.name + partition, items)
        self.model[partition].update(items)

    @rule(
        partition=_some_partitions,
        key=_some_keys,
        value=_some_values,
        condition=st.sampled_from(["absent", "present", "seen"]),
    )
    def set_if(self, partition: str, key: bytes, value: bytes, condition: str) -> None:
        held = self.model[partition].get(key)
        predicate: Any
        if condition == "absent":
            predicate, holds = ABSENT, held is None
        elif condition == "present" or (partition, key) not in self.seen:
            predicate, holds = PRESENT, held is not None
        else:
            predicate, value_seen = self.seen[partition, key]
            holds = held == value_seen
        if holds:
            self.store.set_if(self.name + partition, key, value, predicate)
            self.model[partition][key] = value
        else:
            with pytest.raises(PreconditionFailedError):
                self.store.set_if(self.name + partition, key, value, predicate)

    @rule(partition=_some_partitions, key=_some_keys)
    def delete(self, partition: str, key: bytes) -> None:
        self.store.delete(self.name + partition, key)
        self.model[partition].pop(key, None)

    @rule(partition=_some_partitions, key=_some_keys)
    def delete_if(self, partition: str, key: bytes) -> None:
        if (partition, key) not in self.seen:
            return
        predicate, value_seen = self.seen[partition, key]
        if self.model[partition].get(key) == value_seen:
            self.store.delete_if(self.name + partition, key, predicate)
            del self.model[partition][key]
        else:
            with pytest.raises(PreconditionFailedError):
                self.store.delete_if(self.name + partition, key, predicate)

    @rule(partition=_some_partitions)
    def drop(self, partition: str) -> None:
        self.store.drop(self.name + partition)
        self.model[partition].clear()

    @rule(partition=_some_partitions, start=st.one_of(st.just(b""), _some_keys))
    def scan(self, partition: str, start: bytes) -> None:
        expected = sorted(item for item in self.model[partition].items() if item[0] >= start)
        assert list(self.store.scan(self.name + partition, start)) == expected

    @invariant()
    def every_partition_is_as_in_the_model(self) -> None:
        for partition, held in self.model.items():
            assert list(self.store.scan(self.name + partition)) == sorted(held.items())
