"""The contract of conditional writes and of deletions of a key-value store, as tests."""

# Each test is named by the sentence it checks.

from typing import Any

import pytest

from graveler.errors import InvalidInputError, PreconditionFailedError
from graveler.kv.store import ABSENT, MAX_KEY_BYTES, PRESENT, KVStore
from tests.kv.suite.tools import SuitePart, fill, keys_of


class ConditionsPart(SuitePart):
    """Compare and set, and deleting."""

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

    def test_a_key_changed_and_changed_back_looks_unchanged(self, store: KVStore) -> None:
        store.set("p", b"k", b"same")
        stored = store.get("p", b"k")
        assert stored is not None
        store.set("p", b"k", b"others")
        store.set("p", b"k", b"same")
        store.set_if("p", b"k", b"new", stored.predicate)
        store.set("p", b"k", b"same")
        store.delete_if("p", b"k", stored.predicate)

    def test_a_nonce_tells_whose_write_it_was(self, store: KVStore) -> None:
        # A writer that lost the reply reads back.
        store.set("p", b"k", b"old, nonce 0")
        stored = store.get("p", b"k")
        assert stored is not None
        store.set_if("p", b"k", b"new, nonce 1", stored.predicate)
        with pytest.raises(PreconditionFailedError):
            store.set_if("p", b"k", b"new, nonce 2", stored.predicate)
        stored = store.get("p", b"k")
        assert stored is not None
        assert stored.value == b"new, nonce 1"
        # The same value written again is another write: a predicate from before it must fail.
        store.set_if("p", b"k", b"new, nonce 3", stored.predicate)
        with pytest.raises(PreconditionFailedError):
            store.set_if("p", b"k", b"newer", stored.predicate)

    def test_an_empty_value_is_as_good_for_a_condition(self, store: KVStore) -> None:
        store.set_if("p", b"k", b"", ABSENT)
        store.set_if("p", b"k", b"", PRESENT)
        stored = store.get("p", b"k")
        assert stored is not None
        store.set("p", b"k", b"v")
        with pytest.raises(PreconditionFailedError):
            store.delete_if("p", b"k", stored.predicate)
        store.set("p", b"k", b"")
        store.delete_if("p", b"k", stored.predicate)
        assert store.get("p", b"k") is None
        with pytest.raises(PreconditionFailedError):
            store.set_if("p", b"k", b"v", stored.predicate)

    def test_values_are_compared_to_the_last_byte(self, store: KVStore) -> None:
        for value, other in [
            (b"a", b"A"),
            (b"a", b"a "),
            (b"a", b"a\0"),
            (b"\xc3\xa9", b"e"),
            (b"", b"\0"),
        ]:
            store.set("p", b"k", value)
            with pytest.raises(PreconditionFailedError):
                store.set_if("p", b"k", b"new", other)
            with pytest.raises(PreconditionFailedError):
                store.delete_if("p", b"k", other)

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

    def test_delete_removes_one_key(self, store: KVStore) -> None:
        fill(store, "p", [b"a", b"b", b"c"])
        store.delete("p", b"b")
        assert store.get("p", b"b") is None
        assert keys_of(store, "p") == [b"a", b"c"]

    def test_deleting_what_is_not_there_is_fine(self, store: KVStore) -> None:
        store.delete("p", b"k")
        store.set("p", b"k", b"v")
        store.delete("p", b"k")
        store.delete("p", b"k")
        assert list(store.scan("p")) == []

    def test_delete_if_removes_the_value_read(self, store: KVStore) -> None:
        fill(store, "p", [b"a", b"b"])
        stored = store.get("p", b"a")
        assert stored is not None
        store.delete_if("p", b"a", stored.predicate)
        assert keys_of(store, "p") == [b"b"]
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
        keys = [b"%06d" % number for number in range(self.many)]
        fill(store, "p", [*keys, b"\x00", b"\xff" * MAX_KEY_BYTES])
        store.drop("p")
        assert list(store.scan("p")) == []
        assert store.get("p", keys[0]) is None
        store.set_if("p", keys[0], b"v", ABSENT)
        assert keys_of(store, "p") == [keys[0]]

    def test_dropping_what_is_not_there_is_fine(self, store: KVStore) -> None:
        store.drop("p")
        store.drop("p")
        assert list(store.scan("p")) == []
