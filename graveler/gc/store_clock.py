"""The one clock that collection goes by: the object store's own."""

from datetime import datetime
from typing import Final

from graveler.identity import unix_us
from graveler.objects.store import ObjectStore

__all__ = ["FOLDER", "microseconds", "store_now"]

FOLDER: Final = "_graveler/gc"
"""Where collection keeps files of its own, below the unique id of its repository."""


def store_now(objects: ObjectStore, uid: str) -> int:
    """Return the time by the store's clock, in microseconds: that of an object just written.

    The ages of objects are told by it, and the undelete window too; the clock of this machine
    is never compared with it.
    """
    key = f"{FOLDER}/{uid}/clock"
    objects.put(key, b"what time is it?")
    return microseconds(objects.head(key).mtime)


def microseconds(when: datetime) -> int:
    """Return a time as microseconds since 1970."""
    return unix_us(when)
