"""Does the key-value store still know what the object store remembers?

A key-value store that was restored from an old backup looks whole: branches point to older
commits, and what was committed since is forgotten without a word. So both stores keep one
counter for each repository. A process that moves refs counts on at its first move, about once
a minute after that, and when it ends: first in the key-value store, then in the object store.
The object store's count is therefore never ahead, unless the other one has forgotten.

Looked at are the two counts before a process's first move, by fsck and by garbage collection.
Reading asks for neither.

The other way round, the key-value store also keeps whether the object store has ever been seen
to count. A storage that was, and now has no count at all, is not the repository's: most often a
volume that is not mounted here, and what were written to it would be hidden by the mount.
"""

import logging
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Final

from graveler.background import Background
from graveler.clock import Clock
from graveler.errors import (
    BackendUnavailableError,
    GravelerError,
    KVOutdatedError,
    ObjectNotFoundError,
    OutcomeUnknownError,
    PreconditionFailedError,
    ReadOnlyError,
)
from graveler.fields import Fields
from graveler.identity import unix_us
from graveler.kv.store import ABSENT, KVStore, Stored
from graveler.objects.store import ObjectStore
from graveler.records import decode_json, encode_json

__all__ = ["WITNESSES", "Count", "Witness", "forget", "witnesses"]

WITNESSES: Final = "_graveler/witness/"
"""Where the counts are in a repository's storage."""
_KEY: Final = b"count"
_EVERY: Final = timedelta(minutes=1)
_ATTEMPTS: Final = 20
_log: Final = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Count:
    """How far a store has counted, and when it last did.

    Attributes:
        number: Grows.
        at: By the clock of whoever counted; for people, nothing is decided by it.
        both: In the key-value store: the other one has been seen to count, too.
    """

    number: int
    at: datetime | None = None
    both: bool = False

    def __str__(self) -> str:
        when = "never" if self.at is None else f"at {self.at:%Y-%m-%d %H:%M:%S} UTC"
        return f"{self.number} (last {when})"


class Witness:
    """The two counts of one repository; threads may share it.

    Args:
        name: What the repository is called.
        uid: Its unique id.
        kv: One store that counts.
        objects: The other one: the repository's own storage.
        clock: Tells when a minute has passed, whichever way it jumps.
        background: Counts on while nobody waits.
    """

    def __init__(
        self,
        name: str,
        uid: str,
        kv: KVStore,
        objects: ObjectStore,
        *,
        clock: Clock,
        background: Background,
    ) -> None:
        self._name = name
        self._kv = kv
        self._partition = f"witness:{uid}"
        self._objects = objects
        self._key = f"{WITNESSES}{uid}"
        self._clock = clock
        self._background = background
        self._known = 0
        self._looked: datetime | None = None
        self._uncounted = False
        self._both = False
        self._outdated: str = ""

    def moving(self) -> None:
        """Say that a ref is about to move; costs a look at the clock but once a minute.

        Raises:
            KVOutdatedError: The key-value store has forgotten something: nothing may move.
            BackendUnavailableError: The storage is not the repository's.
        """
        if self._outdated:
            raise KVOutdatedError(self._outdated)
        self._uncounted = True
        now = self._clock.now()
        if self._looked is None:
            self.check()
        elif abs(now - self._looked) < _EVERY:
            return
        self._looked = now
        self._background.run(self._count)

    def check(self) -> None:
        """Compare the two counts.

        Raises:
            KVOutdatedError: The object store's is ahead.
            BackendUnavailableError: It has none, and had one.
        """
        witnessed = self._in_objects()  # first: meanwhile others count on, first in the other
        known = self._in_kv(self._stored())
        self._check_there(known, witnessed)
        self._known = max(self._known, known.number)
        if witnessed.number > known.number:
            self._outdated = self._told(known, witnessed)
            raise KVOutdatedError(self._outdated)

    def check_mounted(self) -> None:
        """Look whether a storage that is a folder is the repository's.

        Raises:
            BackendUnavailableError: It has no count, and had one.
        """
        if self._objects.local_file(self._key) is None:
            return  # a bucket is not an empty one because something is not mounted
        known = self._in_kv(self._stored())
        if known.both:
            self._check_there(known, self._in_objects())

    def _check_there(self, known: Count, witnessed: Count) -> None:
        if known.both and not witnessed.number and not self._in_objects().number:  # by now
            raise BackendUnavailableError(
                f"the storage of repository {self._name!r} is not there: "
                f"{self._objects.uri(self._key)} was, and is gone. Is its volume mounted on this "
                "machine? If its files are lost, restore them; to go on with what is left, use "
                f"`graveler repo accept {self._name}`, then `graveler fsck`"
            )

    def accept(self) -> None:
        """Go on from what both stores have: from now on they count as complete."""
        ahead = max(self._known, self._in_objects().number)
        self._advance(ahead)
        self._outdated = ""
        self._put()

    def close(self) -> None:
        """Count the moves that no count has seen yet."""
        if self._uncounted and not self._outdated:
            self._background.run(self._count)

    def _count(self) -> None:
        try:
            self._count_on()
        except ReadOnlyError:
            return  # what was to move did not
        except GravelerError as error:
            self._uncounted = True
            _log.warning(
                "the witness of repository %r will be counted later: %s", self._name, error
            )

    def _count_on(self) -> None:
        self._uncounted = False
        witnessed = self._in_objects()
        known = self._in_kv(self._stored())
        self._check_there(known, witnessed)
        self._both = self._both or known.both
        if known.number < max(self._known, witnessed.number):
            ahead = witnessed if witnessed.number >= self._known else Count(self._known)
            self._outdated = self._told(known, ahead)
            _log.error("%s", self._outdated)
            return
        self._advance(self._known)
        self._put()

    def _advance(self, past: int) -> None:
        """Count on in the key-value store, beyond `past`."""
        for _ in range(_ATTEMPTS):
            stored = self._stored()
            known = self._in_kv(stored)
            counted = Count(max(past, known.number) + 1, self._clock.now(), known.both)
            if self._change(stored, counted):
                self._known = counted.number
                return

    def _note_both(self) -> None:
        """Keep in the key-value store that the other one counts, too."""
        for _ in range(_ATTEMPTS):
            stored = self._stored()
            known = self._in_kv(stored)
            if known.both or self._change(stored, replace(known, both=True)):
                self._both = True
                return

    def _change(self, stored: Stored | None, count: Count) -> bool:
        at = 0 if count.at is None else unix_us(count.at)
        value = encode_json({"count": count.number, "at": at, "both": int(count.both)})
        predicate = ABSENT if stored is None else stored.predicate
        try:
            self._kv.set_if(self._partition, _KEY, value, predicate)
        except (PreconditionFailedError, OutcomeUnknownError):
            return False  # another one counted, or this one did: counting twice is harmless
        return True

    def _put(self) -> None:
        if self._in_objects().number < self._known:
            now = unix_us(self._clock.now())
            self._objects.put(self._key, encode_json({"count": self._known, "at": now}))
        if not self._both:
            self._note_both()

    def _stored(self) -> Stored | None:
        return self._kv.get(self._partition, _KEY)

    def _in_kv(self, stored: Stored | None) -> Count:
        what = f"witness of {self._name!r} in the key-value store"
        return Count(0) if stored is None else _decoded(stored.value, what)

    def _in_objects(self) -> Count:
        try:
            raw = self._objects.get(self._key)
        except ObjectNotFoundError:
            return Count(0)
        return _decoded(raw, f"witness {self._objects.uri(self._key)}")

    def _told(self, known: Count, witnessed: Count) -> str:
        return (
            f"the key-value store of repository {self._name!r} has forgotten what it knew, as one "
            f"that was restored from an old backup: its count is {known}, and that of the object "
            f"store, in {self._objects.uri(self._key)}, is {witnessed}. Restore a newer backup; "
            f"or go on from what is there with `graveler repo accept {self._name}`. Until then "
            "it can be read, and nothing is written"
        )


def witnesses(objects: ObjectStore) -> Iterator[tuple[str, Count]]:
    """Yield the unique ids of the repositories that have a count in a storage, and the counts."""
    for info in objects.list(WITNESSES):
        try:
            yield info.key.rpartition("/")[2], _decoded(objects.get(info.key), info.key)
        except ObjectNotFoundError:
            continue  # deleted since


def forget(objects: ObjectStore, uid: str) -> None:
    """Remove the count of a repository that nobody will ever open again."""
    objects.delete(f"{WITNESSES}{uid}")


def _decoded(raw: bytes, what: str) -> Count:
    fields = Fields(decode_json(raw, what), what)
    return Count(fields.number("count"), fields.moment("at"), bool(fields.number("both", 0)))
