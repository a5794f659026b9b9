"""Encoding a range as a table."""

from array import array
from collections.abc import Iterable, Sequence
from itertools import chain

from graveler.committed.cache.flat import Record
from graveler.committed.cache.table import (
    SMALL_RECORDS,
    FinishedTable,
    TableFile,
    TableKind,
    local_form,
    table_properties,
)
from graveler.errors import InvalidInputError, UnsortedKeysError
from graveler.model import RANGE_KEY_BYTES, RangeInfo
from graveler.sstable.writer import TableWriter
from graveler.values import RecordsDigest, range_id, total


class RangeEncoder:
    """The writer of the records of one range to a table."""

    def __init__(self, table: TableWriter, file: TableFile) -> None:
        self.table = table
        self._file = file
        self._first = self._last = b""
        self._ids: list[bytes] = []
        self._digest = RecordsDigest()
        self._count = 0
        # the records, as long as they are few
        self._few: list[tuple[Sequence[bytes], Sequence[bytes]]] = []

    def add(self, parts: Sequence[bytes], lengths: "array[int]", record_ids: bytes) -> None:
        """Add records in key order."""
        keys, values, sink = parts[::2], parts[1::2], self.table.records
        try:
            for key, value in zip(keys, values, strict=True):
                sink[key] = value
        except Exception as error:  # RocksDB has no error class for a wrong order
            refuse_keys(keys, self._last, error)
            raise
        self._digest.add_rows((b"".join(parts),), lengths)
        self._first, self._last = self._first or keys[0], keys[-1]
        self._ids.append(record_ids)
        self._count += len(keys)
        if self._count <= SMALL_RECORDS:
            self._few.append((keys, values))
        else:
            self._few.clear()

    def finish(self, size: int, *, natural: bool) -> tuple[RangeInfo, FinishedTable]:
        """Complete the table. Return its record in a metarange, and the table."""
        record_ids = b"".join(self._ids)
        info = RangeInfo(
            id=range_id((record_ids,)),
            min_key=self._first,
            max_key=self._last,
            count=self._count,
            size=size,
            natural=natural,
            total=total(record_ids),
            digest=self._digest.digest(),
        )
        self.table.finish(info.id, table_properties(TableKind.RANGE, info))
        form = local_form(TableKind.RANGE, info, record_ids, self._few)
        return info, FinishedTable(info.id, TableKind.RANGE, self._file, record_ids, form)


def refuse_keys(keys: Iterable[bytes], last: bytes, cause: Exception | None = None) -> None:
    """Raise an error for the first key that is too long or not after its predecessor, if any."""
    for key in keys:
        if not 1 <= len(key) <= RANGE_KEY_BYTES:
            raise InvalidInputError(
                f"key of {len(key)} bytes ({key[:80]!r}): give 1 to {RANGE_KEY_BYTES} bytes"
            ) from cause
        if key <= last:
            raise UnsortedKeysError(
                f"key {key!r} after {last!r}: records of a range must come in ascending key order, "
                "each key once"
            ) from cause
        last = key


def columns(records: Iterable[Record]) -> tuple[list[bytes], list[bytes]]:
    """Return keys and values in turn, and the ids."""
    # no Python frame for each record: a commit has many
    parts = list(chain.from_iterable(records))
    ids = parts[1::3]
    del parts[1::3]
    return parts, ids
