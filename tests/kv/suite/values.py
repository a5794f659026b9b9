"""The contract of a key-value store for single keys, many keys and partitions, as tests."""

# Each test is named by the sentence it checks.

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from graveler.base.background import batches
from graveler.errors import InvalidInputError, PreconditionFailedError
from graveler.kv.store import ABSENT, MAX_KEY_BYTES, MAX_KEYS, MAX_VALUE_BYTES, PRESENT, KVStore
from tests.kv.suite.tools import (
    BAD_KEYS,
    BAD_PARTITIONS,
    TRICKY_NAMES,
    SuitePart,
    calls,
    fill,
    keys_of,
)


class ValuesPart(SuitePart):
    """Reading and writing."""

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

    def test_many_keys_are_removed(self, store: KVStore) -> None:
        keys = [b"%06d" % number for number in range(12_000)]
        store.set_many("p", ((key, b"v") for key in keys))
        store.set("q", keys[0], b"v")
        store.delete_many("p", (key for key in [*keys[1:-1], keys[1], b"absent"]))
        assert [key for key, _ in store.scan("p")] == [keys[0], keys[-1]]
        assert [key for key, _ in store.scan("q")] == [keys[0]]
        store.delete_many("p", [])
        with pytest.raises(InvalidInputError):
            store.delete_many("p", [b""])

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

    def test_the_largest_values_are_taken(self, store: KVStore) -> None:
        partition, keys = "p" * MAX_KEY_BYTES, [b"\xff" * MAX_KEY_BYTES, b"k", b"l", b"m"]
        value = b"'" * MAX_VALUE_BYTES  # the quotation mark, because a driver may escape it
        store.set(partition, keys[0], value)
        store.set_if(partition, keys[0], value, store.set_if(partition, keys[0], value, PRESENT))
        store.set_many(partition, [(key, value) for key in keys[1:]])
        assert list(store.scan(partition)) == [(key, value) for key in sorted(keys)]
        found = store.get_many([(partition, key) for key in keys])
        assert [stored and stored.value for stored in found] == [value] * len(keys)

    def test_a_larger_value_is_refused(self, store: KVStore) -> None:
        value = b"v" * (MAX_VALUE_BYTES + 1)
        refused: list[Callable[[], object]] = [
            lambda: store.set("p", b"k", value),
            lambda: store.set_if("p", b"k", value, ABSENT),
            lambda: store.set_many("p", [(b"k", value)]),
        ]
        for call in refused:
            with pytest.raises(InvalidInputError, match=str(MAX_VALUE_BYTES)):
                call()
        assert store.get("p", b"k") is None

    @pytest.mark.parametrize("value", [None, "text", bytearray(b"v"), memoryview(b"v")])
    def test_what_is_no_value_is_refused(self, store: KVStore, value: Any) -> None:
        refused: list[Callable[[], object]] = [
            lambda: store.set("p", b"k", value),
            lambda: store.set_if("p", b"k", value, ABSENT),
            lambda: store.set_many("p", [(b"k", value)]),
        ]
        for call in refused:
            with pytest.raises(InvalidInputError):
                call()
        assert store.get("p", b"k") is None

    @pytest.mark.parametrize("partition", BAD_PARTITIONS, ids=range(len(BAD_PARTITIONS)))
    def test_a_bad_partition_is_refused(self, store: KVStore, partition: str) -> None:
        refused: list[Callable[[], object]] = [
            *calls(store, partition, b"k"),
            lambda: store.set_many(partition, []),
            lambda: store.drop(partition),
            lambda: store.scan(partition),
        ]
        for call in refused:
            with pytest.raises(InvalidInputError):
                call()

    @pytest.mark.parametrize("key", BAD_KEYS, ids=["empty", "long"])
    def test_a_bad_key_is_refused(self, store: KVStore, key: bytes) -> None:
        for call in calls(store, "p", key):
            with pytest.raises(InvalidInputError):
                call()

    def test_get_many_is_get_of_each_key(self, store: KVStore) -> None:
        written = range(0, MAX_KEYS, 7)
        for number in written:
            store.set(f"p{number % 3}", b"%d" % number, b"=%d" % number)
        store.set("p1", b"other", b"-")
        keys = [(f"p{number % 3}", b"%d" % number) for number in reversed(range(MAX_KEYS))]
        values = store.get_many(keys)
        assert [stored and stored.value for stored in values] == [
            b"=%d" % number if number in written else None for number in reversed(range(MAX_KEYS))
        ]
        assert values[-1] == store.get("p0", b"0")
        assert store.get_many([("p1", b"0"), ("p0", b"1")]) == [None, None]

    def test_get_many_takes_a_key_twice_and_none_at_all(self, store: KVStore) -> None:
        store.set("p", b"k", b"")
        values = store.get_many([("p", b"k"), ("q", b"k"), ("p", b"k")])
        assert [stored and stored.value for stored in values] == [b"", None, b""]
        assert store.get_many([("p", b"k")] * 2) == [values[0]] * 2
        assert store.get_many([]) == []

    def test_get_many_takes_so_many_keys_and_no_more(self, store: KVStore) -> None:
        with pytest.raises(InvalidInputError, match=f"up to {MAX_KEYS}"):
            store.get_many([("p", b"k")] * (MAX_KEYS + 1))

    def test_what_get_many_and_set_if_return_is_good_for_set_if(self, store: KVStore) -> None:
        store.set("p", b"k", b"old")
        stored, absent = store.get_many([("p", b"k"), ("p", b"other")])
        assert stored is not None
        assert absent is None
        written = store.set_if("p", b"k", b"new", stored.predicate)
        with pytest.raises(PreconditionFailedError):
            store.set_if("p", b"k", b"newer", stored.predicate)
        for value in (b"newer", b"newest"):
            written = store.set_if("p", b"k", value, written)
        made = store.set_if("p", b"other", b"made", ABSENT)
        for key, predicate in ((b"k", written), (b"other", made)):
            store.delete_if("p", key, predicate)
        assert store.get_many([("p", b"k"), ("p", b"other")]) == [None, None]

    def test_get_many_tells_tricky_names_apart(self, store: KVStore) -> None:
        keys = [(name, key) for name in TRICKY_NAMES for key in (b"\x00\xff", b"\x00", b"'")]
        for number, (name, key) in enumerate(keys):
            store.set(name, key, b"%d" % number)
        found = [store.get_many(group) for group in batches(keys, MAX_KEYS)]
        values = [stored and stored.value for group in found for stored in group]
        assert values == [b"%d" % number for number in range(len(keys))]

    def test_set_many_writes_all(self, store: KVStore) -> None:
        items = [(b"%06d" % number, b"v%d" % number) for number in range(self.many)]
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
        fill(store, "from", [b"a", b"b"])

        def items() -> Iterator[tuple[bytes, bytes]]:
            for key, value in store.scan("from"):
                store.set("log", key, b"seen")
                yield key, value

        store.set_many("to", items())
        assert list(store.scan("to")) == list(store.scan("from"))
        assert keys_of(store, "log") == [b"a", b"b"]

    def test_partitions_do_not_see_each_other(self, store: KVStore) -> None:
        for name in TRICKY_NAMES:
            store.set_many(name, [(b"k", name.encode()), (b"\x00", b""), (b"\xff", b"")])
        for name in TRICKY_NAMES:
            assert list(store.scan(name)) == [(b"\x00", b""), (b"k", name.encode()), (b"\xff", b"")]
            stored = store.get(name, b"k")
            assert stored is not None
            assert stored.value == name.encode()

    @pytest.mark.parametrize("dropped", ["a", "a/", "a%", "\uffff"])
    def test_dropping_a_partition_leaves_the_others(self, store: KVStore, dropped: str) -> None:
        for name in TRICKY_NAMES:
            fill(store, name, [b"\x00", b"k", b"\xff\xff"])
        store.drop(dropped)
        for name in TRICKY_NAMES:
            assert keys_of(store, name) == ([] if name == dropped else [b"\x00", b"k", b"\xff\xff"])

    def test_a_key_is_no_part_of_a_partition_name(self, store: KVStore) -> None:
        store.set("a", b"bc", b"1")
        store.set("ab", b"c", b"2")
        store.set("a/b", b"c", b"3")
        store.set("a", b"/bc", b"4")
        assert list(store.scan("a")) == [(b"/bc", b"4"), (b"bc", b"1")]
        assert list(store.scan("ab")) == [(b"c", b"2")]
        assert list(store.scan("a/b")) == [(b"c", b"3")]

    def test_partitions_are_found_by_the_start_of_their_names(self, store: KVStore) -> None:
        filled = ["a", "a:", "a:1", "a:\u00e9", "a:x" + "y" * 300, "a;", "b:1", "\U0001f980"]
        for name in filled:
            store.set_many(name, [(b"%d" % number, b"v") for number in range(3)])
        store.set("a:emptied", b"k", b"v")
        store.delete("a:emptied", b"k")
        store.set("a:dropped", b"k", b"v")
        store.drop("a:dropped")
        partitions = list(store.partitions("a:"))
        if not partitions and type(store).partitions is KVStore.partitions:
            return  # the driver cannot list partitions
        assert sorted(partitions) == ["a:", "a:1", "a:x" + "y" * 300, "a:\u00e9"]
        assert sorted(store.partitions("")) == sorted(filled)
        assert list(store.partitions("c")) == []
