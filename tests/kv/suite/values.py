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
    read,
)


class ValuesPart(SuitePart):
    """Reading and writing."""

    def test_what_was_set_is_read(self, store: KVStore) -> None:
        assert store.get("p", b"k") is None
        for value in (b"first", b"second", b"", bytes(range(256)) * 1000):
            store.set("p", b"k", value)
            assert read(store, "p", b"k").value == value
            assert type(read(store, "p", b"k").value) is bytes
            assert list(store.scan("p")) == [(b"k", value)]

    def test_many_keys_are_written_removed_and_dropped(self, store: KVStore) -> None:
        items = [(b"%06d" % number, b"v%d" % number) for number in range(self.many)]
        first, last = items[0][0], items[-1][0]
        store.set_many("p", iter(items))
        store.set("q", first, b"v")
        assert list(store.scan("p")) == items
        store.delete_many("p", (key for key, _ in [*items[1:-1], items[1], (b"absent", b"")]))
        assert keys_of(store, "p") == [first, last]
        store.delete_many("p", [])
        fill(store, "p", [*(key for key, _ in items), b"\x00", b"\xff" * MAX_KEY_BYTES])
        for _ in range(2):  # what is not there is no error
            store.drop("p")
            assert list(store.scan("p")) == []
            assert store.get("p", first) is None
        store.set_if("p", first, b"v", ABSENT)
        assert keys_of(store, "p") == keys_of(store, "q") == [first]

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

    @pytest.mark.parametrize(
        "value",
        [None, "text", bytearray(b"v"), memoryview(b"v"), b"v" * (MAX_VALUE_BYTES + 1)],
        ids=["none", "text", "bytearray", "memoryview", "long"],
    )
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
            lambda: store.scan_all(partition),
        ]
        for call in refused:
            with pytest.raises(InvalidInputError):
                call()

    @pytest.mark.parametrize("key", BAD_KEYS, ids=["empty", "long"])
    def test_a_bad_key_is_refused(self, store: KVStore, key: bytes) -> None:
        for call in [*calls(store, "p", key), lambda: store.delete_many("p", [key])]:
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
        assert store.get_many([keys[-1]] * 2) == [values[-1]] * 2
        assert store.get_many([]) == []
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
        keys = [b"\x00", b"\x00\xff", b"'", b"bc", b"\xff\xff"]
        held = {name: [(key, name.encode() + key) for key in keys] for name in TRICKY_NAMES}
        for name, items in held.items():
            store.set_many(name, items)
        asked = [(name, key) for name in TRICKY_NAMES for key in keys]
        found = [stored for group in batches(asked, MAX_KEYS) for stored in store.get_many(group)]
        assert [stored and stored.value for stored in found] == [
            name.encode() + key for name, key in asked
        ]
        for dropped in ("", "a", "a/", "a%", "\uffff"):
            if dropped:
                store.drop(dropped)
                held[dropped] = []
            assert {name: list(store.scan(name)) for name in TRICKY_NAMES} == held

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
