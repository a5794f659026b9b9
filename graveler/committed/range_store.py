"""Ranges and metaranges by id: published once, opened checked.

One object per table, ``<prefix>/<id in hex>``, ranges and metaranges side by side.
"""

from collections.abc import Callable
from dataclasses import dataclass
from threading import Lock

from graveler.committed.range_cache import MetarangeMemory, RangeCache
from graveler.committed.table import Table, TableKind, check_table
from graveler.committed.table_file import TableFile
from graveler.errors import CorruptionError, ObjectNotFoundError
from graveler.model import RangeInfo
from graveler.objects.store import ObjectStore
from graveler.sstable.reader import TableReader

Rescue = Callable[[bytes, Callable[[], bool]], bool]
"""Called with the id of a table that is there already and with how to put it if it is absent:
sees to it that garbage collection leaves it; returns whether it had to be put again."""


def _is_kept(_identifier: bytes, _put: Callable[[], bool]) -> bool:
    return False


@dataclass(slots=True)
class StoreStats:
    """What a store was asked to do, and what reached the object store.

    Attributes:
        ranges_read: Ranges opened, from the cache or not.
        ranges_written: Ranges put.
        metaranges_read: Metaranges read, from memory or not.
        metaranges_written: Metaranges put.
        fetched: Tables read from the object store, second tries included.
    """

    ranges_read: int = 0
    ranges_written: int = 0
    metaranges_read: int = 0
    metaranges_written: int = 0
    fetched: int = 0


class RangeStore:
    """The committed tables of one repository; threads may share it.

    Args:
        objects: The repository's storage.
        cache: May be shared by the stores of several repositories: names are content.
        prefix: Folder of the tables in `objects`.
        rescue: Asked about each table that is there already when it is published.
    """

    def __init__(
        self,
        objects: ObjectStore,
        cache: RangeCache,
        *,
        prefix: str = "_graveler",
        rescue: Rescue = _is_kept,
    ) -> None:
        self._rescue = rescue
        self.objects = objects
        self.cache = cache
        self.stats = StoreStats()
        self.metaranges = MetarangeMemory()
        self._prefix = prefix
        self._lock = Lock()

    def key(self, identifier: bytes) -> str:
        """Return the object key of a range or metarange."""
        return f"{self._prefix}/{identifier.hex()}"

    def is_stored(self, identifier: bytes) -> bool:
        """Return whether the object store has the table; the cache is not asked."""
        try:
            self.objects.head(self.key(identifier))
        except ObjectNotFoundError:
            return False
        return True

    def open(self, identifier: bytes, kind: TableKind = TableKind.RANGE) -> Table:
        """Return the table of that id, checked when it comes from the object store.

        Raises:
            CorruptionError: It is damaged, twice in a row, or not there: a table that a
                tree names must be.
        """
        if kind is TableKind.RANGE:
            self.stats.ranges_read += 1
        table = self.cache.get(identifier.hex())
        if table is not None:
            return table
        try:
            try:
                return self._fetch(identifier, kind)
            except CorruptionError:
                # damaged on the way, perhaps: what is stored gets a second look
                return self._fetch(identifier, kind)
        except ObjectNotFoundError as error:
            raise CorruptionError(
                f"{kind} {identifier.hex()} is missing from {self.objects.root}: "
                "run `graveler fsck` to see which commits need it"
            ) from error

    def open_range(self, info: RangeInfo) -> Table:
        """Return the range that a metarange names.

        Raises:
            CorruptionError: As `open`; or it has not the keys that the metarange states.
        """
        table = self.open(info.id)
        if not table.is_as(info):
            raise CorruptionError(
                f"range {info.id.hex()} is not as its metarange says: {info.count} records from "
                f"{info.min_key!r} to {info.max_key!r}; run `graveler fsck` to see which commits "
                "need it"
            )
        return table

    def _fetch(self, identifier: bytes, kind: TableKind) -> Table:
        self.stats.fetched += 1
        key = self.key(identifier)
        data = self.objects.get(key)
        record_ids = check_table(TableReader(data, name=key), identifier, kind)
        return self.cache.add(identifier.hex(), data, record_ids)

    def publish(
        self, kind: TableKind, identifier: bytes, file: TableFile, record_ids: bytes
    ) -> None:
        """Put a finished table file and keep it in the cache.

        Where the object store has a table of that id already, it has the same records.
        """
        data = file.read()  # once: RocksDB has dropped the file from the page cache
        key = self.key(identifier)
        put = self.objects.put_if_absent(key, data)
        if not put:
            put = self._rescue(identifier, lambda: self.objects.put_if_absent(key, data))
        if put:
            with self._lock:  # several threads put the ranges of one tree
                if kind is TableKind.RANGE:
                    self.stats.ranges_written += 1
                else:
                    self.stats.metaranges_written += 1
        self.cache.adopt(
            identifier.hex(),
            data,
            file.path if file.on_disk else None,
            record_ids,
            # another writer's file of the same records may have other bytes
            stored=self.objects.local_file(key) if put else None,
        )
