"""The key-value port: small mutable records, one key the only unit of atomicity.

A key lives in a partition, which is a namespace and the unit a driver may spread by.
Partitions need no creating. Keys are compared bytewise.

Consistency of every driver: a read or a scan that starts after a write returned returns that
write or a later one. A scan is not a snapshot: it may or may not return what is written or
deleted while it runs; it returns everything else.

Durability: when a write returns, it survives the death of the process and, but for the
memory driver, of the machine.

Concurrency: any number of threads may share a store. A store that a forked process
inherited is either reopened automatically or refuses to work; it never touches what
belongs to the parent.

A predicate identifies a value, not a write: ``set_if`` cannot distinguish a key that was
changed and changed back from one that was not. A caller that must distinguish the two adds a nonce to the value.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any, Final, Self

MAX_KEY_BYTES: Final = 1024
"""Longest key and longest partition name that every driver takes (DynamoDB's limit)."""

MAX_KEYS: Final = 25
"""Most keys of one :meth:`KVStore.get_many`: DynamoDB takes 100, others that speak its protocol 25."""


@dataclass(frozen=True, slots=True)
class _Existence:
    name: str


ABSENT: Final = _Existence("absent")
"""Predicate: the key must not be there."""

PRESENT: Final = _Existence("present")
"""Predicate: the key must exist, with any value."""

Predicate = Any
"""``ABSENT``, ``PRESENT``, the ``predicate`` of an earlier :class:`Stored`, or what ``set_if`` returned."""


@dataclass(frozen=True, slots=True)
class Stored:
    """A value, and the predicate of a compare-and-set that expects it.

    Attributes:
        value: The bytes stored.
        predicate: Opaque; only good for ``set_if`` on the store that gave it.
    """

    value: bytes
    predicate: Predicate


class KVStore(ABC):
    """What the versioned metadata needs of a database."""

    @abstractmethod
    def get(self, partition: str, key: bytes) -> Stored | None:
        """Return the value at the key with its predicate, or None."""

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
        """Return what :meth:`get` gives for each (partition, key), all at one moment, in one round trip.

        A snapshot: there is a moment during the call at which every key had the value that is
        returned for it. So of two writes made one after the other, the second is never returned
        without the first, whatever the order of the keys. A key may come twice.

        Raises:
            InvalidInputError: More than :data:`MAX_KEYS` keys.
        """

    def turn(self, name: str, patience: float) -> AbstractContextManager[bool]:
        """Hold the turn named `name` while the block runs; advisory only.

        Callers that take turns do not lose races to one another, and get the turn roughly in the
        order of their calls. Correctness must not depend on it: after `patience` seconds the
        block runs without the turn, and a driver may have no turns at all. The turn of a
        process that dies is free at once.

        Args:
            name: Name of the turn; any text.
            patience: Largest number of seconds to wait.

        Returns:
            A context manager that gives whether the turn is held.
        """
        del name, patience
        return nullcontext(enter_result=False)

    @abstractmethod
    def set(self, partition: str, key: bytes, value: bytes) -> None:
        """Write `value`; an earlier value is replaced."""

    @abstractmethod
    def set_many(self, partition: str, items: Iterable[tuple[bytes, bytes]]) -> None:
        """Write many keys of one partition, in as few round trips as the driver can.

        Not atomic: after an error some may be written; repeating is harmless.
        Where a key comes twice, the last one counts.
        """

    @abstractmethod
    def set_if(self, partition: str, key: bytes, value: bytes, predicate: Predicate) -> Predicate:
        """Write `value` if the key matches `predicate`, in one atomic step.

        An empty value is a value: the key exists.

        Returns:
            The predicate of the value as written, as :meth:`get` would give it.

        Raises:
            InvalidInputError: The predicate is not one of this store.
            PreconditionFailedError: The key does not match; nothing was written.
            OutcomeUnknownError: The reply was lost; read the key to find the outcome.
        """

    @abstractmethod
    def delete(self, partition: str, key: bytes) -> None:
        """Remove the key; no error if it does not exist."""

    @abstractmethod
    def delete_if(self, partition: str, key: bytes, predicate: Predicate) -> None:
        """Remove the key if its value matches the `predicate` of an earlier ``get``.

        One atomic step: what was written since the ``get`` stays.

        Raises:
            InvalidInputError: The predicate is not one that ``get`` returned.
            PreconditionFailedError: The value is another one, or gone; nothing was removed.
            OutcomeUnknownError: The reply was lost; read the key to find the outcome.
        """

    @abstractmethod
    def drop(self, partition: str) -> None:
        """Remove every key of the partition; not atomic, may be repeated."""

    @abstractmethod
    def scan(self, partition: str, start: bytes = b"") -> Iterator[tuple[bytes, bytes]]:
        """Yield (key, value) ascending from the first key at or after `start`.

        The store may be written to while the scan runs, by the same thread too.
        """

    def scan_all(self, partition: str) -> Iterator[tuple[bytes, bytes]]:
        """Yield what :meth:`scan` yields of a partition, in fewer round trips if all of it is read."""
        return self.scan(partition)

    def partitions(self, prefix: str) -> Iterator[str]:
        """Yield the names of the partitions that begin with `prefix` and hold a key, in any order.

        For clean-up: it may read the whole store. A partition that is filled or
        emptied during the call may be among them or not. A driver that cannot list them yields
        none; abandoned partitions are then never found.
        """
        del prefix
        return iter(())

    @abstractmethod
    def close(self) -> None:
        """Give back files, connections and locks; may be called twice.

        Every other call on a closed store raises StateError; so does a scan under way,
        when it next reaches for the store.
        """

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
