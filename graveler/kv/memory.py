"""The reference driver: sorted partitions in the memory of one process."""

# The port documents the methods.
# ruff: noqa: D102

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping
from contextlib import AbstractContextManager
from threading import Lock

from graveler.errors import StateError
from graveler.kv.drivers import (
    changed,
    check_predicate,
    check_read_predicate,
    chunks,
    holds,
    pages,
)
from graveler.kv.store import KVStore, Predicate, Stored, check_key, check_partition, check_value
from graveler.kv.turns import Turns


class _Partition:
    """Values by key, and the keys in order once they are scanned."""

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


class MemoryKVStore(KVStore):
    """A store for tests, and for what need not outlive the process."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._turns = Turns()
        self._partitions: dict[str, _Partition] = {}
        self._closed = False

    def get(self, partition: str, key: bytes) -> Stored | None:
        check_key(partition, key)
        with self._lock:
            value = self._value(partition, key)
        return None if value is None else Stored(value, value)

    def turn(self, name: str, patience: float) -> AbstractContextManager[bool]:
        self._check_open()
        return self._turns.take(name, patience)

    def set(self, partition: str, key: bytes, value: bytes) -> None:
        check_key(partition, key)
        check_value(key, value)
        with self._lock:
            self._writable(partition).set(key, value)

    def set_many(self, partition: str, items: Iterable[tuple[bytes, bytes]]) -> None:
        self._check_open()
        for chunk in chunks(partition, items):
            with self._lock:
                target = self._writable(partition)
                for key, value in chunk:
                    target.set(key, value)

    def set_if(self, partition: str, key: bytes, value: bytes, predicate: Predicate) -> None:
        check_key(partition, key)
        check_value(key, value)
        check_predicate(predicate)
        with self._lock:
            if not holds(predicate, self._value(partition, key)):
                raise changed(partition, key, predicate)
            self._writable(partition).set(key, value)

    def delete(self, partition: str, key: bytes) -> None:
        check_key(partition, key)
        with self._lock:
            self._check_open()
            held = self._partitions.get(partition)
            if held is not None:
                held.delete(key)

    def delete_if(self, partition: str, key: bytes, predicate: Predicate) -> None:
        check_key(partition, key)
        check_read_predicate(predicate)
        with self._lock:
            if self._value(partition, key) != predicate:
                raise changed(partition, key, predicate)
            self._partitions[partition].delete(key)

    def drop(self, partition: str) -> None:
        check_partition(partition)
        with self._lock:
            self._check_open()
            self._partitions.pop(partition, None)

    def scan(self, partition: str, start: bytes = b"") -> Iterator[tuple[bytes, bytes]]:
        check_partition(partition)
        self._check_open()

        def read(first: bytes, limit: int) -> list[tuple[bytes, bytes]]:
            with self._lock:
                self._check_open()
                held = self._partitions.get(partition)
                return [] if held is None else held.page(first, limit)

        return pages(read, start)

    def partitions(self, prefix: str) -> Iterator[str]:
        with self._lock:
            self._check_open()
            return iter(
                [n for n, held in self._partitions.items() if held.values and n.startswith(prefix)]
            )

    def snapshot(self) -> dict[str, dict[bytes, bytes]]:
        """Return a copy of everything, for `restore`."""
        with self._lock:
            return {name: dict(held.values) for name, held in self._partitions.items()}

    def restore(self, snapshot: Mapping[str, Mapping[bytes, bytes]]) -> None:
        """Have what a snapshot has, and nothing else."""
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
