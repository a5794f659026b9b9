"""Random histories that compare a key-value store with a dict of dicts."""

from collections.abc import Iterator
from itertools import count
from typing import Any, ClassVar

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule, run_state_machine_as_test

from graveler.errors import PreconditionFailedError
from graveler.kv.store import ABSENT, PRESENT, KVStore

_some_keys = st.lists(
    st.sampled_from([b"\x00", b"\x01", b"\x61", b"\x7f", b"\x80", b"\xff"]), min_size=1, max_size=3
).map(b"".join)
_some_values = st.sampled_from([b"", b"\x00", b"1", b"2"])
_some_partitions = st.sampled_from(["", "/a", "/a\x01"])


class _Machine(RuleBasedStateMachine):
    """A store and a dict of dicts; every example has its own partitions."""

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


def compare_with_a_dict(store: KVStore, examples: int) -> None:
    """Run random histories, and fail if the store and the dict differ."""

    class Machine(_Machine):
        tested = store
        numbers = count(1)

    run_state_machine_as_test(
        Machine,
        settings=settings(
            max_examples=examples,
            stateful_step_count=40,
            deadline=None,
            suppress_health_check=[HealthCheck.too_slow],
        ),
    )
