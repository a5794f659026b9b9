"""The key-value port: small mutable records, one key the only unit of atomicity.

A key lives in a partition, which is a namespace and the unit a driver may spread by.
Partitions need no creating. Keys are compared bytewise.

Consistency of every driver: a read or a scan that starts after a write returned sees that
write or a later one. A scan is not a snapshot: it may or may not see what is written or
deleted while it runs; it sees everything else.

Durability: when a write returns, it survives the death of the process and, but for the
memory driver, of the machine.

Concurrency: any number of threads may share a store. A store that a forked process
inherited is either reopened automatically or refuses to work; it never touches what
belongs to the parent.

A predicate stands for a value, not for a write: a key that was changed and changed back
looks unchanged to ``set_if``. A caller that must distinguish the two adds a nonce to the value.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any, Final, Self

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

    def get_each(self, partitions: Sequence[str], key: bytes) -> list[Stored | None]:
        """Return what :meth:`get` gives for `key` in each of the partitions, in their order.

        Not a snapshot. A driver that can asks for all of them in one round trip.
        """
        return [self.get(partition, key) for partition in partitions]

    def turn(self, name: str, patience: float) -> AbstractContextManager[bool]:
        """Hold the turn at what `name` stands for while the block runs; advisory only.

        Callers that take turns do not lose races to one another, and are served about in the
        order in which they asked. Correctness must not depend on it: after `patience` seconds
        the block runs without the turn, and a driver may have no turns at all. The turn of a
        process that dies is free at once.

        Args:
            name: What to take turns at; any text.
            patience: Seconds to wait at the most.

        Returns:
            A context manager that gives whether the turn was had.
        """
        del name, patience
        return nullcontext(enter_result=False)

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

        An empty value is a value: the key is there.

        Raises:
            InvalidInputError: The predicate is none that this store gives.
            PreconditionFailedError: It is not; nothing was written.
            OutcomeUnknownError: The reply was lost; read back to know.
        """

    @abstractmethod
    def delete(self, partition: str, key: bytes) -> None:
        """Remove the key; no error where it is not there."""

    @abstractmethod
    def delete_if(self, partition: str, key: bytes, predicate: Predicate) -> None:
        """Remove the key if its value is as the `predicate` of an earlier ``get`` says.

        One atomic step: what was written since the ``get`` stays.

        Raises:
            InvalidInputError: The predicate is none that ``get`` gave.
            PreconditionFailedError: The value is another one, or gone; nothing was removed.
            OutcomeUnknownError: The reply was lost; read back to know.
        """

    @abstractmethod
    def drop(self, partition: str) -> None:
        """Remove every key of the partition; not atomic, may be repeated."""

    @abstractmethod
    def scan(self, partition: str, start: bytes = b"") -> Iterator[tuple[bytes, bytes]]:
        """Yield (key, value) ascending from the first key at or after `start`.

        The store may be written to while the scan runs, by the same thread too.
        """

    def partitions(self, prefix: str) -> Iterator[str]:
        """Yield the names of the partitions that begin with `prefix` and hold a key, in any order.

        For clean-up: it may cost a look at the whole store. A partition that is filled or
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
