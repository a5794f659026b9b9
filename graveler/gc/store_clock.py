"""The clock of garbage collection: the object store's own."""

from typing import Final

from graveler.identity import unix_us
from graveler.objects.store import ObjectStore

FOLDER: Final = "_graveler/gc"
"""Folder of the files of garbage collection, by the unique id of the repository."""


def store_now(objects: ObjectStore, uid: str) -> int:
    """Return the time by the store's clock, in microseconds: that of an object just written.

    It dates objects and measures the undelete window; it is never compared with the clock of
    this machine.
    """
    key = f"{FOLDER}/{uid}/clock"
    objects.put(key, b"what time is it?")
    return unix_us(objects.head(key).mtime)
