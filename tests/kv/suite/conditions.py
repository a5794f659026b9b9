"""The contract of conditional writes and of deletions of a key-value store, as tests."""

# Each test is named by the sentence it checks.

from typing import Any

import pytest

from graveler.errors import InvalidInputError, PreconditionFailedError
from graveler.kv.store import ABSENT, PRESENT, KVStore
from tests.kv.suite.tools import SuitePart, read

READ = "read"
# the value that is read, the value at the write, the condition, and whether it holds
CONDITIONS: list[tuple[bytes | None, bytes | None, Any, bool]] = [
    (None, None, ABSENT, True),
    (b"old", b"old", ABSENT, False),
    (b"old", None, ABSENT, True),
    (b"old", b"others", PRESENT, True),
    (None, None, PRESENT, False),
    (b"", b"", ABSENT, False),
    (b"", b"", PRESENT, True),
    (b"old", b"old", READ, True),  # also if it was changed and changed back
    (b"old", b"others", READ, False),
    (b"old", None, READ, False),
    (b"", b"", READ, True),
    (b"", b"others", READ, False),
    (b"", None, READ, False),
]


class ConditionsPart(SuitePart):
    """Compare and set, and deleting."""

    @pytest.mark.parametrize(
        ("call", "condition"),
        [
            (call, condition)
            for call in ("set_if", "delete_if")
            for condition in CONDITIONS
            if call == "set_if" or condition[2] == READ
        ],
        ids=range(len(CONDITIONS) + 6),
    )
    def test_a_write_lands_where_its_condition_holds(
        self, store: KVStore, call: str, condition: Any
    ) -> None:
        before, now, predicate, holds = condition
        if before is not None:
            store.set("p", b"k", before)
        if predicate == READ:
            predicate = read(store, "p", b"k").predicate
        store.set("p", b"k", b"between")
        if now is None:
            store.delete("p", b"k")
        else:
            store.set("p", b"k", now)
        expected = [(b"k", now)] if now is not None else []
        given = ("p", b"k", b"new", predicate) if call == "set_if" else ("p", b"k", predicate)
        if holds:
            getattr(store, call)(*given)
            expected = [(b"k", b"new")] if call == "set_if" else []
        else:
            with pytest.raises(PreconditionFailedError):
                getattr(store, call)(*given)
        assert list(store.scan("p")) == expected

    def test_a_predicate_is_spent_by_its_own_write(self, store: KVStore) -> None:
        store.set("p", b"k", b"old")
        predicate = read(store, "p", b"k").predicate
        store.set_if("p", b"k", b"new", predicate)
        with pytest.raises(PreconditionFailedError):
            store.set_if("p", b"k", b"newer", predicate)
        for _ in range(2):  # the same value again is a write as well
            store.set_if("p", b"k", b"new", read(store, "p", b"k").predicate)
        store.delete_if("p", b"k", predicate := read(store, "p", b"k").predicate)
        with pytest.raises(PreconditionFailedError):
            store.delete_if("p", b"k", predicate)

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

    @pytest.mark.parametrize("predicate", [None, ABSENT, PRESENT])
    def test_what_is_no_predicate_is_refused(self, store: KVStore, predicate: Any) -> None:
        store.set("p", b"k", b"v")
        with pytest.raises(InvalidInputError):
            store.delete_if("p", b"k", predicate)
        with pytest.raises(InvalidInputError):
            store.set_if("p", b"k", b"new", None)
        assert list(store.scan("p")) == [(b"k", b"v")]
