"""One opened table file: its records, and the record id of each."""

from collections.abc import Iterator
from typing import Final

from graveler.model import RangeInfo
from graveler.records import RECORD_ID_BYTES
from graveler.sstable.reader import TableReader

__all__ = ["Record", "Table"]

Record = tuple[bytes, bytes, bytes]
"""Key, record id, value record."""

_STEP: Final = RECORD_ID_BYTES


class Table:
    """A range or metarange file in memory, checked; shared by threads, never changed."""

    __slots__ = ("_bounds", "_reader", "memory_bytes", "record_ids")

    def __init__(self, data: bytes, record_ids: bytes, *, name: str) -> None:
        self._reader = TableReader(data, name=name)
        self.record_ids = record_ids
        self.memory_bytes = len(data) + len(record_ids)
        stated = self._reader.user_properties
        count = len(record_ids) // _STEP
        self._bounds = stated.get("min_key"), stated.get("max_key"), count

    def is_as(self, info: RangeInfo) -> bool:
        """Return whether its first and last key and the number of its records are as stated."""
        return self._bounds == (info.min_key.hex(), info.max_key.hex(), info.count)

    def items(self, start: bytes = b"") -> Iterator[tuple[bytes, bytes]]:
        """Return key and value of each record from `start` on, in key order."""
        return self._reader.items(start)

    def get(self, key: bytes) -> bytes | None:
        """Return the value behind `key`, None where there is no such record."""
        return self._reader.get(key)

    def records(self) -> list[Record]:
        """Return every record with its id, without hashing anything."""
        ids = self.record_ids
        places = range(0, len(ids), _STEP)
        return [
            (key, ids[at : at + _STEP], value)
            for (key, value), at in zip(self._reader.items(), places, strict=True)
        ]
