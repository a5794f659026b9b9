"""The witness checks that the key-value store and the storage match, and that neither lost data.

The storage of a repository holds the marker: the ids of the lake and of the repository, and a
count, which the key-value store has issued. A process takes a count and replaces the marker before
it first moves a ref, then about once a minute, and before each sweep. A marker that is missing, of
another owner, of an unknown count or of a lower one than was acknowledged tells what is wrong: see
``docs/design/0007-a-witness-in-the-storage.md``.
"""

import logging
from collections.abc import Callable
from contextlib import suppress
from datetime import datetime, timedelta
from threading import Lock
from typing import TypeVar

from graveler.base.background import Background
from graveler.base.clock import IdSource, StoreClock
from graveler.base.forks import watch
from graveler.errors import (
    GravelerError,
    InvalidInputError,
    KVOutdatedError,
    ObjectNotFoundError,
    OutcomeUnknownError,
    PreconditionFailedError,
    ReadOnlyError,
    StorageFullError,
    StorageMismatchError,
    ThrottledError,
)
from graveler.kv.record_store import RecordStore
from graveler.kv.store import KVStore, KVWrapper, Predicate
from graveler.objects.store import ObjectStore
from graveler.repository.witness.known import KNOWN, Known, mismatch, wrong_storage
from graveler.repository.witness.marker import (
    MARKER,
    Marker,
    Owner,
    encode_marker,
    read_marker,
)

T = TypeVar("T")

_KEY = b"count"
_EVERY = timedelta(minutes=1)
_SHORT = timedelta(seconds=10)
_ATTEMPTS = 20
_log = logging.getLogger(__name__)


class Witness:
    """The witness of one repository. Threads may share it.

    Args:
        clock: Measures the minute between two counts. It may jump in either direction.
    """

    def __init__(
        self,
        owner: Owner,
        kv: KVStore,
        objects: ObjectStore,
        *,
        clock: StoreClock,
        ids: IdSource,
        background: Background,
    ) -> None:
        self._owner = owner
        self._what = f"witness of {owner.name!r} in the key-value store"
        self._records: RecordStore[Known] = RecordStore(
            kv,
            f"witness:{owner.uid}",
            encode=KNOWN.encode,
            decode=lambda raw: KNOWN.decode(raw, self._what),
        )
        self._objects = objects
        self._clock = clock
        self._ids = ids
        self._background = background
        self._lock = Lock()
        self._counted: datetime | None = None
        self._moved: datetime | None = None
        self._refusal: GravelerError | None = None
        watch(self)

    def after_fork_in_child(self) -> None:
        """Replace the lock, which another thread of the parent may have held."""
        self._lock = Lock()

    def moving(self, *, afresh: bool = False) -> None:
        """Announce that a ref is about to move. Except once a minute, this only reads the clock.

        Args:
            afresh: Count in any case, so that a backup of the key-value store from before this call
                is recognized.
        """
        if self._refusal is not None:
            raise type(self._refusal)(str(self._refusal))
        now = self._clock.machine()
        if afresh or self._counted is None:
            with self._lock:
                if afresh or self._counted is None:
                    self._count()
                    self._counted = now
        elif abs(now - self._counted) >= _EVERY:
            self._counted = now
            self._background.run(self._count_later)
        self._moved = now

    def check(self) -> None:
        """Compare the marker with the key-value store. Nothing is written."""
        marker = read_marker(self._objects)
        for _ in range(_ATTEMPTS):
            # the marker is read first, so that a count issued meanwhile is not a difference
            error = self._mismatch(marker)
            if error is None:
                return
            now = read_marker(self._objects)
            if now == marker:
                raise error
            marker = now
        raise self._busy()

    def check_place(self) -> None:
        """Check that the storage is the repository's, if this is cheap or necessary.

        A folder is always checked. Another storage is checked if its spelling has changed since its
        marker was written. An outdated key-value store can still be read.
        """
        known = self._known()
        local = self._objects.local_file(MARKER) is not None
        if not known.acked or (not local and known.place == self._objects.root):
            return
        try:
            self.check()
        except KVOutdatedError:
            return
        except StorageMismatchError:
            # an older copy in its own place was restored from a backup: it can be read
            marker = read_marker(self._objects)
            same = marker is not None and marker.is_of(self._owner)
            if not same or known.place != self._objects.root:
                raise

    def claim(self, *, take_over: bool = False) -> None:
        """Mark the storage as this repository's, if it has no owner yet.

        Args:
            take_over: Take it from another lake or repository, which will detect the takeover.
        """
        claimed = self._marker(self._issue())
        for _ in range(_ATTEMPTS):
            etag, marker = self._read()
            if marker is None:
                with suppress(OutcomeUnknownError):
                    since = self._clock.machine()
                    if self._objects.put_if_absent(MARKER, encode_marker(claimed)):
                        self._note_marker(since)
                continue  # the marker is now this one, or the one of a faster process
            if take_over and not marker.is_of(self._owner):
                try:
                    etag = self._objects.put_if_match(MARKER, encode_marker(claimed), etag).etag
                except (PreconditionFailedError, OutcomeUnknownError):
                    continue
                marker = claimed
            if (error := self._mismatch(marker)) is not None:
                if read_marker(self._objects) != marker:
                    continue  # another process counted between the two reads
                raise error
            self._check_conditions(encode_marker(marker))
            self._acknowledge(marker, etag)
            self._counted = self._clock.machine()
            return
        raise self._busy()

    def _check_conditions(self, body: bytes) -> None:
        """Send two writes that must fail, because some stores and proxies ignore conditions."""
        with suppress(PreconditionFailedError, OutcomeUnknownError):
            taken = "If-None-Match: *"
            if not self._objects.put_if_absent(MARKER, body):
                taken = "If-Match"
                self._objects.put_if_match(MARKER, body, '"of-no-object"')
            raise InvalidInputError(
                f"the store of {self._objects.root} ignores the condition {taken} of a write, so that "
                "collection and commits of other processes could destroy data: use a store with "
                "conditional writes, and a proxy that keeps their headers"
            )

    def accept(self, check: Callable[[], T]) -> T:
        """Accept the state of both stores, which count as complete from now on.

        Args:
            check: Called before the state is accepted. An error prevents that.
        """
        known = self._known()
        etag, marker = self._read()
        elsewhere = known.place not in {"", self._objects.root}
        if marker is None:
            wrong = elsewhere
        else:
            wrong = not marker.is_of(self._owner) or (elsewhere and marker.count < known.acked)
        if wrong:
            raise wrong_storage(self._owner, self._objects, known, marker)
        result = check()
        accepted = self._marker(self._issue(beyond=0 if marker is None else marker.count))
        if marker is None:
            self._objects.put_if_absent(MARKER, encode_marker(accepted))
            etag = self._objects.head(MARKER).etag
        else:
            etag = self._objects.put_if_match(MARKER, encode_marker(accepted), etag).etag
        self._acknowledge(accepted, etag)
        self._refusal = None
        self._counted = self._clock.machine()
        return result

    def close(self) -> None:
        """Write a count for the moves since the last count, unless the process was short."""
        if self._moved is None or self._counted is None or self._refusal is not None:
            return
        if abs(self._moved - self._counted) >= _SHORT:
            self._background.run(self._count_later)

    def _count_later(self) -> None:
        try:
            self._count()
        except ReadOnlyError:
            return  # the ref did not move either
        except (KVOutdatedError, StorageMismatchError) as error:
            self._refusal = error
            _log.error("%s", error)
        except GravelerError as error:
            _log.warning(
                "the storage of repository %r will be marked later: %s", self._owner.name, error
            )

    def _count(self) -> None:
        if not self._known().acked:
            self.claim()
            return
        known = self._issue()
        marker = self._marker(known)
        try:
            etag = self._replace(known, marker)
        except (ReadOnlyError, StorageFullError) as error:
            self.check()  # a move needs no space in the storage, or reports a full disk itself
            _log.warning("the storage of repository %r is not marked: %s", self._owner.name, error)
            return
        self._background.run(lambda: self._acknowledge_later(marker, etag))

    def _replace(self, known: Known, marker: Marker) -> str:
        """Replace the marker that the key-value store knows by another one.

        Returns:
            The etag, or "" if the two stores match and other processes have counted first.
        """
        etag, body = known.etag, encode_marker(marker)
        for _ in range(_ATTEMPTS):
            since = self._clock.machine()
            try:
                if etag:
                    info = self._objects.put_if_match(MARKER, body, etag)
                    self._clock.note(info.mtime, since)
                    return info.etag
            except (PreconditionFailedError, OutcomeUnknownError):
                pass  # the stored marker decides
            etag, stored = self._read()
            if stored == marker:
                self._note_marker(since)
                return etag
            if self._mismatch(stored) is not None:
                self._update(lambda now: now.without(marker))
                self.check()
                return ""  # the second comparison found no error: other processes count
            if stored is not None and stored.count > marker.count:
                self._note_marker(since)
                return ""  # a later count covers this one
        return ""  # other processes count all the time, and no attempt found an error

    def _note_marker(self, since: datetime) -> None:
        """Learn the store's time from the marker, which was put after `since`."""
        self._clock.note(self._objects.head(MARKER).mtime, since)

    def _mismatch(self, marker: Marker | None) -> GravelerError | None:
        return mismatch(self._owner, self._objects, self._known(), marker)

    def _read(self) -> tuple[str, Marker | None]:
        try:
            etag = self._objects.head(
                MARKER
            ).etag  # before the bytes, because the marker may be replaced
        except ObjectNotFoundError:
            return "", None
        return etag, read_marker(self._objects)

    def _marker(self, known: Known) -> Marker:
        count, nonce = known.issued[-1]
        return Marker(self._owner, count, nonce, self._clock.machine())

    def _issue(self, beyond: int = 0) -> Known:
        """Issue the next count above `beyond`, and return the new record."""
        nonce = self._ids.unique()
        return self._update(lambda known: known.with_next(nonce, beyond))

    def _acknowledge_later(self, marker: Marker, etag: str) -> None:
        try:
            if etag:
                self._acknowledge(marker, etag)
        except GravelerError as error:
            _log.info("the marker of repository %r will be read: %s", self._owner.name, error)

    def _acknowledge(self, marker: Marker, etag: str) -> None:
        self._update(lambda known: known.with_written(marker, etag, self._objects.root))

    def _known(self) -> Known:
        return self._records.get(_KEY) or Known()

    def _update(self, change: Callable[[Known], Known]) -> Known:
        return self._records.update(
            _KEY,
            lambda known: change(known or Known()),
            what=self._what,
            clock=self._clock,
            ids=self._ids,
        )

    def _busy(self) -> ThrottledError:
        return ThrottledError(
            f"{self._objects.uri(MARKER)} was replaced during {_ATTEMPTS} tries: try again"
        )


class WitnessedKVStore(KVWrapper):
    """A key-value store that calls the witness before each conditional write or deletion."""

    # `KVStore` documents the methods.
    # ruff: noqa: D102

    def __init__(self, store: KVStore, moving: Callable[[], None]) -> None:
        super().__init__(store)
        self._moving = moving

    def set_if(self, partition: str, key: bytes, value: bytes, predicate: Predicate) -> Predicate:
        self._moving()
        return self._store.set_if(partition, key, value, predicate)

    def delete_if(self, partition: str, key: bytes, predicate: Predicate) -> None:
        self._moving()
        self._store.delete_if(partition, key, predicate)

    def close(self) -> None:
        """Do nothing. The owner closes the store."""
