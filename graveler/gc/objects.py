"""Are the objects there that the entries name, and are they what the entries say?"""

import hashlib
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import Final, Literal

from graveler.errors import (
    InvalidInputError,
    MissingDependencyError,
    NotFoundError,
    PermissionDeniedError,
)
from graveler.model import Entry
from graveler.repository import Stores

__all__ = ["Depth", "ObjectCheck"]

Depth = Literal["none", "exist", "checksum"]
"""How far to look: not at objects, at their presence and size, at their bytes."""

_PIECE_BYTES: Final = 1 << 20
_THREADS: Final = 8

_Key = tuple[str, int, str]


class ObjectCheck:
    """Looks at each object once, several at a time: a store's answer takes its time.

    Attributes:
        depth: How far it looks.
        looked_at: Objects so far.
        hashed: Bytes read to compare checksums.
    """

    def __init__(self, stores: Stores, depth: Depth) -> None:
        self.depth = depth
        self.looked_at = 0
        self.hashed = 0
        self._stores = stores
        self._sound: set[_Key] = set()
        self._faults: dict[_Key, str] = {}

    def faults(self, entries: Iterable[Entry]) -> list[tuple[Entry, str]]:
        """Return the entries whose object is not as it must be, and what is wrong with it."""
        if self.depth == "none":
            return []
        by_key = [(_key(entry), entry) for entry in entries]
        new = {key: entry for key, entry in by_key if key not in self._sound}
        fresh = [key for key in new if key not in self._faults]
        with ThreadPoolExecutor(_THREADS) as pool:
            answers = list(pool.map(lambda key: self._look(new[key]), fresh))
        for key, (fault, read) in zip(fresh, answers, strict=True):
            self.looked_at += 1
            self.hashed += read
            if fault:
                self._faults[key] = fault
            else:
                self._sound.add(key)
        return [(entry, self._faults[key]) for key, entry in by_key if key in self._faults]

    def _look(self, entry: Entry) -> tuple[str, int]:
        """Return what is wrong with the entry's object, "" if nothing, and the bytes read."""
        try:
            store, key = self._stores.locate(entry.address)
            size = store.head(key).size
            if size != entry.size:
                return f"has {size} bytes, its entry says {entry.size}", 0
            algorithm, _, expected = entry.checksum.partition(":")
            if self.depth != "checksum" or algorithm not in hashlib.algorithms_guaranteed:
                return "", 0
            digest = hashlib.new(algorithm, usedforsecurity=False)
            with store.open(key) as stream:
                while piece := stream.read(_PIECE_BYTES):
                    digest.update(piece)
        except NotFoundError:
            return "is missing", 0
        except (InvalidInputError, MissingDependencyError, PermissionDeniedError) as error:
            return f"cannot be looked at: {error}", 0
        found = digest.hexdigest()
        fault = "" if found == expected else f"has {algorithm}:{found}, its entry says {expected}"
        return fault, size


def _key(entry: Entry) -> _Key:
    return entry.address, entry.size, entry.checksum
