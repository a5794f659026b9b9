"""Records of one kind in one partition, each changed by compare-and-set; and shared reads.

Threads that read one key at the same time can share one read of the store. A read is shared only by
threads that called before it began, so each gets what a read of its own could have returned. The
first thread never waits. Threads that call during its read wait for its end, and the first of them
then reads for all of them.
"""

from collections.abc import Callable, Hashable, Iterator
from contextlib import suppress
from threading import Event, RLock, get_ident
from typing import Any, Final, Generic, NamedTuple, Protocol, TypeVar

from graveler.clock import Clock, IdSource
from graveler.errors import (
    BackendUnavailableError,
    GravelerError,
    OutcomeUnknownError,
    PreconditionFailedError,
)
from graveler.kv.store import ABSENT, KVStore, Predicate, Stored
from graveler.process import watch
from graveler.retries import retry

_PATIENCE_S: Final = 1.0

K = TypeVar("K")
R = TypeVar("R")
Key = TypeVar("Key", bound=Hashable)
Value = TypeVar("Value")


class Place(NamedTuple):
    """Where a record is, for a read of several at one moment.

    Attributes:
        partition: Its partition.
        key: Its key.
        decode: Returns the record of its bytes; raises CorruptionError.
    """

    partition: str
    key: bytes
    decode: Callable[[bytes], Any]


class Version(NamedTuple):
    """A record, and the predicate that replaces exactly this version of it."""

    record: Any
    predicate: Predicate


ABSENT_VERSION: Final = Version(None, ABSENT)
"""What stands for a record that does not exist."""


class _Versioned(Protocol):
    """A `Version`, or one whose record has a type."""

    @property
    def record(self) -> Any:
        """The record."""


V = TypeVar("V", bound=_Versioned)


def changed(known: V | None, present: Callable[[], V], change: Callable[[Any], R]) -> tuple[V, R]:
    """Return a version of a record, and what `change` makes of it.

    Args:
        known: A version that may be outdated; None for none. It is taken if `change` makes another
            record of it.
        present: Reads the present version, which is taken else.
        change: Makes the new record, or returns the one that it was given.
    """
    if known is not None:
        with suppress(GravelerError):
            new = change(known.record)
            if new is not known.record:
                return known, new
    version = present()
    return version, change(version.record)


class Together:
    """Reads of several records at one moment, which threads share; see `SharedReads`."""

    def __init__(self, kv: KVStore) -> None:
        self._reads: SharedReads[tuple[tuple[str, bytes], ...], list[Stored | None]] = SharedReads(
            kv.get_many
        )

    def read(self, *places: Place) -> list[Version | None]:
        """Return what is at each place, all of one moment, in one round trip."""
        found = self._reads.get(tuple((place.partition, place.key) for place in places))
        return [
            None if stored is None else Version(place.decode(stored.value), stored.predicate)
            for place, stored in zip(places, found, strict=True)
        ]


class RecordStore(Generic[K, R]):
    """The records of one kind.

    The encoding of a record that several writers may change carries a nonce, which differs with
    every write. A writer that lost the reply to a write reads the record back: the nonce
    shows whether the write landed.

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

    def place(self, name: K) -> Place:
        """Return where a record is, to read it with others."""
        return Place(self._partition, self._key(name), self._decode)

    def get(self, name: K) -> R | None:
        """Return the record, or None."""
        version = self.find(name)
        return None if version is None else version[0]

    def find(self, name: K) -> tuple[R, Predicate] | None:
        """Return the record with the predicate of this version of it, or None."""
        stored = self._kv.get(self._partition, self._key(name))
        return None if stored is None else (self._decode(stored.value), stored.predicate)

    def scan(self, prefix: bytes) -> Iterator[tuple[bytes, R]]:
        """Yield the records whose key starts with `prefix`: the rest of the key, and the record."""
        for key, value in self._kv.scan_below(self._partition, prefix):
            yield key[len(prefix) :], self._decode(value)

    def write(self, name: K, record: R, predicate: Predicate = ABSENT) -> bool:
        """Write the record if the stored one matches `predicate`; return whether it is written."""
        return self._write(name, record, predicate) is not None

    def _write(self, name: K, record: R, predicate: Predicate) -> Predicate | None:
        """Write the record as `write` does, and return its predicate; None if it is not written.

        A lost reply is read back, and the write is tried once more where it did not happen. Where
        another writer has written since, the answer is None.

        Raises:
            OutcomeUnknownError: A reply was lost, and the store does not answer any more, or
                the second reply was lost as well.
        """
        key, value = self._key(name), self._encode(record)
        try:
            return self._kv.set_if(self._partition, key, value, predicate)
        except PreconditionFailedError:
            return None
        except OutcomeUnknownError as error:
            stored = self._read_back(key, error)
            if stored is None or stored.value != value:
                return self._write_again(key, value, predicate)
            return stored.predicate

    def _write_again(self, key: bytes, value: bytes, predicate: Predicate) -> Predicate | None:
        """Write where nothing was written: a store that fails each time is not tried 200 times."""
        try:
            return self._kv.set_if(self._partition, key, value, predicate)
        except PreconditionFailedError:
            return None

    def remove(self, name: K, predicate: Predicate) -> bool:
        """Remove the record if it matches `predicate`; return whether it is gone."""
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
        """Replace the record by ``change(record)`` in one atomic step, and return it; see `updated`."""
        record: R = self.updated(name, change, what=what, clock=clock, ids=ids).record
        return record

    def updated(
        self,
        name: K,
        change: Callable[[R | None], R],
        *,
        what: str,
        clock: Clock,
        ids: IdSource,
        known: Version | None = None,
    ) -> Version:
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
            known: A version of the record, which may be outdated, for the first try: the record is
                not read. It is read if `change` raises for this version or leaves it as it is.

        Returns:
            The record as written, and its predicate.

        Raises:
            ThrottledError: 200 races were lost in a row.
            OutcomeUnknownError: A reply was lost, and the store does not answer any more.
        """

        def present() -> Version:
            return Version(*(self.find(name) or (None, ABSENT)))

        def attempt(number: int) -> Version | None:
            version, new = changed(None if number else known, present, change)
            if new is version.record:
                return version
            written = self._write(name, new, version.predicate)
            return None if written is None else Version(new, written)

        return retry(clock, ids, what, attempt)


class _Read(Generic[Value]):
    """One read of the store, by one thread for all that joined before it began."""

    __slots__ = ("done", "error", "next", "thread", "value")

    def __init__(self) -> None:
        self.done = Event()
        self.error: BaseException | None = None
        self.next: _Read[Value] | None = None
        self.thread = get_ident()
        self.value: Value


class SharedReads(Generic[Key, Value]):
    """Shares the reads of threads that need one key at the same time.

    No thread waits for more than a second: it then reads by itself. It does so at once if its own
    thread is the one that must read (a signal handler above an interrupted read).
    """

    def __init__(self, read: Callable[[Key], Value]) -> None:
        self._read = read
        self._under_way: dict[Key, _Read[Value]] = {}
        self._lock = RLock()
        watch(self)

    def get(self, key: Key) -> Value:
        """Return ``read(key)`` of a read that began after this call did.

        An error of a shared read is raised in every thread that shares it; if the reading thread
        was interrupted, the others read again.
        """
        joined = mine = _Read[Value]()
        with self._lock:
            before = self._under_way.setdefault(key, mine)
            if before is not mine:
                if mine.thread in {before.thread, before.next and before.next.thread}:
                    return self._read(key)
                before.next = joined = before.next or mine
        if before is mine:
            return self._read_shared(key, mine)
        if joined is mine:
            return self._read_after(key, mine, before)
        if not joined.done.wait(_PATIENCE_S):
            return self._read(key)
        if joined.error is None:
            return joined.value
        if isinstance(joined.error, Exception):
            raise joined.error
        return self.get(key)

    def after_fork_in_child(self) -> None:
        """Drop the reads of the parent's threads, which a fork does not copy."""
        self._under_way = {}
        self._lock = RLock()

    def _read_after(self, key: Key, mine: "_Read[Value]", before: "_Read[Value]") -> Value:
        try:
            if not before.done.wait(_PATIENCE_S):
                with self._lock:  # its thread may be gone: later threads join this read
                    if self._under_way.get(key) is before:
                        self._under_way[key] = mine
        except BaseException as error:
            mine.error = error
            self._end(key, mine, before)
            raise
        return self._read_shared(key, mine)

    def _read_shared(self, key: Key, mine: "_Read[Value]") -> Value:
        try:
            mine.value = self._read(key)
        except BaseException as error:
            mine.error = error
            raise
        else:
            return mine.value
        finally:
            self._end(key, mine, None)

    def _end(self, key: Key, mine: "_Read[Value]", before: "_Read[Value] | None") -> None:
        with self._lock:
            if self._under_way.get(key) is mine:
                if mine.next is None:
                    del self._under_way[key]
                else:
                    self._under_way[key] = mine.next
            elif before is not None and before.next is mine:
                before.next = None  # interrupted while it waited
        mine.done.set()
