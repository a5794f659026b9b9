"""Copying files and folders: entries are staged under new paths, and no bytes are copied.

The entries borrow bytes, so a concurrent sweep must see them. The bytes of a commit exist as long
as the commit is not condemned, which is checked once for each chunk. The bytes of entries that are
only staged are looked up in the store, like those of a link.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from graveler.base.background import batches
from graveler.base.globs import compiled, matches
from graveler.base.names import check_path
from graveler.committed.metarange import get
from graveler.errors import InvalidInputError, ObjectNotFoundError
from graveler.model import BranchRecord, Commit
from graveler.objects.address import is_own
from graveler.reads.listing import Spool, first_key, within
from graveler.reads.stores import Stores
from graveler.reads.versions import newest_first, settled
from graveler.reads.view import Ref, View, snapshot
from graveler.repository.writes.borrowed import Row
from graveler.repository.writes.bundles import Bundle, bundling
from graveler.repository.writes.links import look_up
from graveler.repository.writes.staged import StagedWrites
from graveler.staging.area import combine
from graveler.values import TOMBSTONE, decode_entry, stage_value, staged_value

CHUNK = 5_000
"""The number of files that are handled together."""
_BEHIND = b"\xff"
"""A byte that no path has. A key that begins with it is after all paths."""


class Place(NamedTuple):
    """The source and the destination of a copy: two files, or two folders.

    Attributes:
        source: The key of the file, or the start of keys, which ends with a slash or is empty.
        only: The pattern of the files of a folder, or "" for all.
    """

    source: bytes
    to: bytes
    folder: bool
    only: str = ""

    @classmethod
    def of(cls, source: str, to: str, only: str = "") -> "Place":
        """Return the place of two paths."""
        folder = not source or source.endswith("/")
        if folder != (not to or to.endswith("/")):
            raise InvalidInputError(
                f"from {source!r} to {to!r}: give two files, or two folders, which end with '/'"
            )
        if only:
            compiled(only)
            if not folder:
                raise InvalidInputError(f"only={only!r}: a file is copied as it is; give a folder")
        return cls(first_key(source), first_key(to), folder, only)

    def covers(self, key: bytes) -> bool:
        """Return whether the key is at the source, or below it."""
        if not self.folder:
            return key == self.source
        return key.startswith(self.source) and (not self.only or matches(self.only, key.decode()))

    def moved(self, key: bytes) -> bytes:
        """Return the key at the destination."""
        new = self.to + key[len(self.source) :]
        check_path(new.decode())
        return new

    def came_from(self, key: bytes) -> bytes | None:
        """Return the source key of a destination key, or None if there is none."""
        if not key.startswith(self.to):
            return None
        origin = self.source + key[len(self.to) :]
        return origin if self.covers(origin) else None


def copy(
    stores: Stores, writes: StagedWrites, source: View, place: Place, *, replaces: bool = False
) -> int:
    """Stage the files of a view under other paths, all together. Return their number."""
    with bundling(stores, writes) as bundle, Spool() as spool:
        if isinstance(source, Ref):
            reading = Reading(stores, source.commit, ())
        else:
            reading = _snapshot(stores, source.name, place, spool)
        count = 0
        for chunk in batches(reading.rows(place), CHUNK):
            count += len(chunk)
            for row in rows_at(stores, reading.head, relocated(chunk, place)):
                bundle.add(row)
        if not count:
            raise nothing_at(source.name, place)
        if replaces and place.folder:
            delete_others(stores, writes.name, bundle, place.to)
        bundle.land()
        return count


def delete_others(stores: Stores, name: str, bundle: Bundle, prefix: bytes) -> int:
    """Add deletions to a bundle for all other paths of the branch below `prefix`."""
    with Spool() as spool:
        reading = _snapshot(stores, name, Place(prefix, prefix, folder=True), spool)
        count = 0
        kept = bundle.keys()
        key = next(kept, None)
        others = []
        for path, _ in reading.rows(Place(prefix, prefix, folder=True)):
            while key is not None and key < path:
                key = next(kept, None)
            if key != path:
                others.append(path)
                count += 1
            if len(others) >= CHUNK:
                _delete(bundle, others)
                others = []
        _delete(bundle, others)
        return count


def _delete(bundle: Bundle, keys: Sequence[bytes]) -> None:
    for key in keys:
        bundle.add(Row(key, TOMBSTONE))


class Reading:
    """One version of a tree: a commit and staged writes."""

    def __init__(
        self,
        stores: Stores,
        head: Commit,
        tokens: Sequence[str],
        staged: Callable[[bytes], Iterator[tuple[bytes, bytes]]] | None = None,
    ) -> None:
        self._stores = stores
        self.head = head
        self._tokens = tokens
        self._staged = staged or self._scan

    def _scan(self, start: bytes) -> Iterator[tuple[bytes, bytes]]:
        return self._stores.staging.scan(self._tokens, start) if self._tokens else iter(())

    def rows(self, place: Place) -> Iterator[tuple[bytes, tuple[bytes, bool]]]:
        """Yield the source keys of a place, each with its value and whether it is committed."""
        staged = (
            (key, (staged_value(write), False))
            for key, write in within(place.source, self._staged(place.source))
        )
        with snapshot(Ref(self._stores, self.head), place.source, place.source) as scan:
            committed = ((key, (value, True)) for key, value in scan(place.source))
            for key, (value, is_committed) in combine([staged, committed]):
                if not place.folder and not place.covers(key):
                    return  # a file is the first key that starts with its path
                if value is not None and place.covers(key):
                    yield key, (value, is_committed)

    def find(self, key: bytes) -> tuple[bytes, bool] | None:
        """Return the value of a key and whether it is committed, or None."""
        write = self._stores.staging.get(self._tokens, key) if self._tokens else None
        if write is not None:
            value = staged_value(write)
            return None if value is None else (value, False)
        value = get(self._stores.ranges, self.head.metarange, key)
        return None if value is None else (value, True)


def _snapshot(stores: Stores, name: str, place: Place, spool: Spool) -> Reading:
    def read(record: BranchRecord) -> Commit:
        staged = stores.staging.scan(newest_first(record), place.source)
        spool.fill(within(place.source, staged))
        return stores.refs.commits.get(record.commit_id)

    return Reading(stores, settled(stores, name, read), (), spool.rows)


def relocated(
    chunk: Sequence[tuple[bytes, tuple[bytes, bool]]], place: Place
) -> list[tuple[bytes, bytes, bool]]:
    """Return (destination key, value record, whether it is committed) for each row."""
    return [(place.moved(key), value, committed) for key, (value, committed) in chunk]


def rows_at(
    stores: Stores, head: Commit, chunk: Sequence[tuple[bytes, bytes, bool]]
) -> Iterator[Row]:
    """Yield the rows of values at new keys, after a check that their bytes exist."""
    epoch = stores.refs.epochs.read().number
    stores.refs.expired.check_nameable(head.id)
    addresses = [decode_entry(key, value).address for key, value, _ in chunk]
    staged = {
        address
        for address, (_, _, committed) in zip(addresses, chunk, strict=True)
        if is_own(address) and not committed
    }
    lost = staged - look_up(stores.objects, staged).keys()
    for address, (key, value, _) in zip(addresses, chunk, strict=True):
        if address in lost:
            raise ObjectNotFoundError(
                f"{key.decode()!r} was only staged, and its bytes at {address!r} are gone: put them "
                "again"
            )
        if is_own(address):
            yield Row(key, stage_value(key, value, epoch=epoch), address, epoch)
        else:
            yield Row(key, stage_value(key, value))


def nothing_at(name: str, place: Place) -> ObjectNotFoundError:
    """Return the error for a view without files at the source of a place."""
    path = place.only or place.source.decode()
    hint = "" if place.folder else f"; give {path + '/'!r} for what is below it"
    return ObjectNotFoundError(f"nothing at {path!r} in {name!r}{hint}")
