"""A key-value store whose calls are measured, for programs with a meter provider."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from time import perf_counter
from typing import Any

from graveler.base.telemetry import KV_BYTES, KV_CALLS, TURNS, Calls, report
from graveler.kv.store import KVStore, KVWrapper, P, T

# `KVStore` documents the methods.
# ruff: noqa: D102


class MeteredKVStore(KVWrapper):
    """A store that reports the seconds, bytes and errors of its calls, and the waits for turns."""

    def __init__(self, store: KVStore, system: str) -> None:
        super().__init__(store)
        self._calls = Calls(KV_CALLS, KV_BYTES, ("db.system.name", system), "db.operation.name")

    def _forward(self, call: Callable[P, T], *args: P.args, **named: P.kwargs) -> T:
        name = call.__name__
        with self._calls.of(name) as measured:
            result = call(*args, **named)
            if name in _READ:
                measured.read = _READ[name](result)
            elif name in _WRITTEN:
                measured.written = _WRITTEN[name](*args)
        return result

    def turn(self, name: str, patience: float) -> AbstractContextManager[bool]:
        return self._waited(self._store.turn(name, patience))

    @contextmanager
    def _waited(self, turn: AbstractContextManager[bool]) -> Iterator[bool]:
        began = perf_counter()
        with turn as held:
            report(TURNS, perf_counter() - began, {"graveler.turn.held": held})
            yield held

    def set_many(self, partition: str, items: Iterable[tuple[bytes, bytes]]) -> None:
        with self._calls.of("set_many") as call:

            def counted() -> Iterator[tuple[bytes, bytes]]:
                for item in items:
                    call.written += _length(item[1])
                    yield item

            self._store.set_many(partition, counted())

    def scan(self, partition: str, start: bytes = b"") -> Iterator[tuple[bytes, bytes]]:
        return self._scanned(self._store.scan(partition, start))

    def scan_all(self, partition: str) -> Iterator[tuple[bytes, bytes]]:
        return self._scanned(self._store.scan_all(partition))

    def scan_below(
        self, partition: str, prefix: bytes, start: bytes = b""
    ) -> Iterator[tuple[bytes, bytes]]:
        return self._scanned(self._store.scan_below(partition, prefix, start))

    def _scanned(self, rows: Iterator[tuple[bytes, bytes]]) -> Iterator[tuple[bytes, bytes]]:
        return self._calls.of("scan").over(rows, lambda row: len(row[1]))

    def partitions(self, prefix: str) -> Iterator[str]:
        return self._calls.of("partitions").over(self._store.partitions(prefix), len)


def _size(stored: Any) -> int:
    return 0 if stored is None else len(stored.value)


def _length(value: object) -> int:
    """Return the size of a value, or 0 for an invalid one, which the driver refuses."""
    return len(value) if isinstance(value, bytes) else 0


_READ: Mapping[str, Callable[[Any], int]] = {
    "get": _size,
    "get_many": lambda stored: sum(map(_size, stored)),
}
_WRITTEN: Mapping[str, Callable[..., int]] = {
    "set": lambda _partition, _key, value: len(value),
    "set_if": lambda _partition, _key, value, _predicate: len(value),
}
