"""Records the objects that a check of checksums has found sound, so that it can be resumed.

The record is in the key-value store, partition ``fsck:<uid>``, so any host can resume the check.
"""

import logging
from collections.abc import Iterator
from time import monotonic

from graveler.errors import GravelerError
from graveler.reads.soundness import MARK_BYTES
from graveler.reads.stores import Stores

_MOST_MARKS = 1_000
_PAUSE_S = 10.0
_log = logging.getLogger(__name__)


class Checkpoint:
    """The objects that a check has found sound.

    They are written every ten seconds or every thousand objects. A killed process loses only the
    later ones.

    Args:
        resume: Start from the results of an earlier check; otherwise they are dropped.

    Attributes:
        known: Marks of the objects that an earlier check has found sound.
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
