"""The catalogue of a lake: its repositories, in the partition ``lake`` of the key-value store."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta

from graveler.base.clock import Clock, IdSource
from graveler.base.names import check_repository
from graveler.base.records import (
    FORMAT,
    NAME,
    PLACE,
    Name,
    Schema,
    decode_json,
    encode_json,
    read_fields,
    read_key,
)
from graveler.committed.splitting import SPLITTING, Splitting
from graveler.errors import RepositoryNotFoundError
from graveler.kv.record_store import RecordStore
from graveler.kv.store import KVStore
from graveler.objects.address import storage_id

_PARTITION = "lake"
_PREFIX = b"repository/"
_MAKING = b"making/"
_TRASH = b"trash/"
_IDENTITY = b"id"
_FRESH = timedelta(minutes=10)


PARTITIONS = (
    *("refs", "moves", "runs", "witness", "gc", "fsck", "lakefs", "ingest", "verdicts", "stats"),
)
"""The kinds of partitions of a repository, besides those of staging."""


@dataclass(frozen=True, slots=True)
class RepositoryRecord:
    """The record of a repository; key ``repository/<name>``.

    Attributes:
        lake: Id of the lake.
        uid: Unique to this creation of the repository.
        storage: Root URI of its objects. "" stands for its folder below the lake's storage; the
            lake can then be moved, and a copy of it has its own objects.
        default_branch: Its first branch.
        splitting: The policy that decides where its ranges end.
        storage_id: The id of its storage.
        nonce: Differs with each change of the record, and for each caller that made it.
    """

    lake: Name
    uid: Name
    storage: str
    default_branch: Name
    splitting: Splitting
    storage_id: str = ""
    nonce: str = ""

    def encode(self) -> bytes:
        """Return the bytes of the record."""
        return _REPOSITORY.encode(self)

    @staticmethod
    def decode(raw: bytes, what: str) -> "RepositoryRecord":
        """Return the record that these bytes hold.

        Raises:
            CorruptionError: The bytes are not such a record.
            OlderFormatError: An older graveler wrote it.
        """
        record = _REPOSITORY.decode(raw, what)
        return replace(record, storage_id=record.storage_id or storage_id(record.uid, old=True))


_REPOSITORY = Schema(
    RepositoryRecord,
    types={"storage": PLACE, "splitting": SPLITTING},
    added=("storage_id",),
    sparse=("nonce",),
    stamped=True,
)


class Catalogue:
    """The repositories of one lake, by name, and the id of the lake."""

    def __init__(self, kv: KVStore, *, clock: Clock, ids: IdSource) -> None:
        self._kv = kv
        self._clock = clock
        self._ids = ids

    def names(self) -> Iterator[str]:
        """Yield the names, sorted; the records are not decoded."""
        for key, _ in self._kv.scan(_PARTITION, _PREFIX):
            if not key.startswith(_PREFIX):
                return
            yield read_key(key[len(_PREFIX) :], "repository")

    def has(self, name: str) -> bool:
        """Return whether a repository of this name exists; its record is not decoded."""
        key = _PREFIX + check_repository(name).encode()
        return self._kv.get(_PARTITION, key) is not None

    def find(self, name: str) -> RepositoryRecord | None:
        """Return the record of a repository, or None."""
        return self._records(check_repository(name)).get(name)

    def list(self) -> Iterator[tuple[str, RepositoryRecord]]:
        """Yield the repositories with their records, by name."""
        return self._named(_PREFIX)

    def making(self) -> Iterator[tuple[str, RepositoryRecord]]:
        """Yield the repositories that are being made, or whose makers died, with their names."""
        return self._named(_MAKING)

    def reserve(self, name: str, record: RepositoryRecord) -> RepositoryRecord:
        """Announce a repository before its storage is claimed; return the announced record.

        If another process announced the same name with the same storage, its record is returned,
        so that either process can finish the repository. Another storage replaces the announcement.
        """
        return self._records(name, _MAKING).update(
            name,
            lambda found: found if found and found.storage == record.storage else record,
            what=f"repository {name!r} in the making",
            clock=self._clock,
            ids=self._ids,
        )

    def release(self, name: str, uid: str) -> None:
        """Withdraw the announcement of a repository with this id."""
        records = self._records(name, _MAKING)
        found = records.find(name)
        if found is not None and found[0].uid == uid:
            records.remove(name, found[1])

    def discard(
        self, name: str, chosen: Callable[[RepositoryRecord], bool]
    ) -> Sequence[RepositoryRecord]:
        """Move a repository into the trash, also an unfinished one; return what was moved."""
        moved = []
        for prefix in (_PREFIX, _MAKING):
            records = self._records(name, prefix)
            found = records.find(name)
            if found is not None and chosen(found[0]):
                self._records(name, _TRASH).write(f"{name}/{found[0].uid}", found[0])
                records.remove(name, found[1])
                moved.append(found[0])
        return moved

    def deleted(self) -> Iterator[tuple[str, RepositoryRecord]]:
        """Yield the deleted repositories with their names, by name and creation."""
        return self._named(_TRASH)

    def trash(self, name: str) -> Sequence[RepositoryRecord]:
        """Return the deleted repositories of a name, the latest creation last."""
        return [record for deleted, record in self.deleted() if deleted == name]

    def forget(self, name: str, record: RepositoryRecord) -> None:
        """Remove a repository from the trash."""
        self._kv.delete(_PARTITION, _TRASH + f"{name}/{record.uid}".encode())

    def add(self, name: str, record: RepositoryRecord) -> bool:
        """Add a repository; return False if another one has the name."""
        records = self._records(name)
        if records.write(name, record):
            return True
        stored = records.update(
            name,
            lambda existing: existing or record,
            what=f"repository {name!r}",
            clock=self._clock,
            ids=self._ids,
        )
        return stored == record

    def change_splitting(
        self, name: str, uid: str, change: Callable[[Splitting], Splitting]
    ) -> Splitting:
        """Replace the policy of a repository with ``change(policy)``, and return it."""

        def changed(record: RepositoryRecord | None) -> RepositoryRecord:
            if record is None or record.uid != uid:
                raise RepositoryNotFoundError(f"repository {name!r} is gone")
            splitting = change(record.splitting)
            if splitting == record.splitting:
                return record
            return replace(record, splitting=splitting, nonce=self._ids.unique())

        stored = self._records(name).update(
            name, changed, what=f"repository {name!r}", clock=self._clock, ids=self._ids
        )
        return stored.splitting

    def identity(self) -> str:
        """Return the id of the lake; the first call generates it."""
        records: RecordStore[str] = RecordStore(
            self._kv, _PARTITION, encode=_encode_identity, decode=_decode_identity
        )
        return records.update(
            _IDENTITY,
            lambda existing: existing or self._ids.unique(),
            what="id of the lake",
            clock=self._clock,
            ids=self._ids,
        )

    def _named(self, prefix: bytes) -> Iterator[tuple[str, RepositoryRecord]]:
        for key, record in self._records("", prefix).scan():
            yield read_key(key, "repository").partition("/")[0], record

    def _records(self, name: str, prefix: bytes = _PREFIX) -> RecordStore[RepositoryRecord]:
        return RecordStore(
            self._kv,
            _PARTITION,
            prefix=prefix,
            encode=RepositoryRecord.encode,
            decode=lambda raw: RepositoryRecord.decode(raw, f"repository {name}"),
        )


def _encode_identity(identity: str) -> bytes:
    return encode_json({"format": FORMAT, "id": identity})


def _decode_identity(raw: bytes) -> str:
    what = "id of the lake"
    (identity,) = read_fields(decode_json(raw, what, stamped=True), what, id=NAME)
    return str(identity)


class KeptSplitting:
    """The splitting policy of one repository, cached from its record.

    The record is read when the repository is opened, and then at most every ten minutes, so that a
    commit needs no statement for it. A process that still uses the former policy does no harm,
    because a policy decides only where ranges end.
    """

    def __init__(
        self, catalogue: Catalogue, name: str, record: RepositoryRecord, clock: Clock
    ) -> None:
        self._catalogue = catalogue
        self._name = name
        self._uid = record.uid
        self._clock = clock
        self._known = (record.splitting, clock.now())

    def current(self) -> Splitting:
        """Return the policy; another process may have changed it less than ten minutes ago."""
        splitting, since = self._known
        now = self._clock.now()
        if not timedelta() <= now - since < _FRESH:
            record = self._catalogue.find(self._name)
            if record is not None and record.uid == self._uid:
                splitting = record.splitting
            self._known = (splitting, now)
        return splitting

    def change(self, change: Callable[[Splitting], Splitting]) -> Splitting:
        """Replace the policy with ``change(policy)``, and return it; `change` may run again."""
        splitting = self._catalogue.change_splitting(self._name, self._uid, change)
        self._known = (splitting, self._clock.now())
        return splitting
