"""The count of the marker in the key-value store, and its comparison with the marker."""

from dataclasses import dataclass, replace
from datetime import UTC, datetime

from graveler.base.records import Name, Schema
from graveler.errors import (
    BackendUnavailableError,
    GravelerError,
    KVOutdatedError,
    StorageMismatchError,
)
from graveler.objects.store import ObjectStore
from graveler.repository.witness.marker import MARKER, Marker, Owner

_MOST_ISSUED = 500
_NEVER = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Known:
    """The knowledge of the key-value store about the marker.

    Attributes:
        place: Root of the storage of that marker, for error messages.
        at: The time of writing that marker, by the writer's clock, for error messages.
    """

    count: int = 0
    acked: int = 0
    etag: str = ""
    place: str = ""
    at: datetime = _NEVER
    issued: tuple[tuple[int, Name], ...] = ()

    def knows(self, marker: Marker) -> bool:
        """Return whether this key-value store issued the marker's count."""
        nonce = dict(self.issued).get(marker.count, marker.nonce)
        return marker.count <= self.count and nonce == marker.nonce

    def with_next(self, nonce: str, beyond: int = 0) -> "Known":
        """Return a copy with one more issued count, which is above `beyond`."""
        count = max(self.count, beyond) + 1
        issued = (*self.issued, (count, nonce))
        return replace(self, count=count, issued=issued[-_MOST_ISSUED:])

    def without(self, marker: Marker) -> "Known":
        """Return a copy without the marker's count, unless a later count was issued."""
        if self.issued[-1:] != ((marker.count, marker.nonce),):
            return self
        return replace(self, count=self.count - 1, issued=self.issued[:-1])

    def with_written(self, marker: Marker, etag: str, place: str) -> "Known":
        """Return a copy for which the marker is known to be in the storage."""
        if marker.count < self.acked:
            return self
        issued = tuple(pair for pair in self.issued if pair[0] >= marker.count)
        return replace(
            self, acked=marker.count, etag=etag, place=place, at=marker.at, issued=issued
        )


KNOWN = Schema(Known)


def mismatch(
    owner: Owner, objects: ObjectStore, known: Known, marker: Marker | None
) -> GravelerError | None:
    """Return the error if the marker does not match the key-value store, or None."""
    if marker is None:  # the first move writes the first marker
        return _missing(owner, objects, known) if known.acked else None
    if not marker.is_of(owner):
        return wrong_storage(owner, objects, known, marker)
    if marker.count < known.acked:
        return _older(owner, objects, known, marker)
    return None if known.knows(marker) else _outdated(owner, objects, known, marker)


def _missing(owner: Owner, objects: ObjectStore, known: Known) -> GravelerError:
    if known.place not in {"", objects.root}:
        return wrong_storage(owner, objects, known, None)
    return BackendUnavailableError(
        f"the storage of repository {owner.name!r} is not there: {objects.uri(MARKER)} was, "
        "and is gone. Is its volume mounted on this machine? "
        "If its files are lost, restore them from a backup"
    )


def wrong_storage(
    owner: Owner, objects: ObjectStore, known: Known, marker: Marker | None
) -> StorageMismatchError:
    """Return the error for a storage that does not, or no longer, belong to the repository."""
    root = objects.root
    if marker is not None and known.place == root:
        return StorageMismatchError(
            f"{root} is no longer the storage of repository {owner.name!r} (lake {owner.lake}): "
            f"it was taken over by {marker}. That repository deletes what it does not name: work "
            "with that one, or restore this one's files to another storage"
        )
    state = "has no marker" if marker is None else f"belongs to {marker}"
    return StorageMismatchError(
        f"{root} is not the storage of repository {owner.name!r} (lake {owner.lake}): that is "
        f"{known.place}, and {root} {state}. Correct [storage] in the settings of {owner.where}; "
        f"if the storage was moved, move all of it, {MARKER} too"
    )


def _older(
    owner: Owner, objects: ObjectStore, known: Known, marker: Marker
) -> StorageMismatchError:
    return StorageMismatchError(
        f"{objects.root} is an older copy of the storage of repository {owner.name!r} "
        f"(lake {owner.lake}): its count is {marker.count}, last at "
        f"{marker.at:%Y-%m-%d %H:%M:%S} UTC, and the count of the key-value store is "
        f"{known.acked} in {known.place}. Name that storage, or restore a newer backup of this one"
    )


def _outdated(owner: Owner, objects: ObjectStore, known: Known, marker: Marker) -> KVOutdatedError:
    return KVOutdatedError(
        f"the key-value store of repository {owner.name!r} (lake {owner.lake}) lacks what it "
        "held before: it was restored from an old backup, or it is one of two copies: "
        f"its count is {known.count} (last at {known.at:%Y-%m-%d %H:%M:%S} UTC), and that of "
        f"the marker {objects.uri(MARKER)} is {marker.count} (last at "
        f"{marker.at:%Y-%m-%d %H:%M:%S} UTC), written by the lake opened as {marker.owner.where}. "
        "Restore a newer backup; or, if no other copy is in use, accept the present state with "
        f"`graveler repo accept {owner.name}`. Until then it can be read, and nothing is written"
    )
