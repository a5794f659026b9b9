"""The marker: the one object of a storage that names its owner and the owner's count."""

from dataclasses import dataclass, replace
from datetime import datetime

from graveler.base.records import Name, Schema, decode_json
from graveler.errors import ObjectNotFoundError
from graveler.objects.address import storage_id
from graveler.objects.store import ObjectStore

MARKER = "_graveler/marker"
"""The key of the marker in the storage of every repository."""


@dataclass(frozen=True, slots=True)
class Owner:
    """The repository to which a storage belongs."""

    lake: Name
    uid: Name
    name: Name
    where: str
    storage_id: str = ""


@dataclass(frozen=True, slots=True)
class Marker:
    """The contents of the marker.

    Attributes:
        nonce: A value that differs with every count that a key-value store issues.
    """

    owner: Owner
    count: int
    nonce: Name
    at: datetime

    def __str__(self) -> str:
        owner = self.owner
        return (
            f"lake {owner.lake}, repository {owner.name!r} ({owner.uid}), opened as "
            f"{owner.where}, last at {self.at:%Y-%m-%d %H:%M:%S} UTC"
        )

    def is_of(self, owner: Owner) -> bool:
        """Return whether the storage belongs to `owner`, under any name and address."""
        return (self.owner.lake, self.owner.uid) == (owner.lake, owner.uid)


_OWNER = Schema(Owner, added=("storage_id",))
_MARKER = Schema(Marker, apart=("owner",), stamped=True)


def encode_marker(marker: Marker) -> bytes:
    """Return the bytes of the object."""
    return _MARKER.encode(marker, **_OWNER.plain(marker.owner))


def decode_marker(raw: bytes, what: str) -> Marker:
    """Return the marker of these bytes. `what` names it in errors."""
    value = decode_json(raw, what, stamped=True)
    owner = _OWNER.read(value, what)
    if not owner.storage_id:
        owner = replace(owner, storage_id=storage_id(owner.uid, old=True))
    return _MARKER.read(value, what, owner=owner)


def read_marker(objects: ObjectStore) -> Marker | None:
    """Return the marker of a storage, or None if the storage has no owner."""
    try:
        raw = objects.get(MARKER)
    except ObjectNotFoundError:
        return None
    return decode_marker(raw, f"marker {objects.uri(MARKER)}")
