"""The reference driver: sorted partitions in the memory of one process."""

# `KVStore` documents the methods.
# ruff: noqa: D102

from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from threading import Lock

from graveler.errors import StateError
from graveler.kv.driver import Driver, holds
from graveler.kv.store import Predicate
from graveler.kv.turns import Turns


class _Partition:
    """Values by key. The first scan sorts the keys."""

    __slots__ = ("_ordered", "values")

    def __init__(self) -> None:
        self.values: dict[bytes, bytes] = {}
        self._ordered: list[bytes] | None = None

    def set(self, key: bytes, value: bytes) -> None:
        if key not in self.values:
            self._ordered = None
        self.values[key] = value

    def delete(self, key: bytes) -> None:
        if self.values.pop(key, None) is not None:
            self._ordered = None

    def page(self, start: bytes, limit: int) -> list[tuple[bytes, bytes]]:
        if self._ordered is None:
            self._ordered = sorted(self.values)
        first = bisect_left(self._ordered, start)
        return [(key, self.values[key]) for key in self._ordered[first : first + limit]]


class MemoryKVStore(Driver):
    """A store for tests, and for data that need not outlive the process."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._turns = Turns()
        self._partitions: dict[str, _Partition] = {}
        self._closed = False

    def _get(self, partition: str, key: bytes) -> bytes | None:
        with self._lock:
            return self._value(partition, key)

    def _get_many(self, keys: Sequence[tuple[str, bytes]]) -> Mapping[tuple[str, bytes], bytes]:
        with self._lock:
            values = ((key, self._value(*key)) for key in keys)
            return {key: value for key, value in values if value is not None}

    def _set(self, partition: str, key: bytes, value: bytes) -> None:
        with self._lock:
            self._writable(partition).set(key, value)

    def _set_chunk(self, partition: str, chunk: list[tuple[bytes, bytes]]) -> None:
        with self._lock:
            target = self._writable(partition)
            for key, value in chunk:
                target.set(key, value)

    def _set_if(self, partition: str, key: bytes, value: bytes, predicate: Predicate) -> bool:
        with self._lock:
            met = holds(predicate, self._value(partition, key))
            if met:
                self._writable(partition).set(key, value)
            return met

    def _delete(self, partition: str, key: bytes) -> None:
        with self._lock:
            self._writable(partition).delete(key)

    def _delete_if(self, partition: str, key: bytes, value: bytes) -> bool:
        with self._lock:
            met = self._value(partition, key) == value
            if met:
                self._writable(partition).delete(key)
            return met

    def _drop(self, partition: str) -> None:
        with self._lock:
            self._check_open()
            self._partitions.pop(partition, None)

    def _page(self, partition: str, start: bytes, limit: int) -> list[tuple[bytes, bytes]]:
        with self._lock:
            self._check_open()
            held = self._partitions.get(partition)
            return [] if held is None else held.page(start, limit)

    def partitions(self, prefix: str) -> Iterator[str]:
        with self._lock:
            self._check_open()
            return iter(
                [n for n, held in self._partitions.items() if held.values and n.startswith(prefix)]
            )

    def snapshot(self) -> dict[str, dict[bytes, bytes]]:
        """Return a copy of the whole store, for `restore`."""
        with self._lock:
            return {name: dict(held.values) for name, held in self._partitions.items()}

    def restore(self, snapshot: Mapping[str, Mapping[bytes, bytes]]) -> None:
        """Replace the content of the store by a snapshot."""
        with self._lock:
            self._partitions = {}
            for name, values in snapshot.items():
                self._partitions[name] = held = _Partition()
                held.values = dict(values)

    def close(self) -> None:
        self._closed = True

    def _check_open(self) -> None:
        if self._closed:
            raise StateError("the store in memory is closed: open a new one")

    def _value(self, partition: str, key: bytes) -> bytes | None:
        self._check_open()
        held = self._partitions.get(partition)
        return None if held is None else held.values.get(key)

    def _writable(self, partition: str) -> _Partition:
        self._check_open()
        return self._partitions.setdefault(partition, _Partition())
