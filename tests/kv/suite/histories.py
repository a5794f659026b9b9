"""A random history that compares a key-value store with a dict of dicts."""

from random import Random
from typing import Any

import pytest

from graveler.errors import PreconditionFailedError
from graveler.kv.store import ABSENT, PRESENT, KVStore

_KEYS = [b"\x00", b"\x00\x01", b"a", b"a\x00", b"a\x7f", b"\x80", b"\xff", b"\xff\xff"]
_VALUES = [b"", b"\x00", b"1", b"2"]
_PARTITIONS = ["p", "p/a", "p/a\x01"]


class _History:
    """A store and a dict of dicts, to which the same calls are made."""

    def __init__(self, store: KVStore) -> None:
        self.store = store
        self.draw = Random(1)
        self.model: dict[str, dict[bytes, bytes]] = {partition: {} for partition in _PARTITIONS}
        self.seen: dict[tuple[str, bytes], tuple[Any, bytes]] = {}

    def get(self, partition: str, key: bytes, _: bytes) -> None:
        stored = self.store.get(partition, key)
        assert (stored and stored.value) == self.model[partition].get(key)
        if stored is not None:
            self.seen[partition, key] = stored.predicate, stored.value

    def set(self, partition: str, key: bytes, value: bytes) -> None:
        self.store.set(partition, key, value)
        self.model[partition][key] = value

    def set_many(self, partition: str, _key: bytes, _value: bytes) -> None:
        count = self.draw.randrange(7)  # none at times, and one key twice at times
        items = [(self.draw.choice(_KEYS), self.draw.choice(_VALUES)) for _ in range(count)]
        self.store.set_many(partition, items)
        self.model[partition].update(items)

    def set_if(self, partition: str, key: bytes, value: bytes) -> None:
        held = self.model[partition]
        predicate, expected = self.seen.get((partition, key), (PRESENT, None))
        holds = held.get(key) == expected if predicate is not PRESENT else key in held
        if self.draw.random() < 0.3:
            predicate, holds = ABSENT, key not in held
        if holds:
            self.store.set_if(partition, key, value, predicate)
            held[key] = value
        else:
            with pytest.raises(PreconditionFailedError):
                self.store.set_if(partition, key, value, predicate)

    def delete(self, partition: str, key: bytes, _: bytes) -> None:
        self.store.delete(partition, key)
        self.model[partition].pop(key, None)

    def delete_if(self, partition: str, key: bytes, _: bytes) -> None:
        predicate, expected = self.seen.get((partition, key), (None, None))
        if predicate is not None and self.model[partition].get(key) == expected:
            self.store.delete_if(partition, key, predicate)
            del self.model[partition][key]
        elif predicate is not None:
            with pytest.raises(PreconditionFailedError):
                self.store.delete_if(partition, key, predicate)

    def drop(self, partition: str, _key: bytes, _value: bytes) -> None:
        self.store.drop(partition)
        self.model[partition].clear()

    def scan(self, partition: str, key: bytes, _: bytes) -> None:
        rest = sorted(item for item in self.model[partition].items() if item[0] >= key)
        assert list(self.store.scan(partition, key)) == rest


def compare_with_a_dict(store: KVStore, steps: int) -> None:
    """Make random calls, and fail if the store and the dict differ."""
    history = _History(store)
    calls = [history.get, history.set, history.set_many, history.set_if, history.set_if]
    calls += [history.delete, history.delete_if, history.scan]
    for step in range(steps):
        call = history.drop if step % 50 == 49 else history.draw.choice(calls)
        partition = history.draw.choice(_PARTITIONS)
        call(partition, history.draw.choice(_KEYS), history.draw.choice(_VALUES))
        for name, held in history.model.items():
            assert list(store.scan(name)) == sorted(held.items())
