"""The witness: whether the key-value store and the storage match, and neither has lost anything.

The storage of a repository holds one object, the marker: the id of the lake, the id of the
repository and a count. The key-value store holds the id of the lake and the counts it has issued.

Before a process moves a ref for the first time, it takes the next count from the key-value store and
replaces the marker, on the condition that the marker is the one that the key-value store knows. This
one conditional request nearly always succeeds. If it fails, the process reads the marker:

- There is no marker: the storage is missing, usually because a volume is not mounted.
- It belongs to another lake or repository: the settings name the wrong storage, or another lake has
  taken the storage over.
- This key-value store has not issued its count: the store was restored from an old backup, or is one
  of two copies.
- Its count is below one that was acknowledged: the storage is an older copy of itself.

Afterwards a process counts about once a minute, in the background.

Ids are compared, never the spelling of places. Where a storage is spelled as it was when the
marker was last written, opening a repository asks for nothing; a folder is always looked at.
"""

import logging
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from threading import Lock
from typing import Final

from graveler.background import Background
from graveler.clock import Clock, IdSource
from graveler.errors import (
    BackendUnavailableError,
    GravelerError,
    KVOutdatedError,
    ObjectNotFoundError,
    OutcomeUnknownError,
    PreconditionFailedError,
    ReadOnlyError,
    StorageFullError,
    StorageMismatchError,
    ThrottledError,
)
from graveler.fields import Fields
from graveler.fork import watch
from graveler.identity import unix_us
from graveler.kv.store import ABSENT, KVStore, Stored
from graveler.objects.store import ObjectStore
from graveler.records import decode_json, encode_json
from graveler.repository.witness.marker import (
    MARKER,
    Marker,
    Owner,
    encode_marker,
    read_marker,
)

_KEY: Final = b"count"
_EVERY: Final = timedelta(minutes=1)
_SHORT: Final = timedelta(seconds=10)
_ATTEMPTS: Final = 20
_MOST_ISSUED: Final = 500
_NEVER: Final = datetime(1970, 1, 1, tzinfo=UTC)
_log: Final = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Known:
    """What the key-value store knows of the marker.

    Attributes:
        count: The last count that it handed out.
        acked: The last one of which it knows that it was written.
        etag: Of the marker with that count.
        place: Root of the storage it was written to, for people.
        at: When it was written, by the writer's clock; informative.
        issued: Counts since, that one included, and their nonces.
    """

    count: int = 0
    acked: int = 0
    etag: str = ""
    place: str = ""
    at: datetime = _NEVER
    issued: tuple[tuple[int, str], ...] = ()

    def knows(self, marker: Marker) -> bool:
        """Return whether this key-value store handed out the marker's count.

        One that is older than those that are kept counts as known.
        """
        nonce = dict(self.issued).get(marker.count, marker.nonce)
        return marker.count <= self.count and nonce == marker.nonce

    def with_next(self, nonce: str) -> "Known":
        """Return this with one more count handed out."""
        issued = (*self.issued, (self.count + 1, nonce))
        return replace(self, count=self.count + 1, issued=issued[-_MOST_ISSUED:])

    def with_written(self, marker: Marker, etag: str, place: str) -> "Known":
        """Return this once it is known that a marker is in the storage."""
        if marker.count < self.acked:
            return self
        issued = tuple(one for one in self.issued if one[0] >= marker.count)
        return replace(
            self, acked=marker.count, etag=etag, place=place, at=marker.at, issued=issued
        )


class Witness:
    """The storage and the key-value store of one repository; threads may share it.

    Args:
        owner: The repository.
        kv: Where it hands out counts.
        objects: Its storage.
        clock: Tells when a minute has passed, whichever way it jumps.
        ids: Where nonces come from.
        background: Counts while nobody waits.
    """

    def __init__(
        self,
        owner: Owner,
        kv: KVStore,
        objects: ObjectStore,
        *,
        clock: Clock,
        ids: IdSource,
        background: Background,
    ) -> None:
        self._owner = owner
        self._kv = kv
        self._partition = f"witness:{owner.uid}"
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
        """Another thread of the parent may have held the lock."""
        self._lock = Lock()

    def moving(self) -> None:
        """Say that a ref is about to move; a look at the clock but once a minute.

        Raises:
            KVOutdatedError: The key-value store has forgotten something: nothing may move.
            StorageMismatchError: The storage is not the repository's.
            BackendUnavailableError: The storage is not there.
        """
        if self._refusal is not None:
            raise type(self._refusal)(str(self._refusal))
        now = self._clock.now()
        if self._counted is None:
            with self._lock:
                if self._counted is None:
                    self._count()
                    self._counted = now
        elif abs(now - self._counted) >= _EVERY:
            self._counted = now
            self._background.run(self._count_behind)
        self._moved = now

    def check(self) -> None:
        """Compare the marker with what the key-value store knows; nothing is written.

        Raises:
            KVOutdatedError: The key-value store has forgotten something.
            StorageMismatchError: The storage is not the repository's, or an older copy of it.
            BackendUnavailableError: The storage is not there.
        """
        self._look()

    def check_place(self) -> None:
        """Look, where it costs nothing or may be needed, whether the storage is the repository's.

        A folder is always looked at, and any storage that is spelled in another way than when
        its marker was written. Reading goes on where the key-value store is outdated.

        Raises:
            StorageMismatchError: It is not.
            BackendUnavailableError: It is not there.
        """
        known, _ = self._known()
        local = self._objects.local_file(MARKER) is not None
        if not known.acked or (not local and known.place == self._objects.root):
            return
        try:
            self._look()
        except KVOutdatedError:
            return
        except StorageMismatchError:
            # an older copy in its own place was restored from a backup: it can be read
            there = read_marker(self._objects)
            same = there is not None and there.is_of(self._owner)
            if not same or known.place != self._objects.root:
                raise

    def claim(self, *, take_over: bool = False) -> None:
        """Mark the storage as this repository's, where it is nobody's yet.

        Args:
            take_over: Take it from another lake or repository, which will notice.

        Raises:
            StorageMismatchError: It is somebody else's.
        """
        known, _ = self._issue()
        marker = self._marker(known)
        for _ in range(_ATTEMPTS):
            etag, there = self._read()
            if there is None:
                with suppress(OutcomeUnknownError):
                    self._objects.put_if_absent(MARKER, encode_marker(marker))
                continue  # what is there now is this one's, or that of a faster process
            if take_over and not there.is_of(self._owner):
                try:
                    body = encode_marker(marker)
                    etag = self._objects.put_if_match(MARKER, body, etag).etag
                except (PreconditionFailedError, OutcomeUnknownError):
                    continue
                there = marker
            if (error := self._error(self._known()[0], there)) is not None:
                raise error
            self._acknowledge(there, etag)
            self._counted = self._clock.now()
            return
        raise self._busy()

    def accept(self) -> None:
        """Go on from what both stores have: from now on they count as complete.

        Raises:
            StorageMismatchError: The storage is another repository's, or a storage elsewhere:
                that cannot be accepted.
        """
        known, _ = self._known()
        etag, there = self._read()
        elsewhere = known.place not in {"", self._objects.root}
        if there is None and elsewhere:
            raise self._not_its(known, there)
        if there is not None and (
            not there.is_of(self._owner) or (elsewhere and there.count < known.acked)
        ):
            raise self._not_its(known, there)
        known, _ = self._issue(beyond=0 if there is None else there.count)
        marker = self._marker(known)
        if there is None:
            self._objects.put_if_absent(MARKER, encode_marker(marker))
            etag = self._objects.head(MARKER).etag
        else:
            etag = self._objects.put_if_match(MARKER, encode_marker(marker), etag).etag
        self._acknowledge(marker, etag)
        self._refusal = None
        self._counted = self._clock.now()

    def close(self) -> None:
        """Count moves that no count has seen; those of a short process were."""
        if self._moved is None or self._counted is None or self._refusal is not None:
            return
        if abs(self._moved - self._counted) >= _SHORT:
            self._background.run(self._count_behind)

    def _count_behind(self) -> None:
        try:
            self._count()
        except ReadOnlyError:
            return  # what was to move did not
        except (KVOutdatedError, StorageMismatchError) as error:
            self._refusal = error
            _log.error("%s", error)
        except GravelerError as error:
            _log.warning(
                "the storage of repository %r will be marked later: %s", self._owner.name, error
            )

    def _count(self) -> None:
        if not self._known()[0].acked:
            self.claim()
            return
        known, before = self._issue()
        marker = self._marker(known)
        try:
            etag = self._replace(before, marker)
        except (ReadOnlyError, StorageFullError) as error:
            self._look()  # whatever is to move needs no room in the storage, or will say so
            _log.warning("the storage of repository %r is not marked: %s", self._owner.name, error)
            return
        self._background.run(lambda: self._acknowledge_later(marker, etag))

    def _replace(self, before: Known, marker: Marker) -> str:
        """Replace the marker that the key-value store knows by another.

        Returns:
            Its etag; "" where the two stores agree, and others' counts came before this one.

        Raises:
            KVOutdatedError, StorageMismatchError, BackendUnavailableError: See `moving`.
        """
        etag, body = before.etag, encode_marker(marker)
        for _ in range(_ATTEMPTS):
            try:
                if etag:
                    return self._objects.put_if_match(MARKER, body, etag).etag
            except (PreconditionFailedError, OutcomeUnknownError):
                pass  # what is there tells more
            etag, there = self._read()
            if there == marker:
                return etag
            if self._error(self._known()[0], there) is not None:
                self._take_back(marker)
                self._look()
                return ""  # the second look found nothing wrong: others are counting
            if there is not None and there.count > marker.count:
                return ""  # somebody else's count covers this one
        return ""  # others count all the time, and each time nothing was wrong

    def _look(self) -> None:
        """Compare the two stores, and look again where they do not agree: others count."""
        there = read_marker(self._objects)
        for _ in range(_ATTEMPTS):
            # in this order: what is handed out meanwhile was not handed out too late
            error = self._error(self._known()[0], there)
            if error is None:
                return
            now = read_marker(self._objects)
            if now == there:
                raise error
            there = now
        raise self._busy()

    def _error(self, known: Known, there: Marker | None) -> GravelerError | None:
        if there is None:  # where it was never written, it will be with the first move
            return self._gone(known) if known.acked else None
        if not there.is_of(self._owner):
            return self._not_its(known, there)
        if there.count < known.acked:
            return self._older(known, there)
        return None if known.knows(there) else self._outdated(known, there)

    def _read(self) -> tuple[str, Marker | None]:
        try:
            etag = self._objects.head(MARKER).etag  # before the bytes: it may be replaced
        except ObjectNotFoundError:
            return "", None
        return etag, read_marker(self._objects)

    def _marker(self, known: Known) -> Marker:
        count, nonce = known.issued[-1]
        return Marker(self._owner, count, nonce, self._clock.now())

    def _issue(self, beyond: int = 0) -> tuple[Known, Known]:
        """Hand out the next count; return what is known with it, and without it."""
        nonce = self._ids.unique()
        for _ in range(_ATTEMPTS):
            before, stored = self._known()
            new = replace(before, count=max(before.count, beyond)).with_next(nonce)
            if self._change(stored, new):
                return new, before
        raise self._busy()

    def _take_back(self, marker: Marker) -> None:
        """Take a count back that was not written, if nobody has got a later one."""
        known, stored = self._known()
        if known.issued[-1:] == ((marker.count, marker.nonce),):
            self._change(stored, replace(known, count=known.count - 1, issued=known.issued[:-1]))

    def _acknowledge_later(self, marker: Marker, etag: str) -> None:
        try:
            if etag:
                self._acknowledge(marker, etag)
        except GravelerError as error:
            _log.info("the marker of repository %r will be read: %s", self._owner.name, error)

    def _acknowledge(self, marker: Marker, etag: str) -> None:
        for _ in range(_ATTEMPTS):
            known, stored = self._known()
            if self._change(stored, known.with_written(marker, etag, self._objects.root)):
                return

    def _known(self) -> tuple[Known, Stored | None]:
        stored = self._kv.get(self._partition, _KEY)
        what = f"witness of {self._owner.name!r} in the key-value store"
        return (Known() if stored is None else decode_known(stored.value, what)), stored

    def _change(self, stored: Stored | None, known: Known) -> bool:
        value = encode_json(
            {
                "acked": known.acked,
                "at": unix_us(known.at),
                "count": known.count,
                "etag": known.etag,
                "issued": [list(one) for one in known.issued],
                "place": known.place,
            }
        )
        predicate = ABSENT if stored is None else stored.predicate
        try:
            self._kv.set_if(self._partition, _KEY, value, predicate)
        except PreconditionFailedError:
            return False
        except OutcomeUnknownError:
            now = self._kv.get(self._partition, _KEY)
            if now is None or now.value != value:
                raise
        return True

    def _busy(self) -> ThrottledError:
        return ThrottledError(
            f"{self._objects.uri(MARKER)} was replaced during {_ATTEMPTS} tries: try again"
        )

    def _gone(self, known: Known) -> GravelerError:
        if known.place not in {"", self._objects.root}:
            return self._not_its(known, None)
        return BackendUnavailableError(
            f"the storage of repository {self._owner.name!r} is not there: "
            f"{self._objects.uri(MARKER)} was, and is gone. Is its volume mounted on this machine? "
            "If its files are lost, restore them from a backup"
        )

    def _not_its(self, known: Known, there: Marker | None) -> StorageMismatchError:
        here, owner = self._objects.root, self._owner
        if there is not None and known.place == here:
            return StorageMismatchError(
                f"{here} is not the storage of repository {owner.name!r} (lake {owner.lake}) any "
                f"more: it was taken over by {there}. What that one does not name it deletes: work "
                "with that one, or restore this one's files to another storage"
            )
        found = "has no marker" if there is None else f"belongs to {there}"
        return StorageMismatchError(
            f"{here} is not the storage of repository {owner.name!r} (lake {owner.lake}): that is "
            f"{known.place}, and {here} {found}. Correct [storage] in the settings of {owner.where}; "
            f"if the storage was moved, move all of it, {MARKER} too"
        )

    def _older(self, known: Known, there: Marker) -> StorageMismatchError:
        return StorageMismatchError(
            f"{self._objects.root} is an older copy of the storage of repository "
            f"{self._owner.name!r} (lake {self._owner.lake}): its count is {there.count}, last at "
            f"{there.at:%Y-%m-%d %H:%M:%S} UTC, and the key-value store knows of count "
            f"{known.acked} in {known.place}. Name that storage, or restore a newer backup of this one"
        )

    def _outdated(self, known: Known, there: Marker) -> KVOutdatedError:
        name = self._owner.name
        return KVOutdatedError(
            f"the key-value store of repository {name!r} (lake {self._owner.lake}) has forgotten "
            "what it knew, as one that was restored from an old backup, or it is one of two copies: "
            f"its count is {known.count} (last at {known.at:%Y-%m-%d %H:%M:%S} UTC), and that of "
            f"the marker {self._objects.uri(MARKER)} is {there.count} (last at "
            f"{there.at:%Y-%m-%d %H:%M:%S} UTC), written by the lake opened as {there.owner.where}. "
            "Restore a newer backup; or, if no other copy is in use, go on from what is there with "
            f"`graveler repo accept {name}`. Until then it can be read, and nothing is written"
        )


def decode_known(raw: bytes, what: str) -> Known:
    """Read the record of the key-value store; `what` names it in errors.

    Raises:
        CorruptionError: It is none.
    """
    fields = Fields(decode_json(raw, what), what)
    issued = fields.rows("issued", ("count", "nonce"))
    return Known(
        count=fields.number("count"),
        acked=fields.number("acked"),
        etag=fields.text("etag"),
        place=fields.text("place"),
        at=fields.moment("at"),
        issued=tuple((pair.number("count"), pair.name("nonce")) for pair in issued),
    )
