"""Ranges without files: a store whose tables are dictionaries.

Commits and merges of a simulation are those of the product, on this store: what they read, write and
take over is what they would on any other one.
"""

from collections.abc import Callable, Iterator, Mapping, MutableMapping
from typing import Final

from graveler.committed import RangeCache, RangeStore
from graveler.committed.range_store import MetarangeMemory
from graveler.committed.table import Record, TableFile, TableKind
from graveler.model import RangeInfo
from graveler.objects.memory import MemoryStore
from graveler.sstable.writer import TableWriter
from graveler.values import RECORD_ID_BYTES

_MOST_RANGES: Final = 1 << 40


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


class MemoryRange:
    """The records of a range."""

    __slots__ = ("_ids", "_keys", "_values")

    def __init__(self, records: Mapping[bytes, bytes], ids: bytes) -> None:
        self._keys = list(records)
        self._values = list(records.values())
        self._ids = ids

    def records(self) -> list[Record]:
        """Return every record with its id."""
        places = range(0, len(self._ids), RECORD_ID_BYTES)
        ids = [self._ids[at : at + RECORD_ID_BYTES] for at in places]
        return list(zip(self._keys, ids, self._values, strict=True))

    def items(self, start: bytes = b"") -> Iterator[tuple[bytes, bytes]]:
        """Return key and value of each record from `start` on."""
        pairs = zip(self._keys, self._values, strict=True)
        return (pair for pair in pairs if pair[0] >= start)

    def get(self, key: bytes) -> bytes | None:
        """Return the value behind `key`, None where there is no such record."""
        return next((value for at, value in self.items(key) if at == key), None)


class MemoryRanges(RangeStore):
    """A store of ranges that have no files. Metaranges are kept decoded.

    Attributes:
        opened: Logical bytes of the ranges that were opened since it was emptied, by id.
    """

    def __init__(self) -> None:
        super().__init__(MemoryStore(), RangeCache(None, 1))
        self.metaranges = MetarangeMemory(_MOST_RANGES)
        self.opened: dict[bytes, int] = {}
        self._finished: dict[bytes, dict[bytes, bytes]] = {}
        self._ranges: dict[bytes, MemoryRange] = {}

    def table_writer(self, file: TableFile) -> TableWriter:
        """Return a writer of a table in memory."""
        return _TableInMemory(self._finished.__setitem__)

    def publish(
        self, kind: TableKind, identifier: bytes, file: TableFile, record_ids: bytes
    ) -> None:
        """Keep a finished range."""
        records = self._finished.pop(identifier, {})
        if kind is TableKind.RANGE:
            self._ranges.setdefault(identifier, MemoryRange(records, record_ids))

    def open_range(self, info: RangeInfo) -> MemoryRange:  # type: ignore[override]  # of no file
        """Return the records of a range."""
        self.opened[info.id] = info.size
        return self._ranges[info.id]

    def forget(self, identifiers: set[bytes]) -> None:
        """Drop ranges that no tree needs any more."""
        for identifier in identifiers:
            self._ranges.pop(identifier, None)
