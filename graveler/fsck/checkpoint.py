"""Which objects a look at all checksums has found sound, so that it can be resumed.

Kept in the key-value store, partition ``fsck:<uid>``: any host can resume what another began.
"""

import logging
from collections.abc import Iterator
from hashlib import sha256
from time import monotonic
from typing import Final

from graveler.errors import GravelerError
from graveler.model import Entry
from graveler.repository import Stores

__all__ = ["Checkpoint"]

_MARK_BYTES: Final = 16
_MOST_MARKS: Final = 1_000
_PAUSE_S: Final = 10.0
_log = logging.getLogger(__name__)


class Checkpoint:
    """The objects found sound since a look began, as far as it is written down.

    What is found is written down every ten seconds, or a thousand objects, and at the end of a
    block of ``with``; a process that is killed loses no more than that.

    Args:
        stores: The repository.
        resume: Begin with what an earlier look has found; else that is forgotten.

    Attributes:
        known: Marks of the objects that an earlier look has found sound.
    """

    def __init__(self, stores: Stores, *, resume: bool) -> None:
        self._kv = stores.kv
        self._ids = stores.ids
        self._partition = f"fsck:{stores.uid}"
        self._found: list[bytes] = []
        self._written = monotonic()
        self._writable = True
        there = frozenset(self._read())
        self._kept = bool(there)
        self.known = there if resume else frozenset()
        if not resume:
            self.forget()

    @staticmethod
    def mark(entry: Entry) -> bytes:
        """Return what stands for the object of an entry, and for what the entry says of it."""
        text = "\0".join((entry.address, str(entry.size), entry.checksum, entry.version))
        return sha256(text.encode("utf-8", "surrogatepass")).digest()[:_MARK_BYTES]

    def add(self, mark: bytes) -> None:
        """Note an object that was found sound."""
        self._found.append(mark)
        if len(self._found) >= _MOST_MARKS or monotonic() - self._written > _PAUSE_S:
            self.write()

    def write(self) -> None:
        """Write down what was noted; where that fails, a resumed look reads more than it must."""
        found, self._found, self._written = self._found, [], monotonic()
        if not found or not self._writable:
            return
        try:
            self._kv.set(self._partition, self._ids.unique().encode(), b"".join(found))
            self._kept = True
        except GravelerError as error:  # a lake that can only be read can be looked at, too
            self._writable = False
            _log.warning("this look cannot be resumed, for its state cannot be kept: %s", error)

    def forget(self) -> None:
        """Remove all that is written down."""
        self._found = []
        if self._kept:
            self._kv.drop(self._partition)
            self._kept = False

    def _read(self) -> Iterator[bytes]:
        for _, marks in self._kv.scan(self._partition):
            for at in range(0, len(marks), _MARK_BYTES):
                yield marks[at : at + _MARK_BYTES]
