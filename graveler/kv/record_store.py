"""Records of one kind in a partition, changed by compare-and-set, and shared reads.

Threads that read the same key at the same time share one read, which began after all of them
called.
"""

from collections.abc import Callable, Hashable, Iterator
from contextlib import suppress
from operator import attrgetter
from threading import Event, RLock, get_ident
from typing import Any, Generic, NamedTuple, TypeVar

from graveler.base.clock import Clock, IdSource
from graveler.base.forks import watch
from graveler.base.retries import retry
from graveler.errors import (
    BackendUnavailableError,
    GravelerError,
    OutcomeUnknownError,
    PreconditionFailedError,
)
from graveler.kv.store import ABSENT, KVStore, Predicate, Stored

_PATIENCE_S = 1.0

R = TypeVar("R")
Key = TypeVar("Key", bound=Hashable)
Value = TypeVar("Value")


class Place(NamedTuple):
    """The location of a record, for a read of several records at one moment.

    Attributes:
        decode: Returns the record for its bytes, or raises CorruptionError.
    """

    partition: str
    key: bytes
    decode: Callable[[bytes], Any]


_where = attrgetter("partition", "key")


class Version(NamedTuple, Generic[R]):
    """A record, and the predicate for replacing exactly this version."""

    record: R
    predicate: Predicate


ABSENT_VERSION: Version[Any] = Version(None, ABSENT)
"""The version of a record that does not exist."""


def changed(
    known: Version[Any] | None, present: Callable[[], Version[Any]], change: Callable[[Any], R]
) -> tuple[Version[Any], R]:
    """Return a version of a record, and the result of `change` for it.

    Args:
        known: A version that may be outdated, or None. It is used if `change` returns another
            record for it.
        change: Returns the new record, or its argument for no change.
    """
    if known is not None:
        with suppress(GravelerError):
            new = change(known.record)
            if new is not known.record:
                return known, new
    version = present()
    return version, change(version.record)


class SnapshotReader:
    """Reads of several records at one moment. Threads share them, see `SharedReads`."""

    def __init__(self, kv: KVStore) -> None:
        self._reads: SharedReads[tuple[tuple[str, bytes], ...], list[Stored | None]] = SharedReads(
            kv.get_many
        )

    def read(self, *places: Place) -> list[Version[Any] | None]:
        """Return the version at each place, all at one moment, in one round trip."""
        found = self._reads.get(tuple(map(_where, places)))
        return [
            None if stored is None else Version(place.decode(stored.value), stored.predicate)
            for place, stored in zip(places, found, strict=True)
        ]


class RecordStore(Generic[R]):
    """The records of one kind.

    The encoding of a record with several writers contains a nonce, which differs with every write.
    A writer that lost the reply to a write reads the record back. The nonce shows whether the write
    landed.
    """

    def __init__(
        self,
        kv: KVStore,
        partition: str,
        *,
        prefix: bytes = b"",
        encode: Callable[[R], bytes],
        decode: Callable[[bytes], R],
    ) -> None:
        self._kv = kv
        self._partition = partition
        self._prefix = prefix
        self._encode = encode
        self._decode = decode

    def key(self, name: str | bytes) -> bytes:
        """Return the key of a record."""
        return self._prefix + (name.encode() if isinstance(name, str) else name)

    def place(self, name: str | bytes) -> Place:
        """Return the place of a record, to read it together with others."""
        return Place(self._partition, self.key(name), self._decode)

    def get(self, name: str | bytes) -> R | None:
        """Return the record, or None."""
        version = self.find(name)
        return None if version is None else version.record

    def find(self, name: str | bytes) -> Version[R] | None:
        """Return the record with the predicate of this version, or None."""
        stored = self._kv.get(self._partition, self.key(name))
        return None if stored is None else Version(self._decode(stored.value), stored.predicate)

    def scan(self) -> Iterator[tuple[bytes, R]]:
        """Yield each record, after the rest of its key."""
        for key, value in self._kv.scan_below(self._partition, self._prefix):
            yield key[len(self._prefix) :], self._decode(value)

    def write(self, name: str | bytes, record: R, predicate: Predicate = ABSENT) -> bool:
        """Write the record if the stored one matches `predicate`. Return whether it is written."""
        return self._write(name, record, predicate) is not None

    def _write(self, name: str | bytes, record: R, predicate: Predicate) -> Predicate | None:
        """Write the record like `write`. Return its predicate, or None if it is not written.

        After a lost reply the record is read back. If the write did not land, it is tried once
        more. If another writer has written since, the result is None.
        """
        key, value = self.key(name), self._encode(record)
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
        """Write a second time. A store that fails each time is then not tried 200 times."""
        try:
            return self._kv.set_if(self._partition, key, value, predicate)
        except PreconditionFailedError:
            return None

    def remove(self, name: str | bytes, predicate: Predicate) -> bool:
        """Remove the record if it matches `predicate`. Return whether it is gone."""
        key = self.key(name)
        try:
            self._kv.delete_if(self._partition, key, predicate)
        except PreconditionFailedError:
            return False
        except OutcomeUnknownError as error:
            return self._read_back(key, error) is None
        return True

    def _read_back(self, key: bytes, unknown: OutcomeUnknownError) -> Stored | None:
        """Return the stored value after a lost reply. Without an answer, raise `unknown`."""
        try:
            return self._kv.get(self._partition, key)
        except BackendUnavailableError:
            raise unknown from None

    def update(
        self,
        name: str | bytes,
        change: Callable[[R | None], R],
        *,
        what: str,
        clock: Clock,
        ids: IdSource,
    ) -> R:
        """Replace the record by ``change(record)`` atomically, and return it. See `updated`."""
        return self.updated(name, change, what=what, clock=clock, ids=ids).record

    def updated(
        self,
        name: str | bytes,
        change: Callable[[R | None], R],
        *,
        what: str,
        clock: Clock,
        ids: IdSource,
        known: Version[R] | None = None,
    ) -> Version[R]:
        """Replace the record by ``change(record)`` in one atomic step.

        Args:
            change: Returns the new record for the stored one, which is None if there is none. It
                runs again after a lost race, so it must be safe to repeat. An error that it raises
                ends the update. If it returns its argument, nothing is written.
            known: A version of the record, which may be outdated. The first attempt uses it and
                does not read the record, unless `change` raises for it or returns it unchanged.
        """

        def present() -> Version[Any]:
            return self.find(name) or ABSENT_VERSION

        def attempt(number: int) -> Version[R] | None:
            version, new = changed(None if number else known, present, change)
            if new is version.record:
                return version
            written = self._write(name, new, version.predicate)
            return None if written is None else Version(new, written)

        return retry(clock, ids, what, attempt)


class _Read(Generic[Value]):
    """A read of the store by one thread, for all threads that joined before it began."""

    __slots__ = ("done", "error", "next", "thread", "value")

    def __init__(self) -> None:
        self.done = Event()
        self.error: BaseException | None = None
        self.next: _Read[Value] | None = None
        self.thread = get_ident()
        self.value: Value


class SharedReads(Generic[Key, Value]):
    """Shares the reads of threads that need the same key at the same time.

    A thread waits for at most a second, and then reads by itself. It reads at once if the pending
    read belongs to the same thread, as in a signal handler that interrupts a read.
    """

    def __init__(self, read: Callable[[Key], Value]) -> None:
        self._read = read
        self._under_way: dict[Key, _Read[Value]] = {}
        self._lock = RLock()
        watch(self)

    def get(self, key: Key) -> Value:
        """Return the result of a ``read(key)`` that began after this call.

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
        """Discard the reads of the parent's threads, which a fork does not copy."""
        self._under_way = {}
        self._lock = RLock()

    def _read_after(self, key: Key, mine: "_Read[Value]", before: "_Read[Value]") -> Value:
        try:
            if not before.done.wait(_PATIENCE_S):
                with self._lock:  # the other thread may be gone: later threads join this read
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
                before.next = None  # interrupted while waiting
        mine.done.set()
