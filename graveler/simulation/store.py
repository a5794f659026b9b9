"""Ranges without files.

Graveler's own commits and merges run on them. They read, write and reuse the same ranges as on any
other store.
"""

from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping, MutableMapping, Sequence

from graveler.committed.cache.flat import Record, Run
from graveler.committed.cache.range_cache import MetarangeMemory, RangeCache
from graveler.committed.cache.table import FinishedTable, TableFile, TableKind
from graveler.committed.ranges.range_store import RangeStore
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

    @property
    def records(self) -> MutableMapping[bytes, bytes]:
        return self._records

    def finish(self, identity: bytes, properties: Mapping[str, str]) -> None:
        self._finished(identity, self._records)

    def abort(self) -> None:
        self._records = {}


class MemoryRange(RowList):
    """The records of a range, as references to keys and values that ranges share."""

    def records(self) -> list[Record]:
        """Return every record with its id."""
        ids = self.record_ids()
        each = [ids[at : at + RECORD_ID_BYTES] for at in range(0, len(ids), RECORD_ID_BYTES)]
        return list(zip(self.keys(), each, self.values(), strict=True))

    def bisect(self, key: bytes, low: int = 0) -> int:
        """Return the first row whose key is at or after `key`."""
        return bisect_left(self._keys, key, low)

    def run(self, start: int, stop: int) -> Run:
        """Return the rows from `start` up to `stop`."""
        return Run.of(list(zip(self.keys(start, stop), self.values(start, stop), strict=True)))


class MemoryRanges(RangeStore):
    """A store of ranges without files. Its metaranges are kept decoded."""

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
                made = MemoryRange(list(records), list(records.values()), table.record_ids)
                self._ranges.setdefault(table.identifier, made)

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
