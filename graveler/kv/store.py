"""The key-value port: small mutable records, one key the only unit of atomicity.

A key lives in a partition, which is a namespace and the unit a driver may spread by.
Partitions need no creating. Keys are compared bytewise.

Consistency that every driver gives: a read or a scan that starts after a write
returned sees that write or a later one. A scan is not a snapshot: what is written or
deleted while it runs may or may not be seen, everything else is.

Durability: when a write returns, it survives the death of the process and, but for the
memory driver, of the machine.

Concurrency: any number of threads may share a store.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Final, Self

from graveler.errors import InvalidInputError

__all__ = ["ABSENT", "MAX_KEY_BYTES", "PRESENT", "KVStore", "Predicate", "Stored", "check_key"]

MAX_KEY_BYTES: Final = 1024
"""Longest key and longest partition name that every driver takes (DynamoDB's limit)."""


@dataclass(frozen=True, slots=True)
class _Existence:
    name: str


ABSENT: Final = _Existence("absent")
"""Predicate: the key must not be there."""

PRESENT: Final = _Existence("present")
"""Predicate: the key must be there, whatever its value."""

Predicate = Any
"""``ABSENT``, ``PRESENT``, or the ``predicate`` of an earlier :class:`Stored`."""


@dataclass(frozen=True, slots=True)
class Stored:
    """A value and what stands for it in a compare-and-set.

    Attributes:
        value: The bytes stored.
        predicate: Opaque; only good for ``set_if`` on the store that gave it.
    """

    value: bytes
    predicate: Predicate


def check_key(partition: str, key: bytes) -> None:
    """Refuse what some driver could not store.

    Raises:
        InvalidInputError: Partition or key is empty or longer than 1024 bytes.
    """
    if not 1 <= len(partition.encode()) <= MAX_KEY_BYTES:
        raise InvalidInputError(
            f"partition of {len(partition)} characters: give 1 to {MAX_KEY_BYTES} bytes"
        )
    if not 1 <= len(key) <= MAX_KEY_BYTES:
        raise InvalidInputError(
            f"key of {len(key)} bytes in {partition!r}: give 1 to {MAX_KEY_BYTES}"
        )


class KVStore(ABC):
    """What the versioned metadata needs of a database."""

    @abstractmethod
    def get(self, partition: str, key: bytes) -> Stored | None:
        """Return the value at the key with its predicate, or None."""

    @abstractmethod
    def set(self, partition: str, key: bytes, value: bytes) -> None:
        """Write `value`, whatever was there."""

    @abstractmethod
    def set_many(self, partition: str, items: Iterable[tuple[bytes, bytes]]) -> None:
        """Write many keys of one partition, in as few round trips as the driver can.

        Not atomic: after an error some may be written; repeating is harmless.
        Where a key comes twice, the last one counts.
        """

    @abstractmethod
    def set_if(self, partition: str, key: bytes, value: bytes, predicate: Predicate) -> None:
        """Write `value` if the key is as `predicate` says, in one atomic step.

        Raises:
            PreconditionFailedError: It is not; nothing was written.
            OutcomeUnknownError: The reply was lost; read back to know.
        """

    @abstractmethod
    def delete(self, partition: str, key: bytes) -> None:
        """Remove the key; no error where it is not there."""

    @abstractmethod
    def drop(self, partition: str) -> None:
        """Remove every key of the partition; not atomic, may be repeated."""

    @abstractmethod
    def scan(self, partition: str, start: bytes = b"") -> Iterator[tuple[bytes, bytes]]:
        """Yield (key, value) ascending from the first key at or after `start`."""

    @abstractmethod
    def close(self) -> None:
        """Give back files, connections and locks; may be called twice."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()
