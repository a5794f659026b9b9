"""A key-value store whose calls are measured, for programs with a meter provider."""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from time import perf_counter

from graveler.base.telemetry import KV_BYTES, KV_CALLS, TURNS, Calls, report
from graveler.kv.store import KVStore, Predicate, Stored

# `KVStore` documents the methods.
# ruff: noqa: D102


class MeteredKVStore(KVStore):
    """A store that reports the seconds, bytes and errors of its calls, and the waits for turns.

    Args:
        system: The database, as OpenTelemetry's semantic conventions name it.
    """

    def __init__(self, store: KVStore, system: str) -> None:
        self._store = store
        self._calls = Calls(KV_CALLS, KV_BYTES, ("db.system.name", system), "db.operation.name")

    def get(self, partition: str, key: bytes) -> Stored | None:
        with self._calls.of("get") as call:
            stored = self._store.get(partition, key)
            call.read = _size(stored)
        return stored

    def get_many(self, keys: Sequence[tuple[str, bytes]]) -> list[Stored | None]:
        with self._calls.of("get_many") as call:
            stored = self._store.get_many(keys)
            call.read = sum(map(_size, stored))
        return stored

    def turn(self, name: str, patience: float) -> AbstractContextManager[bool]:
        return self._waited(self._store.turn(name, patience))

    @contextmanager
    def _waited(self, turn: AbstractContextManager[bool]) -> Iterator[bool]:
        began = perf_counter()
        with turn as held:
            report(TURNS, perf_counter() - began, {"graveler.turn.held": held})
            yield held

    def set(self, partition: str, key: bytes, value: bytes) -> None:
        with self._calls.of("set") as call:
            self._store.set(partition, key, value)
            call.written = len(value)

    def set_many(self, partition: str, items: Iterable[tuple[bytes, bytes]]) -> None:
        with self._calls.of("set_many") as call:

            def counted() -> Iterator[tuple[bytes, bytes]]:
                for item in items:
                    call.written += _length(item[1])
                    yield item

            self._store.set_many(partition, counted())

    def set_if(self, partition: str, key: bytes, value: bytes, predicate: Predicate) -> Predicate:
        with self._calls.of("set_if") as call:
            written = self._store.set_if(partition, key, value, predicate)
            call.written = len(value)
        return written

    def delete(self, partition: str, key: bytes) -> None:
        with self._calls.of("delete"):
            self._store.delete(partition, key)

    def delete_many(self, partition: str, keys: Iterable[bytes]) -> None:
        with self._calls.of("delete_many"):
            self._store.delete_many(partition, keys)

    def delete_if(self, partition: str, key: bytes, predicate: Predicate) -> None:
        with self._calls.of("delete_if"):
            self._store.delete_if(partition, key, predicate)

    def drop(self, partition: str) -> None:
        with self._calls.of("drop"):
            self._store.drop(partition)

    def scan(self, partition: str, start: bytes = b"") -> Iterator[tuple[bytes, bytes]]:
        rows = self._store.scan(partition, start)
        return self._calls.of("scan").over(rows, lambda row: len(row[1]))

    def scan_all(self, partition: str) -> Iterator[tuple[bytes, bytes]]:
        rows = self._store.scan_all(partition)
        return self._calls.of("scan").over(rows, lambda row: len(row[1]))

    def scan_below(
        self, partition: str, prefix: bytes, start: bytes = b""
    ) -> Iterator[tuple[bytes, bytes]]:
        rows = self._store.scan_below(partition, prefix, start)
        return self._calls.of("scan").over(rows, lambda row: len(row[1]))

    def partitions(self, prefix: str) -> Iterator[str]:
        return self._calls.of("partitions").over(self._store.partitions(prefix), len)

    def close(self) -> None:
        self._store.close()


def _size(stored: Stored | None) -> int:
    return 0 if stored is None else len(stored.value)


def _length(value: object) -> int:
    """Return the size of a value, or 0 for an invalid one, which the driver refuses."""
    return len(value) if isinstance(value, bytes) else 0
