"""Records of one kind in one partition, each changed by compare-and-set alone."""

from collections.abc import Callable, Iterator
from typing import Generic, TypeVar

from graveler.clock import Clock, IdSource
from graveler.errors import BackendUnavailableError, OutcomeUnknownError, PreconditionFailedError
from graveler.kv.store import ABSENT, KVStore, Predicate, Stored
from graveler.retries import retry

K = TypeVar("K")
R = TypeVar("R")


class RecordStore(Generic[K, R]):
    """The records of one kind.

    The encoding of a record that several writers may change carries a nonce, which differs with
    every write. A writer that lost the reply to a write reads the record back, and knows from
    the nonce whether the write landed.

    Args:
        kv: The key-value store.
        partition: The partition of the records.
        key: Returns the key of the record of a name.
        encode: Returns the bytes of a record.
        decode: Returns the record of these bytes; raises CorruptionError.
    """

    def __init__(
        self,
        kv: KVStore,
        partition: str,
        *,
        key: Callable[[K], bytes],
        encode: Callable[[R], bytes],
        decode: Callable[[bytes], R],
    ) -> None:
        self._kv = kv
        self._partition = partition
        self._key = key
        self._encode = encode
        self._decode = decode

    def get(self, name: K) -> R | None:
        """Return the record, or None."""
        found = self.find(name)
        return None if found is None else found[0]

    def find(self, name: K) -> tuple[R, Predicate] | None:
        """Return the record with the predicate of this version of it, or None."""
        stored = self._kv.get(self._partition, self._key(name))
        return None if stored is None else (self._decode(stored.value), stored.predicate)

    def scan(self, prefix: bytes) -> Iterator[tuple[bytes, R]]:
        """Yield the records whose key starts with `prefix`: the rest of the key, and the record."""
        for key, value in self._kv.scan(self._partition, prefix):
            if not key.startswith(prefix):
                return
            yield key[len(prefix) :], self._decode(value)

    def write(self, name: K, record: R, predicate: Predicate = ABSENT) -> bool:
        """Write the record if the stored one is as `predicate` says; return whether it is written.

        A lost reply is read back. Where another writer has written since, the answer is False.

        Raises:
            OutcomeUnknownError: A reply was lost, and the store does not answer any more.
        """
        key, value = self._key(name), self._encode(record)
        try:
            self._kv.set_if(self._partition, key, value, predicate)
        except PreconditionFailedError:
            return False
        except OutcomeUnknownError as error:
            stored = self._read_back(key, error)
            return stored is not None and stored.value == value
        return True

    def remove(self, name: K, predicate: Predicate) -> bool:
        """Remove the record if it is as `predicate` says; return whether it is gone."""
        key = self._key(name)
        try:
            self._kv.delete_if(self._partition, key, predicate)
        except PreconditionFailedError:
            return False
        except OutcomeUnknownError as error:
            return self._read_back(key, error) is None
        return True

    def _read_back(self, key: bytes, unknown: OutcomeUnknownError) -> Stored | None:
        """Return what is stored after a lost reply; without an answer the outcome stays unknown."""
        try:
            return self._kv.get(self._partition, key)
        except BackendUnavailableError:
            raise unknown from None

    def update(
        self, name: K, change: Callable[[R | None], R], *, what: str, clock: Clock, ids: IdSource
    ) -> R:
        """Replace the record by ``change(record)`` in one atomic step.

        Args:
            name: The name of the record.
            change: Makes the new record of the stored one, None where there is none. It runs
                again after a lost race, so it must do no harm when repeated; an error that it
                raises ends the update. If it returns the record that it was given, nothing is
                written.
            what: What the record is, for the error: ``run 'hourly'``.
            clock: Measures the pauses between two tries.
            ids: Draws the jitter of the pauses.

        Returns:
            The record as written.

        Raises:
            ThrottledError: 200 races were lost in a row.
            OutcomeUnknownError: A reply was lost, and the store does not answer any more.
        """

        def attempt(_number: int) -> R | None:
            record, predicate = self.find(name) or (None, ABSENT)
            new = change(record)
            return new if new is record or self.write(name, new, predicate) else None

        return retry(clock, ids, what, attempt)
