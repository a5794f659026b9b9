"""Checks that the objects of entries exist and match their entries."""

import logging
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from operator import itemgetter
from threading import Lock
from time import monotonic

from graveler.base.background import Threads
from graveler.base.clock import Clock
from graveler.errors import GravelerError
from graveler.model import Entry, RangeInfo
from graveler.reads.soundness import (
    MARK_BYTES,
    Depth,
    Finding,
    Staged,
    bad_objects,
    check_range,
    fault_of,
    mark_of,
)
from graveler.reads.stores import Stores

_THREADS = 8
_MOST_MARKS = 1_000
_PAUSE_S = 10.0
_log = logging.getLogger(__name__)


class Checkpoint:
    """The objects that a check has found sound, so that it can be resumed on any host.

    They are kept in the key-value store, partition ``fsck:<uid>``, and written every ten seconds or every thousand objects. A killed process loses only the
    later ones.
    """

    def __init__(self, stores: Stores, *, resume: bool) -> None:
        self._kv = stores.kv
        self._ids = stores.ids
        self._partition = f"fsck:{stores.uid}"
        self._sound: list[bytes] = []
        self._written = monotonic()
        self._writable = True
        earlier = frozenset(self._read())
        self._kept = bool(earlier)
        self.known = earlier if resume else frozenset()
        if not resume:
            self.forget()

    def add(self, mark: bytes) -> None:
        """Record a sound object."""
        self._sound.append(mark)
        if len(self._sound) >= _MOST_MARKS or monotonic() - self._written > _PAUSE_S:
            self.write()

    def write(self) -> None:
        """Write the sound objects; if that fails, a resumed check reads them again."""
        marks, self._sound, self._written = self._sound, [], monotonic()
        if not marks or not self._writable:
            return
        try:
            self._kv.set(self._partition, self._ids.unique().encode(), b"".join(marks))
            self._kept = True
        except GravelerError as error:  # a read-only lake can also be checked
            self._writable = False
            _log.warning(
                "this check cannot be resumed, because its state cannot be stored: %s", error
            )

    def forget(self) -> None:
        """Remove the record."""
        self._sound = []
        if self._kept:
            self._kv.drop(self._partition)
            self._kept = False

    def _read(self) -> Iterator[bytes]:
        for _, marks in self._kv.scan(self._partition):
            for at in range(0, len(marks), MARK_BYTES):
                yield marks[at : at + MARK_BYTES]


class Pace:
    """Limits the bytes that threads read per second; any number of threads share it."""

    def __init__(self, clock: Clock, bytes_per_second: float | None) -> None:
        self._clock = clock
        self._rate = bytes_per_second
        self._lock = Lock()
        self._free_at = monotonic()

    def take(self, count: int) -> None:
        """Wait until `count` more bytes may be read."""
        if self._rate is None:
            return
        with self._lock:
            now = monotonic()
            self._free_at = max(self._free_at, now) + count / self._rate
            wait = self._free_at - now
        self._clock.sleep(wait)


class ObjectCheck:
    """Checks ranges in this process, and each object once, several at a time."""

    def __init__(
        self,
        stores: Stores,
        depth: Depth,
        *,
        pace: Pace | None = None,
        checkpoint: Checkpoint | None = None,
    ) -> None:
        self.depth = depth
        self.looked_at = 0
        self.resumed = 0
        self.hashed = 0
        self._stores = stores
        self._pace = pace or Pace(stores.clock, None)
        self._checkpoint = checkpoint
        self._stopped = False
        self._earlier = set(checkpoint.known) if checkpoint is not None else set()
        self._sound: set[bytes] = set()
        self._faults: dict[bytes, str] = {}

    def __call__(self, ranges: Iterable[RangeInfo], staged: Iterable[Staged]) -> Iterator[Finding]:
        """Yield the findings about ranges, their objects, and the objects of staged entries."""
        faults = None if self.depth == "none" else self.faults
        for info in ranges:
            yield from check_range(self._stores.ranges, info, self._stores.uri, faults)
        for branch, pairs in groupby(staged, itemgetter(0)):
            entries = (entry for _, entry in pairs)
            yield from bad_objects(branch, entries, self._stores.uri, self.faults)

    def faults(self, entries: Sequence[Entry]) -> list[tuple[Entry, str]]:
        """Return the entries whose object is missing or wrong, with a description."""
        if self.depth == "none":
            return []
        by_mark = [(mark_of(entry), entry) for entry in entries]
        new = {mark: entry for mark, entry in by_mark if mark not in self._sound}
        self._pass_over(new.keys() & self._earlier)
        fresh = [mark for mark in new if mark not in self._sound and mark not in self._faults]
        with Threads(_THREADS) as pool:
            answers = pool.map(
                lambda mark: fault_of(self._stores, new[mark], self.depth, self._take), fresh
            )
            try:
                for mark, (fault, read) in zip(fresh, answers, strict=True):
                    self._note(mark, fault, read)
            except BaseException:
                self._stopped = True  # the pool waits for its threads
                raise
        return [(entry, self._faults[mark]) for mark, entry in by_mark if mark in self._faults]

    def _pass_over(self, marks: set[bytes]) -> None:
        self.looked_at += len(marks)
        self.resumed += len(marks)
        self._sound |= marks
        self._earlier -= marks

    def _note(self, mark: bytes, fault: str, read: int) -> None:
        self.looked_at += 1
        self.hashed += read
        if fault:
            self._faults[mark] = fault
            return
        self._sound.add(mark)
        if self._checkpoint is not None:
            self._checkpoint.add(mark)

    def _take(self, count: int) -> None:
        if self._stopped:
            raise InterruptedError("the check was stopped")
        self._pace.take(count)
