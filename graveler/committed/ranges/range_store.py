"""Ranges and metaranges by id: published once, checked when read, cached in memory and on disk.

Each table is one object ``<prefix>/<id in hex>``. Ranges and metaranges have the same prefix.
"""

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import islice
from threading import Lock
from typing import Any

from graveler.base.background import Threads, keep_freed_memory
from graveler.base.forks import watch
from graveler.base.telemetry import cache as counts
from graveler.committed.cache.flat import FlatTable, bounds_sum
from graveler.committed.cache.form import Piece
from graveler.committed.cache.range_cache import RangeCache, Wanted
from graveler.committed.cache.table import (
    FinishedTable,
    TableFile,
    TableKind,
    check_range,
    check_table,
)
from graveler.errors import CorruptionError, InternalError, ObjectNotFoundError
from graveler.model import RangeInfo
from graveler.objects.store import ObjectStore
from graveler.sstable.reader import TableReader
from graveler.sstable.writer import TableWriter

_FETCHERS = 16
"""How many ranges a scan fetches concurrently from a remote object store."""

Rescue = Callable[[bytes, Callable[[], bool]], bool]
"""A function that protects an existing table from garbage collection. Its arguments are the id and
a function that puts the table if it is absent. It returns whether the table was put again."""


def _is_kept(_identifier: bytes, _put: Callable[[], bool]) -> bool:
    return False


@dataclass(slots=True)
class StoreStats:
    """Counts of the requests to a store, and of those that reached the object store."""

    ranges_read: int = 0
    ranges_written: int = 0
    metaranges_read: int = 0
    metaranges_written: int = 0
    fetched: int = 0


def _cannot_publish(identifier: bytes, _put: Callable[[], bool]) -> bool:
    raise InternalError(
        f"table {identifier.hex()} exists, and a store that was pickled cannot keep it from garbage "
        "collection: it is for reading"
    )


class RangeStore:
    """The committed tables of one repository. Threads may share it.

    It can be pickled if its object store can be pickled. The copy can only read.

    Args:
        cache: The cache. Stores of several repositories may share it, because ids name content.
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
        self._prefix = prefix
        self._lock = Lock()
        watch(self)

    def __reduce__(self) -> tuple[Any, ...]:
        made = partial(RangeStore, prefix=self._prefix, rescue=_cannot_publish)
        return made, (self.objects, self.cache)

    def after_fork_in_child(self) -> None:
        """Replace the lock: a thread of the parent may have held it."""
        self._lock = Lock()

    def key(self, identifier: bytes) -> str:
        """Return the object key of a range or metarange."""
        return f"{self._prefix}/{identifier.hex()}"

    def stored(self, identifier: bytes) -> TableReader:
        """Return a table of the object store. Its records are not verified against its id."""
        key = self.key(identifier)
        return TableReader(self.objects.get(key), name=key)

    def is_stored(self, identifier: bytes) -> bool:
        """Return whether the object store has the table. The cache is not read."""
        try:
            self.objects.head(self.key(identifier))
        except ObjectNotFoundError:
            return False
        return True

    def open(
        self,
        identifier: bytes,
        kind: TableKind = TableKind.RANGE,
        digest: bytes | None = None,
        *,
        keep: bool = True,
    ) -> FlatTable:
        """Return the table with this id. A table from the object store is checked."""
        if kind is TableKind.RANGE:
            with self._lock:
                self.stats.ranges_read += 1
        known = self.cache.known(identifier, kind, digest)
        return known or self._opened(identifier, kind, digest, keep=keep)

    def _opened(
        self, identifier: bytes, kind: TableKind, digest: bytes | None, *, keep: bool
    ) -> FlatTable:
        cache, fetch = self.cache, partial(self._fetch, identifier, kind)

        def rebuild(numbered: bool) -> bytes:
            return cache.mend(identifier, fetch(None if numbered else digest))

        wanted = Wanted(identifier, kind, digest, rebuild, keep)
        table = cache.get(wanted)
        if table is not None:
            return table
        keep_freed_memory()
        with cache.single(identifier):
            return cache.get(wanted) or cache.convert(wanted) or cache.add(wanted, fetch(digest))

    def open_range(
        self, info: RangeInfo, *, keep: bool = True, numbered: bool = False
    ) -> FlatTable:
        """Return the range that a metarange names.

        Args:
            numbered: Whether record ids are needed. Computing them takes much longer than reading
                the range. It is done once on each host.
        """
        found = self.cache.compared(info)
        if found is not None and (found.numbered or not numbered):
            self.stats.ranges_read += 1
            return found
        digest = None if numbered else info.digest
        table = self.open(info.id, TableKind.RANGE, digest, keep=keep)
        if table.checked is not info:
            stated = (info.count, bounds_sum(info.min_key, info.max_key))
            if (table.count, table.bounds) != stated:
                raise CorruptionError(
                    f"range {info.id.hex()} is not as its metarange says: {info.count} records "
                    f"from {info.min_key!r} to {info.max_key!r}; run `graveler fsck` to see which "
                    "commits need it"
                )
            table.checked = info
        return table

    def ahead(
        self, infos: Sequence[RangeInfo], *, keep: bool = False, numbered: bool = False
    ) -> Iterator[FlatTable]:
        """Yield the ranges that a tree names, in order. Missing ranges are fetched concurrently.

        The number of ranges opened in advance grows with every range that is taken, so that a
        reader of few records fetches few ranges.
        """
        rest, width, pool = iter(infos), 1, None
        waiting: deque[Callable[[], FlatTable]] = deque()
        try:
            while True:
                for info in islice(rest, width - len(waiting)):
                    opened = partial(self.open_range, info, keep=keep, numbered=numbered)
                    if self.objects.put_threads and not self.cache.has(info.id):
                        pool = pool or Threads(_FETCHERS, thread_name_prefix="graveler-get")
                        waiting.append(pool.submit(opened).result)
                    else:
                        waiting.append(opened)
                if not waiting:
                    return
                yield waiting.popleft()()
                width = min(2 * width, _FETCHERS)
        finally:
            if pool is not None:
                pool.shutdown(wait=False, cancel_futures=True)

    def _fetch(self, identifier: bytes, kind: TableKind, digest: bytes | None) -> list[Piece]:
        """Return the local form of a table of the object store, built from its checked records."""

        def fetch() -> list[Piece]:
            with self._lock:
                self.stats.fetched += 1
                counts.misses += 1
            reader = self.stored(identifier)
            if digest is None:
                return check_table(reader, identifier, kind)
            return check_range(reader, identifier, digest)

        try:
            try:
                return fetch()
            except CorruptionError:
                # the transfer may have damaged the table: read it once more
                return fetch()
        except ObjectNotFoundError as error:
            raise CorruptionError(
                f"{kind} {identifier.hex()} is missing from {self.objects.root}: "
                "run `graveler fsck` to see which commits need it"
            ) from error

    def keep_found(self, identifier: bytes) -> bool:
        """Keep a table that another process has found in the store from garbage collection.

        Returns:
            Whether the store still has it. Otherwise the caller writes it again.
        """

        def put() -> bool:
            if not self.is_stored(identifier):
                raise ObjectNotFoundError(f"table {identifier.hex()} is deleted")
            return False

        try:
            self._rescue(identifier, put)
        except ObjectNotFoundError:
            return False
        return True

    def table_writer(self, file: TableFile) -> TableWriter:
        """Return the writer of a table that will be published."""
        return TableWriter(file.path)

    def publish(self, tables: Sequence[FinishedTable]) -> None:
        """Put finished tables and keep them in the cache."""
        keys = [self.key(table.identifier) for table in tables]
        # read each file once: RocksDB has dropped it from the page cache
        bodies = [table.file.read() for table in tables]
        if len(tables) == 1:
            puts: Sequence[bool] = (self.objects.put_if_absent(keys[0], bodies[0]),)
        else:
            puts = self.objects.put_all_if_absent(list(zip(keys, bodies, strict=True)))
        for table, key, data, done in zip(tables, keys, bodies, puts, strict=True):
            again = partial(self.objects.put_if_absent, key, data)
            put = done or self._rescue(table.identifier, again)
            if put:
                with self._lock:  # several threads put ranges of the same tree
                    if table.kind is TableKind.RANGE:
                        self.stats.ranges_written += 1
                    else:
                        self.stats.metaranges_written += 1
            # another writer's file with the same records may have other bytes
            self.cache.adopt(table, data, stored=self.objects.local_file(key) if put else None)
