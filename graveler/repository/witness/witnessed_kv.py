"""A key-value store that asks before a record changes under a condition: as refs do."""

# What the methods do is said once, at the port.
# ruff: noqa: D102

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager

from graveler.kv.store import KVStore, Predicate, Stored


class WitnessedKVStore(KVStore):
    """Another store, with a call before each conditional write or deletion.

    Args:
        store: The other one; it is not this one's to close.
        moving: Called before; may forbid the change by raising.
    """

    def __init__(self, store: KVStore, moving: Callable[[], None]) -> None:
        self._store = store
        self._moving = moving

    def get(self, partition: str, key: bytes) -> Stored | None:
        return self._store.get(partition, key)

    def get_each(self, partitions: Sequence[str], key: bytes) -> list[Stored | None]:
        return self._store.get_each(partitions, key)

    def turn(self, name: str, patience: float) -> AbstractContextManager[bool]:
        return self._store.turn(name, patience)

    def set(self, partition: str, key: bytes, value: bytes) -> None:
        self._store.set(partition, key, value)

    def set_many(self, partition: str, items: Iterable[tuple[bytes, bytes]]) -> None:
        self._store.set_many(partition, items)

    def set_if(self, partition: str, key: bytes, value: bytes, predicate: Predicate) -> None:
        self._moving()
        self._store.set_if(partition, key, value, predicate)

    def delete(self, partition: str, key: bytes) -> None:
        self._store.delete(partition, key)

    def delete_if(self, partition: str, key: bytes, predicate: Predicate) -> None:
        self._moving()
        self._store.delete_if(partition, key, predicate)

    def drop(self, partition: str) -> None:
        self._store.drop(partition)

    def scan(self, partition: str, start: bytes = b"") -> Iterator[tuple[bytes, bytes]]:
        return self._store.scan(partition, start)

    def partitions(self, prefix: str) -> Iterator[str]:
        return self._store.partitions(prefix)

    def close(self) -> None:
        """Do nothing: the store belongs to somebody else."""
