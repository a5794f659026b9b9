"""Ranges without files: a store whose tables are dictionaries.

A simulation runs graveler's own commits and merges on this store. They read, write and reuse the same
ranges as on any other store.
"""

from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping, MutableMapping, Sequence

from graveler.committed.flat import Record, Run
from graveler.committed.metarange_memory import MetarangeMemory
from graveler.committed.range_cache import RangeCache
from graveler.committed.range_store import RangeStore
from graveler.committed.table import FinishedTable, TableFile, TableKind
from graveler.committed.tree import RowList
from graveler.model import RangeInfo
from graveler.objects.memory import MemoryStore
from graveler.sstable.writer import TableWriter
from graveler.values import RECORD_ID_BYTES

_MOST_RANGES = 1 << 40


class _TableInMemory(TableWriter):
    def __init__(self, finished: Callable[[bytes, dict[bytes, bytes]], None]) -> None:
        self._records: dict[bytes, bytes] = {}
        self._finished = finished
        self.add = self._records.__setitem__

    @property
    def records(self) -> MutableMapping[bytes, bytes]:
        return self._records

    def finish(self, identity: bytes, properties: Mapping[str, str]) -> None:
        self._finished(identity, self._records)

    def abort(self) -> None:
        self._records = {}


class MemoryRange(RowList):
    """The records of a range."""

    def __init__(self, keys: list[bytes], values: list[bytes], ids: bytes) -> None:
        super().__init__(keys, values, ids)
        self._sorted = keys

    def records(self) -> list[Record]:
        """Return every record with its id."""
        ids = self.record_ids()
        places = range(0, len(ids), RECORD_ID_BYTES)
        each = [ids[at : at + RECORD_ID_BYTES] for at in places]
        return list(zip(self.keys(), each, self.values(), strict=True))

    def bisect(self, key: bytes, low: int = 0, high: int | None = None) -> int:
        """Return the first row whose key is at or after `key`."""
        return bisect_left(self._sorted, key, low, high)

    def runs(self, start: bytes = b"", stop: bytes | None = None) -> Iterator[Run]:
        """Yield the rows from key `start` up to `stop`."""
        first = self.bisect(start)
        last = self.count if stop is None else self.bisect(stop)
        if first < last:
            yield self.run(first, last)

    def run(self, start: int, stop: int) -> Run:
        """Return the rows from `start` up to `stop`."""
        return Run.of(list(zip(self.keys(start, stop), self.values(start, stop), strict=True)))

    def get(self, key: bytes) -> bytes | None:
        """Return the value of `key`, or None."""
        row = self.bisect(key)
        return self.value(row) if row < self.count and self.key(row) == key else None


class MemoryRanges(RangeStore):
    """A store of ranges without files; metaranges are stored decoded.

    Attributes:
        opened: Logical bytes, by id, of the ranges that were opened since it was last cleared.
    """

    def __init__(self) -> None:
        super().__init__(MemoryStore(), RangeCache(None, 1))
        self.cache.metaranges = MetarangeMemory(_MOST_RANGES, _MOST_RANGES)
        self.opened: dict[bytes, int] = {}
        self._finished: dict[bytes, dict[bytes, bytes]] = {}
        self._ranges: dict[bytes, MemoryRange] = {}

    def table_writer(self, file: TableFile) -> TableWriter:
        """Return a writer of a table in memory."""
        return _TableInMemory(self._finished.__setitem__)

    def publish(self, tables: Sequence[FinishedTable]) -> None:
        """Keep finished ranges."""
        for table in tables:
            records = self._finished.pop(table.identifier, {})
            if table.kind is TableKind.RANGE:
                columns = list(records), list(records.values())
                self.keep(table.identifier, MemoryRange(*columns, table.record_ids))

    def keep(self, identifier: bytes, records: MemoryRange) -> None:
        """Keep a range under its id."""
        self._ranges.setdefault(identifier, records)

    def open_range(  # type: ignore[override]  # a range without a file
        self, info: RangeInfo, *, keep: bool = True, numbered: bool = False
    ) -> MemoryRange:
        """Return the records of a range."""
        del keep, numbered
        self.opened[info.id] = info.size
        return self._ranges[info.id]

    def ahead(  # type: ignore[override]
        self, infos: Sequence[RangeInfo], *, keep: bool = False, numbered: bool = False
    ) -> Iterator[MemoryRange]:
        """Return the records of several ranges."""
        del keep, numbered
        return map(self.open_range, infos)

    def forget(self, identifiers: set[bytes]) -> None:
        """Drop ranges that no tree needs any longer."""
        for identifier in identifiers:
            self._ranges.pop(identifier, None)
