"""The key-value store interface: small mutable records, with atomicity per key.

A key is in a partition. A partition is a namespace, and the unit by which a driver may distribute
data. Partitions need not be created. Keys are compared bytewise.

Consistency of every driver: a read or a scan that starts after a write has returned sees that write
or a later one. A scan is not a snapshot. It may or may not return keys that are written or deleted
while it runs. It returns all other keys.

Durability: a write that has returned survives the death of the process. Except with the memory
driver, it also survives a crash of the machine.

Concurrency: any number of threads may share a store. A forked process either reopens an inherited
store automatically, or the store refuses to work. It never uses resources of the parent.

A predicate identifies a value, not a write: ``set_if`` cannot distinguish an unchanged key from one
that was changed and changed back. A caller that must distinguish the two adds a nonce to the value.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any, ParamSpec, Self, TypeVar

P = ParamSpec("P")
T = TypeVar("T")

MAX_KEY_BYTES = 1024
"""Maximum length of keys and partition names that every driver accepts (DynamoDB's limit)."""

MAX_VALUE_BYTES = 384 * 1024
"""Maximum length of a value that every driver accepts. With its names it fits into an item of
DynamoDB."""

MAX_KEYS = 25
"""Maximum number of keys of one :meth:`KVStore.get_many`. DynamoDB accepts 100, but other services
with its protocol accept 25."""


@dataclass(frozen=True, slots=True)
class _Existence:
    name: str


ABSENT = _Existence("absent")
"""Predicate: the key must not exist."""

PRESENT = _Existence("present")
"""Predicate: the key must exist, with any value."""

Predicate = Any
"""``ABSENT``, ``PRESENT``, the ``predicate`` of a :class:`Stored`, or the result of ``set_if``."""


@dataclass(frozen=True, slots=True)
class Stored:
    """A value, and the predicate of a compare-and-set that expects it.

    Attributes:
        value: The stored bytes.
        predicate: An opaque value. Only the store that returned it accepts it.
    """

    value: bytes
    predicate: Predicate


class KVStore(ABC):
    """The operations that graveler's metadata needs from a database."""

    @abstractmethod
    def get(self, partition: str, key: bytes) -> Stored | None:
        """Return the value of the key with its predicate, or None."""

    def scan_below(
        self, partition: str, prefix: bytes, start: bytes = b""
    ) -> Iterator[tuple[bytes, bytes]]:
        """Yield the keys that begin with `prefix`, from `start` on, with their values."""
        for key, value in self.scan(partition, max(prefix, start)):
            if not key.startswith(prefix):
                return
            yield key, value

    @abstractmethod
    def get_many(self, keys: Sequence[tuple[str, bytes]]) -> list[Stored | None]:
        """Return the result of :meth:`get` for each (partition, key), in one round trip.

        The result is a snapshot: at one moment during the call, every key had the returned value.
        So the second of two consecutive writes is never returned without the first, in any order of
        the keys. A key may come twice.

        Raises:
            InvalidInputError: More than :data:`MAX_KEYS` keys are given.
        """

    def turn(self, name: str, patience: float) -> AbstractContextManager[bool]:
        """Hold the advisory turn `name` while the block runs.

        Callers that take turns do not lose races to each other, and get the turn roughly in the
        order of their calls. Correctness must not depend on turns: after `patience` seconds the
        block runs without the turn, and a driver may have no turns. The turn of a process that
        dies is free at once, or after some seconds.

        Args:
            name: Name of the turn, any text.
            patience: Maximum number of seconds to wait.

        Returns:
            A context manager whose value is whether the turn is held.
        """
        del name, patience
        return nullcontext(enter_result=False)

    @abstractmethod
    def set(self, partition: str, key: bytes, value: bytes) -> None:
        """Write `value`. An earlier value is replaced."""

    @abstractmethod
    def set_many(self, partition: str, items: Iterable[tuple[bytes, bytes]]) -> None:
        """Write many keys of one partition, in as few round trips as possible.

        The call is not atomic: after an error some keys may be written. Repeating it is harmless.
        If a key comes twice, the last value counts.
        """

    @abstractmethod
    def set_if(self, partition: str, key: bytes, value: bytes, predicate: Predicate) -> Predicate:
        """Write `value` if the key matches `predicate`, in one atomic step.

        An empty value is a value: the key exists.

        Returns:
            The predicate of the written value, as :meth:`get` would return it.

        Raises:
            InvalidInputError: The predicate is not one of this store.
            PreconditionFailedError: The key does not match. Nothing was written.
            OutcomeUnknownError: The reply was lost. Read the key to find the outcome.
        """

    @abstractmethod
    def delete(self, partition: str, key: bytes) -> None:
        """Remove the key. A missing key is not an error."""

    def delete_many(self, partition: str, keys: Iterable[bytes]) -> None:
        """Remove many keys of one partition, in as few round trips as possible.

        The call is not atomic, and may be repeated.
        """
        for key in keys:
            self.delete(partition, key)

    @abstractmethod
    def delete_if(self, partition: str, key: bytes, predicate: Predicate) -> None:
        """Remove the key if its value matches the `predicate` of an earlier ``get``.

        The call is atomic: a value that was written since the ``get`` stays.

        Raises:
            InvalidInputError: The predicate is not one that ``get`` returned.
            PreconditionFailedError: The value has changed, or is gone. Nothing was removed.
            OutcomeUnknownError: The reply was lost. Read the key to find the outcome.
        """

    @abstractmethod
    def drop(self, partition: str) -> None:
        """Remove every key of the partition. The call is not atomic, and may be repeated."""

    @abstractmethod
    def scan(self, partition: str, start: bytes = b"") -> Iterator[tuple[bytes, bytes]]:
        """Yield (key, value) ascending from the first key at or after `start`.

        The store may be written while the scan runs, also by the same thread.
        """

    def scan_all(self, partition: str) -> Iterator[tuple[bytes, bytes]]:
        """Yield all items of a partition like :meth:`scan`, in fewer round trips."""
        return self.scan(partition)

    def partitions(self, prefix: str) -> Iterator[str]:
        """Yield the names of the partitions that begin with `prefix` and hold a key, in any order.

        This is for clean-up: it may read the whole store. A partition that is filled or emptied
        during the call may be missing or included. A driver that cannot list partitions yields
        none. Abandoned partitions are then never found.
        """
        del prefix
        return iter(())

    @abstractmethod
    def close(self) -> None:
        """Release files, connections and locks. The call may be repeated.

        Every other call on a closed store raises StateError. A running scan raises it at its next
        access to the store.
        """

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class KVWrapper(KVStore):
    """A store that forwards every call of the port to another one.

    A subclass replaces `_forward` for all calls, or single methods.
    """

    # `KVStore` documents the methods.
    # ruff: noqa: D102

    def __init__(self, store: KVStore) -> None:
        self._store = store

    def _forward(self, call: Callable[P, T], *args: P.args, **named: P.kwargs) -> T:
        """Make a call of the wrapped store, whose name is ``call.__name__``."""
        return call(*args, **named)

    def get(self, partition: str, key: bytes) -> Stored | None:
        return self._forward(self._store.get, partition, key)

    def get_many(self, keys: Sequence[tuple[str, bytes]]) -> list[Stored | None]:
        return self._forward(self._store.get_many, keys)

    def turn(self, name: str, patience: float) -> AbstractContextManager[bool]:
        return self._forward(self._store.turn, name, patience)

    def set(self, partition: str, key: bytes, value: bytes) -> None:
        self._forward(self._store.set, partition, key, value)

    def set_many(self, partition: str, items: Iterable[tuple[bytes, bytes]]) -> None:
        self._forward(self._store.set_many, partition, items)

    def set_if(self, partition: str, key: bytes, value: bytes, predicate: Predicate) -> Predicate:
        return self._forward(self._store.set_if, partition, key, value, predicate)

    def delete(self, partition: str, key: bytes) -> None:
        self._forward(self._store.delete, partition, key)

    def delete_many(self, partition: str, keys: Iterable[bytes]) -> None:
        self._forward(self._store.delete_many, partition, keys)

    def delete_if(self, partition: str, key: bytes, predicate: Predicate) -> None:
        self._forward(self._store.delete_if, partition, key, predicate)

    def drop(self, partition: str) -> None:
        self._forward(self._store.drop, partition)

    def scan(self, partition: str, start: bytes = b"") -> Iterator[tuple[bytes, bytes]]:
        return self._forward(self._store.scan, partition, start)

    def scan_all(self, partition: str) -> Iterator[tuple[bytes, bytes]]:
        return self._forward(self._store.scan_all, partition)

    def scan_below(
        self, partition: str, prefix: bytes, start: bytes = b""
    ) -> Iterator[tuple[bytes, bytes]]:
        return self._forward(self._store.scan_below, partition, prefix, start)

    def partitions(self, prefix: str) -> Iterator[str]:
        return self._forward(self._store.partitions, prefix)

    def close(self) -> None:
        self._store.close()
