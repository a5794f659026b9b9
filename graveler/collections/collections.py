"""Collections: named manifests, which say for how long blocks are needed.

Partition ``collections:<system>``: key ``record/<uuid>`` has a collection, ``version/<uuid>/<number>`` each
earlier version, ``text/<uuid>/<data hash>/<piece>`` a manifest, and ``name/<owner>/<name>`` the
UUID of the collection that has the name. The name in the record counts: a key whose collection has
another name is free.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from itertools import islice

from graveler.base import arguments as args
from graveler.base.clock import Clock, IdSource
from graveler.base.names import check_pairs
from graveler.base.records import Schema
from graveler.errors import AlreadyExistsError, InvalidInputError, NotFoundError
from graveler.keep.locators import BLOCK_BYTES
from graveler.keep.manifests import Manifest, portable_data_hash
from graveler.kv.record_store import RecordStore
from graveler.kv.store import KVStore

_PIECE = 192 << 10
_MOST_NAME = 255
MOST_COPIES = 16
_WHAT = "collection"
_UUID = re.compile(r"[a-z0-9]{5}-4zz18-[a-z0-9]{15}")


@dataclass(frozen=True, slots=True)
class Collection:
    """A collection, as it was read.

    Attributes:
        owner: The project that it belongs to: a user or a group. "" for none.
        name: Its one name, unique within the project; "" for none.
        data_hash: The portable data hash of its manifest.
        pieces: The number of pieces of the manifest's text.
        replicas: The wanted copies of its blocks; 0 for those of the system.
        ephemeral_since: When it became ephemeral; None for a persisted collection.
        deleted_at: When it was deleted, or None.
        confirmed: The copies that every block of it had when the data manager looked last; None if it has
            not looked since the last change.
        version: 1 for the first one.
    """

    uuid: str
    owner: str
    name: str
    data_hash: str
    pieces: int
    created: datetime
    modified: datetime
    ephemeral_since: datetime | None = None
    deleted_at: datetime | None = None
    replicas: int = 0
    classes: tuple[str, ...] = ()
    properties: Mapping[str, str] = field(default_factory=dict)
    confirmed: int | None = None
    version: int = 1
    nonce: str = ""

    @property
    def is_persisted(self) -> bool:
        """Whether it is kept until it is made ephemeral or deleted."""
        return self.ephemeral_since is None

    def ends(self, ttl: timedelta) -> datetime | None:
        """Return when it can no longer be read: when it was deleted, or its time is over."""
        if self.deleted_at is not None:
            return self.deleted_at
        return None if self.ephemeral_since is None else self.ephemeral_since + ttl

    def blocks_end(self, ttl: timedelta) -> datetime | None:
        """Return when every signature of a block that comes from it has ended.

        A signature ends with an ephemeral collection, and at the latest `ttl` after it was given.
        """
        return self.ends(ttl) if self.deleted_at is None else self.deleted_at + ttl


_COLLECTION = Schema(
    Collection,
    _WHAT,
    sparse=("deleted_at", "replicas", "classes", "properties", "confirmed", "ephemeral_since"),
    states_format=True,
)


class Collections:
    """The collections of one system.

    Args:
        ttl: The time to live of the system.
    """

    def __init__(
        self, kv: KVStore, system: str, ttl: timedelta, *, clock: Clock, ids: IdSource
    ) -> None:
        self._kv = kv
        self._partition = f"collections:{system}"
        self.ttl = ttl
        self.clock = clock
        self._ids = ids
        self._records = self._store(b"record/")
        self._versions = self._store(b"version/")
        self._names: RecordStore[str] = RecordStore(
            kv, self._partition, encode=str.encode, decode=bytes.decode
        )

    def create(
        self,
        manifest: str,
        *,
        owner: str = "",
        name: str = "",
        persisted: bool = False,
        replicas: int = 0,
        classes: tuple[str, ...] = (),
        properties: Mapping[str, str] | None = None,
    ) -> Collection:
        """Make a collection. The caller has touched its blocks.

        Raises:
            AlreadyExistsError: Another collection of the project has the name.
            InvalidInputError: The text is no manifest, or an argument is out of bounds.
        """
        text, now = _checked(manifest), self.clock.now()
        args.text(owner, "owner", empty=True)
        made = Collection(
            f"grave-4zz18-{self._ids.unique()[-15:]}",
            owner,
            _name(name),
            portable_data_hash(text),
            _pieces(text),
            now,
            now,
            ephemeral_since=now,
            replicas=_replicas(replicas),
            classes=args.texts(classes, "classes"),
            properties=_properties(properties),
            nonce=self._ids.unique(),
        )
        empty = replace(made, name="", data_hash=portable_data_hash(""), pieces=0)
        deleted = replace(empty, deleted_at=now, nonce=self._ids.unique())
        self._records.write(made.uuid, deleted)  # by it, a sweep finds a text whose writer died
        self._put_text(made, text)
        made = replace(made, name="")

        def begun(found: Collection | None) -> Collection:
            if found is None:  # a sweep has removed it, and perhaps the text
                raise _no_collection(made.uuid)
            return made

        self._records.update(made.uuid, begun, what=_WHAT, clock=self.clock, ids=self._ids)
        try:
            made = self._named(made, name) if name else made
            return self.persist(made.uuid) if args.flag(persisted, "persisted") else made
        except (AlreadyExistsError, InvalidInputError):
            self.delete(made.uuid)
            raise

    def get(self, uuid: str) -> Collection:
        """Return a collection that can be read, or raise NotFoundError."""
        found = self._records.get(uuid)
        if found is None or self._has_ended(found):
            raise _no_collection(uuid)
        return found

    def find(self, owner: str, name: str) -> Collection | None:
        """Return the collection of a name, or None."""
        stored = self._kv.get(self._partition, _name_key(owner, name))
        found = None if stored is None else self._records.get(stored.value.decode())
        if found is None or self._has_ended(found) or (found.owner, found.name) != (owner, name):
            return None
        return found

    def page(self, *, owner: str = "", after: str = "", limit: int = 1_000) -> list[Collection]:
        """Return collections that can be read, sorted by UUID; of one project if it is given."""
        return list(islice(self._listed(owner, after), limit))

    def _listed(self, owner: str, after: str) -> Iterator[Collection]:
        for uuid, found in self._records.scan():
            wanted = uuid.decode() > after and found.owner == (owner or found.owner)
            if wanted and not self._has_ended(found):
                yield found

    def manifest(self, collection: Collection) -> str:
        """Return the text of the manifest of a version, without hints."""
        keys = (_text_key(collection, piece) for piece in range(collection.pieces))
        stored = [self._kv.get(self._partition, key) for key in keys]
        pieces = [one.value for one in stored if one is not None]
        text = b"".join(pieces).decode("utf-8", "surrogateescape")
        if len(pieces) < collection.pieces or portable_data_hash(text) != collection.data_hash:
            raise NotFoundError(f"version {collection.version} of {collection.uuid} is gone")
        return text

    def change(
        self,
        uuid: str,
        *,
        manifest: str | None = None,
        replicas: int | None = None,
        properties: Mapping[str, str] | None = None,
    ) -> Collection:
        """Change a collection, whose present state becomes an earlier version, and return it."""
        text = None if manifest is None else _checked(manifest)

        def changed(now: Collection) -> Collection:
            new = replace(now, version=now.version + 1, modified=self.clock.now())
            if text is not None:
                new = replace(
                    new, data_hash=portable_data_hash(text), pieces=_pieces(text), confirmed=None
                )
                self._put_text(new, text)
            if replicas is not None:
                new = replace(new, replicas=_replicas(replicas), confirmed=None)
            if properties is not None:
                new = replace(new, properties=_properties(properties))
            self._versions.write(_version_key(now), now)
            return new

        return self._update(uuid, changed)

    def versions(self, uuid: str) -> list[Collection]:
        """Return the earlier versions of a collection that can be read, the oldest first."""
        newest = self.get(uuid).version
        rows = self._kv.scan_below(self._partition, b"version/" + uuid.encode() + b"/")
        found = (_COLLECTION.decode(raw) for _, raw in rows)
        return [each for each in found if each.version < newest]

    def persist(self, uuid: str) -> Collection:
        """Keep a collection until it is made ephemeral or deleted."""
        before = self.get(uuid)
        now = self.clock.now()
        kept = self._update(uuid, lambda found: replace(found, ephemeral_since=None, modified=now))
        if self._has_ended(before):  # a sweep may have read it before it was kept
            raise _no_collection(uuid)
        return kept

    def demote(self, uuid: str) -> Collection:
        """Let a collection end one time to live from now; an ephemeral one ends when it would have."""

        def ephemeral(now: Collection) -> Collection:
            return now if not now.is_persisted else replace(now, ephemeral_since=self.clock.now())

        return self._update(uuid, ephemeral)

    def delete(self, uuid: str) -> Collection:
        """Delete a collection: it cannot be read. Its blocks stay for the life of a signature."""
        return self._update(uuid, lambda now: replace(now, deleted_at=self.clock.now(), name=""))

    def rename(self, uuid: str, name: str) -> Collection:
        """Give a collection another name, or none with "", and return it."""
        if _name(name):
            return self._named(self.get(uuid), name)
        return self._update(uuid, lambda now: replace(now, name=""))

    def confirm(self, seen: Collection, copies: int) -> None:
        """Note the copies that all blocks of a version have, unless it was changed meanwhile."""

        def confirmed(now: Collection) -> Collection:
            return replace(now, confirmed=copies) if now.version == seen.version else now

        self._update(seen.uuid, confirmed)

    def needed(self) -> Iterator[Collection]:
        """Yield the collections and earlier versions whose blocks must be kept, also deleted ones."""
        now = self.clock.now()
        for _, head in self._records.scan():
            end = head.blocks_end(self.ttl)
            if end is None or end > now:
                yield head
                rows = self._kv.scan_below(self._partition, b"version/" + head.uuid.encode() + b"/")
                yield from (_COLLECTION.decode(raw) for _, raw in rows)

    def remove_ended(self) -> int:
        """Remove the records whose blocks need not be kept, and return the number of collections."""
        now, count = self.clock.now(), 0
        for uuid, found in list(self._records.scan()):
            end = found.blocks_end(self.ttl)
            version = self._records.find(uuid)
            if end is None or end > now or version is None or version.record != found:
                continue
            count += self._records.remove(uuid, version.predicate)
        self._remove_left()
        return count

    def _remove_left(self) -> None:
        """Remove what collections without a record have; their records are written first, and go first."""
        rows = [
            (key, key.split(b"/")[1])
            for kind in (b"text/", b"version/")
            for key, _ in self._kv.scan_below(self._partition, kind)
        ]
        names = list(self._kv.scan_below(self._partition, b"name/"))
        known = {uuid for uuid, _ in self._records.scan()}
        keys = [key for key, uuid in rows if uuid not in known]
        self._kv.delete_many(self._partition, keys)
        for key, uuid in names:
            if uuid not in known:
                self._release(key, uuid.decode())

    def _has_ended(self, collection: Collection) -> bool:
        end = collection.ends(self.ttl)
        return end is not None and end <= self.clock.now()

    def _update(self, uuid: str, change: Callable[[Collection], Collection]) -> Collection:
        """Change the record of a collection that can be read. A name that it loses is free."""
        before: list[Collection] = []

        def changed(found: Collection | None) -> Collection:
            if found is None or self._has_ended(found):
                raise _no_collection(uuid)
            before[:] = [found]
            new = change(found)
            return found if new == found else replace(new, nonce=self._ids.unique())

        new = self._records.update(uuid, changed, what=_WHAT, clock=self.clock, ids=self._ids)
        old = before[0]
        if old.name and (old.owner, old.name) != (new.owner, new.name):
            self._release(_name_key(old.owner, old.name), uuid)
        return new

    def _named(self, collection: Collection, name: str) -> Collection:
        """Take a name for a collection, and return it.

        A caller that takes the key then reads the record of the collection that had it, and a caller that
        writes the record then reads the key. So of two callers at most one gets the name.
        """
        owner, uuid, key = collection.owner, collection.uuid, _name_key(collection.owner, name)
        holders: list[str | None] = []

        def taken(holder: str | None) -> str:
            holders[:] = [holder]
            self._refuse_holder(holder, uuid, owner, name)
            return uuid

        self._names.update(key, taken, what=f"name {name!r}", clock=self.clock, ids=self._ids)
        try:
            self._refuse_holder(holders[0], uuid, owner, name)
        except AlreadyExistsError:
            self._names.update(
                key,
                lambda now: holders[0] if now == uuid and holders[0] else str(now),
                what=f"name {name!r}",
                clock=self.clock,
                ids=self._ids,
            )
            raise
        new = self._update(uuid, lambda now: replace(now, name=name))
        if self._names.get(key) != uuid:
            self._update(uuid, lambda now: replace(now, name="") if now.name == name else now)
            raise AlreadyExistsError(f"another collection took the name {name!r} at the same time")
        return new

    def _refuse_holder(self, holder: str | None, uuid: str, owner: str, name: str) -> None:
        other = None if holder in {None, uuid} else self._records.get(str(holder))
        if other is None or self._has_ended(other) or (other.owner, other.name) != (owner, name):
            return
        raise AlreadyExistsError(
            f"the collection {other.uuid} of {owner or 'no project'} has the name {name!r}: choose "
            "another one, or rename that one"
        )

    def _release(self, key: bytes, uuid: str) -> None:
        found = self._names.find(key)
        if found is not None and found.record == uuid:
            self._names.remove(key, found.predicate)

    def _put_text(self, collection: Collection, text: str) -> None:
        raw = text.encode("utf-8", "surrogateescape")
        self._kv.set_many(
            self._partition,
            [
                (_text_key(collection, piece), raw[piece * _PIECE : (piece + 1) * _PIECE])
                for piece in range(collection.pieces)
            ],
        )

    def _store(self, prefix: bytes) -> RecordStore[Collection]:
        return RecordStore(
            self._kv,
            self._partition,
            prefix=prefix,
            encode=_COLLECTION.encode,
            decode=_COLLECTION.decode,
        )


def _no_collection(uuid: str) -> NotFoundError:
    return NotFoundError(
        f"there is no collection {uuid}: it was deleted, or its time as an ephemeral one is over"
    )


def _checked(manifest: str) -> str:
    parsed = Manifest.parse(manifest)
    parsed.files()
    for block in parsed.blocks():
        if not 0 <= (block.size or 0) <= BLOCK_BYTES:
            raise InvalidInputError(f"{block.bare}: a block has at most {BLOCK_BYTES} bytes")
    return str(parsed.stripped())


def _replicas(replicas: int) -> int:
    if not 0 <= args.count(replicas, "replicas") <= MOST_COPIES:
        raise InvalidInputError(f"replicas {replicas}: give 0 to {MOST_COPIES} copies")
    return replicas


def _pieces(text: str) -> int:
    return -(-len(text.encode("utf-8", "surrogateescape")) // _PIECE)


def _name(name: str) -> str:
    args.text(name, "name", empty=True)
    if len(name.encode()) > _MOST_NAME or "\0" in name or "/" in name or name in {".", ".."}:
        raise InvalidInputError(
            f"name {name[:80]!r}: give at most {_MOST_NAME} bytes without / and NUL, and not '.' or '..'"
        )
    if _UUID.fullmatch(name):
        raise InvalidInputError(
            f"name {name!r}: it is the UUID of another collection, give another"
        )
    return name


def _properties(properties: Mapping[str, str] | None) -> dict[str, str]:
    pairs = dict(properties or {})
    check_pairs(_WHAT, pairs)
    return pairs


def _name_key(owner: str, name: str) -> bytes:
    return f"name/{owner}/{name}".encode()


def _version_key(collection: Collection) -> str:
    return f"{collection.uuid}/{collection.version:08}"


def _text_key(collection: Collection, piece: int) -> bytes:
    return f"text/{collection.uuid}/{collection.data_hash}/{piece:06}".encode()
