"""Checks that the objects of entries exist, and match their entries."""

from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from threading import Lock
from time import monotonic
from typing import Final, Literal

from graveler.clock import Clock
from graveler.errors import (
    InvalidInputError,
    MissingDependencyError,
    NotFoundError,
    PermissionDeniedError,
)
from graveler.fsck.checkpoint import Checkpoint
from graveler.model import Entry
from graveler.objects.store import version_of
from graveler.objects.verified import new_hash
from graveler.reads import Stores

Depth = Literal["none", "exist", "checksum"]
"""How much of an object is checked: nothing, its presence and size, or its bytes."""

_PIECE_BYTES: Final = 1 << 20
_THREADS: Final = 8


class Pace:
    """Limits the bytes that threads read in a second; any number of them share one.

    Args:
        clock: Sleeps.
        bytes_per_second: The average rate; None: no limit.
    """

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
    """Checks each object once, several at a time because stores answer slowly.

    Args:
        stores: The repository.
        depth: How much of each object is checked.
        pace: Limits the bytes read per second.
        checkpoint: Objects to skip; records those that are sound.

    Attributes:
        depth: How much of each object is checked.
        looked_at: Objects checked so far.
        resumed: Those among them that an earlier check has found sound.
        hashed: Bytes read to compare checksums.
    """

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

    def faults(self, entries: Iterable[Entry]) -> list[tuple[Entry, str]]:
        """Return the entries whose object is missing or wrong, with a description."""
        if self.depth == "none":
            return []
        by_mark = [(Checkpoint.mark(entry), entry) for entry in entries]
        new = {mark: entry for mark, entry in by_mark if mark not in self._sound}
        self._pass_over(new.keys() & self._earlier)
        fresh = [mark for mark in new if mark not in self._sound and mark not in self._faults]
        with ThreadPoolExecutor(_THREADS) as pool:
            answers = pool.map(lambda mark: self._look(new[mark]), fresh)
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

    def _look(self, entry: Entry) -> tuple[str, int]:
        """Return a description of the object's fault, "" if it has none, and the bytes read."""
        try:
            store, key = self._stores.locate(entry.address)
            info = store.head(key)
            if info.size != entry.size:
                return f"has {info.size} bytes, its entry says {entry.size}", 0
            if entry.version and (version := version_of(info, entry.version)) != entry.version:
                return f"is at {version}, and was at {entry.version} when it was linked", 0
            algorithm, _, expected = entry.checksum.partition(":")
            fresh = new_hash(algorithm)
            if self.depth != "checksum" or fresh is None:
                return "", 0
            with store.open(key) as stream:
                while (piece := stream.read(_PIECE_BYTES)) and not self._stopped:
                    self._pace.take(len(piece))
                    fresh.update(piece)
        except NotFoundError:
            return "is missing", 0
        except (InvalidInputError, MissingDependencyError, PermissionDeniedError) as error:
            return f"cannot be looked at: {error}", 0
        found = fresh.hexdigest()
        sound = found == expected.lower()
        fault = "" if sound else f"has {algorithm}:{found}, its entry says {expected}"
        return fault, info.size
