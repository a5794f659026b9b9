"""Ranges and metaranges by id: published once, opened checked, cached in memory and on disk.

One object per table, ``<prefix>/<id in hex>``, ranges and metaranges side by side.
"""

import tempfile
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from threading import Lock
from typing import Final

from graveler.committed.disk_cache import DiskCache
from graveler.committed.table import Table, TableFile, TableKind, check_table
from graveler.errors import CorruptionError, ObjectNotFoundError
from graveler.model import RangeInfo
from graveler.objects.store import ObjectStore
from graveler.sstable.reader import TableReader

_MEMORY_BYTES: Final = 128 << 20


class RangeCache:
    """Least recently used tables are removed first, in memory and on disk.

    Tables are immutable and their names cover every byte of their records, so nothing
    here ever becomes out of date.
    Only checked tables may be added: see `graveler.committed.table`.

    Args:
        folder: Where files are kept, shared with other processes; None: in memory only.
        max_bytes: Bound on disk. Memory takes that much too, 128 MiB at most if there
            is a folder.
    """

    def __init__(self, folder: Path | None, max_bytes: int) -> None:
        self._disk = None if folder is None else DiskCache(folder, max_bytes)
        self._memory_max = max_bytes if folder is None else min(max_bytes, _MEMORY_BYTES)
        self._memory_bytes = 0
        self._opened: OrderedDict[str, Table] = OrderedDict()
        self._lock = Lock()

    @property
    def damaged(self) -> int:
        """Files that were found damaged on disk, and dropped."""
        return 0 if self._disk is None else self._disk.damaged

    @property
    def memory_bytes(self) -> int:
        """Bytes of the tables held open."""
        return self._memory_bytes

    def get(self, name: str) -> Table | None:
        """Return the table, None where it has to be fetched."""
        with self._lock:
            table = self._opened.get(name)
            if table is not None:
                self._opened.move_to_end(name)
                return table
        loaded = None if self._disk is None else self._disk.load(name)
        if loaded is None:
            return None
        return self._hold(name, Table(*loaded, name=name))

    def add(self, name: str, data: bytes, record_ids: bytes) -> Table:
        """Keep a table that was fetched and checked; return it opened."""
        if self._disk is not None:
            self._disk.add(name, data, record_ids)
        return self._hold(name, Table(data, record_ids, name=name))

    def adopt(
        self, name: str, data: bytes, path: Path | None, record_ids: bytes, *, stored: Path | None
    ) -> None:
        """Keep a table that was written here.

        Args:
            name: Its name.
            data: The table.
            path: Its own file, where it has one: moved in.
            record_ids: Of its records.
            stored: The object store's file of it, where that is one: given another name.
        """
        if self._disk is not None:
            with self._lock:
                self._release(name)
            if path is not None:
                self._disk.adopt(name, data, path, record_ids)
            elif stored is not None:
                self._disk.link(name, data, stored, record_ids)
            else:
                self._disk.add(name, data, record_ids)
        else:
            self._hold(name, Table(data, record_ids, name=name))

    def scratch(self) -> Path:
        """Return a new folder for a writer's files, on the cache's own disk where possible.

        The caller removes it. No TemporaryDirectory: a forked child that inherits one removes
        it from under its parent as it ends.
        """
        place = None if self._disk is None else self._disk.scratch()
        return Path(tempfile.mkdtemp(prefix="graveler-", dir=place))

    def _hold(self, name: str, table: Table) -> Table:
        with self._lock:
            self._release(name)
            self._opened[name] = table
            self._memory_bytes += table.memory_bytes
            while self._memory_bytes > self._memory_max:
                self._release(next(iter(self._opened)))
        return table

    def _release(self, name: str) -> None:
        table = self._opened.pop(name, None)
        if table is not None:
            self._memory_bytes -= table.memory_bytes


_MAX_RANGES: Final = 200_000


class MetarangeMemory:
    """Decoded metaranges by id, bounded by the ranges they list together."""

    def __init__(self, max_ranges: int = _MAX_RANGES) -> None:
        self._max = max_ranges
        self._count = 0
        self._kept: OrderedDict[str, tuple[RangeInfo, ...]] = OrderedDict()
        self._lock = Lock()

    def get(self, metarange: str) -> tuple[RangeInfo, ...] | None:
        """Return the ranges of a metarange, None where it has to be read."""
        with self._lock:
            infos = self._kept.get(metarange)
            if infos is not None:
                self._kept.move_to_end(metarange)
            return infos

    def put(self, metarange: str, infos: tuple[RangeInfo, ...]) -> None:
        """Keep the ranges of a metarange, forgetting those used longest ago."""
        with self._lock:
            self._count += len(infos) - len(self._kept.pop(metarange, ()))
            self._kept[metarange] = infos
            while self._count > self._max:
                self._count -= len(self._kept.popitem(last=False)[1])


Rescue = Callable[[bytes, Callable[[], bool]], bool]
"""Called with the id of a table that exists already, and with a function that puts it if it is
absent: protects the table from garbage collection; returns whether it had to be put again."""


def _is_kept(_identifier: bytes, _put: Callable[[], bool]) -> bool:
    return False


@dataclass(slots=True)
class StoreStats:
    """The requests to a store, and those that reached the object store.

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
        rescue: Called for each table that exists already when it is published.
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
        """Return whether the object store has the table; the cache is not read."""
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
                # the damage may be of the transfer: the table is read once more
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
