"""Encoding a range as a table, in this process or concurrently in another one.

Both give the same bytes, because both use `RangeEncoder`.
"""

import os
from array import array
from collections.abc import Iterable, Sequence
from itertools import accumulate, pairwise
from struct import Struct
from types import TracebackType
from typing import NamedTuple, Self

from graveler.base.worker_pool import Task, Workers
from graveler.committed.table import (
    SMALL_RECORDS,
    Columns,
    FinishedTable,
    Scratch,
    TableFile,
    TableKind,
    local_form,
    new_memory_file,
    table_properties,
)
from graveler.errors import InvalidInputError, UnsortedKeysError
from graveler.model import RANGE_KEY_BYTES, RangeInfo
from graveler.sstable.writer import TableWriter
from graveler.values import RECORD_ID_BYTES, RecordsDigest, range_id, total

_HEADER = Struct("<QQ?")
_MODULE = "graveler.committed.encoder"


class EncodedRange(NamedTuple):
    """A range whose table is complete.

    Attributes:
        info: The record of the range in a metarange.
    """

    info: RangeInfo
    table: FinishedTable


class RangeEncoder:
    """The writer of the records of one range. It is a context manager, like `TableWriter`."""

    def __init__(self, table: TableWriter, file: TableFile) -> None:
        self._table = table
        self._file = file
        self._first = self._last = b""
        self._ids: list[bytes] = []
        self._digest = RecordsDigest()
        self._count = 0
        self._few: list[Columns] = []  # the records, as long as they are few
        self._done: EncodedRange | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._table.__exit__(kind, error, trace)  # translates RocksDB's errors

    def add(self, parts: Sequence[bytes], lengths: "array[int]", record_ids: bytes) -> None:
        """Add records in key order.

        Args:
            lengths: The length of each part, as `array("I")`.
            record_ids: The ids of the records, 32 bytes each.
        """
        self.add_rows(parts, lengths, record_ids, b"".join(parts))
        self._count += len(parts) // 2
        if self._count <= SMALL_RECORDS:
            self._few.append((parts[::2], parts[1::2]))
        else:
            self._few.clear()

    def add_rows(
        self,
        parts: Sequence[bytes],
        lengths: "array[int] | memoryview[int]",
        record_ids: bytes,
        rows: bytes | memoryview,
    ) -> None:
        """Add records like `add`. `rows` holds the parts joined."""
        keys, sink = parts[::2], self._table.records  # up to millions of records
        try:
            for key, value in zip(keys, parts[1::2], strict=True):
                sink[key] = value
        except Exception as error:  # RocksDB has no error class for a wrong order
            refuse_keys(keys, self._last, error)
            raise
        self._digest.add_rows((rows,), lengths)
        self._first = self._first or keys[0]
        self._last = keys[-1]
        self._ids.append(record_ids)

    def finish(self, size: int, *, natural: bool) -> EncodedRange:
        """Complete the table and return the range.

        Args:
            size: Logical bytes of the records.
            natural: Whether the splitting policy ended the range.
        """
        record_ids = b"".join(self._ids)
        info = RangeInfo(
            id=range_id((record_ids,)),
            min_key=self._first,
            max_key=self._last,
            count=len(record_ids) // RECORD_ID_BYTES,
            size=size,
            natural=natural,
            total=total(record_ids),
            digest=self._digest.digest(),
        )
        self._table.finish(info.id, table_properties(TableKind.RANGE, info))
        form = local_form(TableKind.RANGE, info, record_ids, self._few)
        table = FinishedTable(info.id, TableKind.RANGE, self._file, record_ids, form)
        self._done = EncodedRange(info, table)
        return self._done

    def result(self, *, wait: bool) -> EncodedRange | None:
        """Return the range."""
        del wait
        return self._done

    def abort(self) -> None:
        """Discard the table, unless it is complete."""
        self._table.abort()


class RemoteRange:
    """The records of one range whose table another process writes.

    Its methods are those of `RangeEncoder`.
    """

    def __init__(self, workers: Workers, scratch: Scratch) -> None:
        self._workers = workers
        self._scratch = scratch
        self._lengths = array("I")
        self._rows: list[bytes] = []
        self._ids: list[bytes] = []
        self._task: Task | None = None
        self._record_ids = b""

    def __exit__(self, *error: object) -> None:
        return

    def add(self, parts: Sequence[bytes], lengths: "array[int]", record_ids: bytes) -> None:
        """Add records. The errors are those of `RangeEncoder.add`."""
        self._rows.append(b"".join(parts))
        self._lengths.extend(lengths)
        self._ids.append(record_ids)

    def finish(self, size: int, *, natural: bool) -> None:
        """Send the records. Raises BackendUnavailableError if the process has died."""
        self._record_ids = b"".join(self._ids)
        parts = (
            _HEADER.pack(len(self._lengths) // 2, size, natural),
            self._lengths.tobytes(),
            self._record_ids,
            *self._rows,
        )
        descriptor = os.memfd_create("graveler-records", os.MFD_CLOEXEC)
        try:
            with open(descriptor, "wb", closefd=False) as file:
                file.writelines(parts)
        except BaseException:
            os.close(descriptor)
            raise
        self._rows, self._ids = [], []
        self._task = self._workers.submit(descriptor)

    def result(self, *, wait: bool) -> EncodedRange | None:
        """Return the range, or None if the other process has not written it yet."""
        task = self._task
        if task is None:
            return None
        if wait:
            self._workers.wait(task)
        if not task.done:
            return None
        info, descriptor = task.result()
        file = self._scratch.adopt(descriptor)
        table = FinishedTable(info.id, TableKind.RANGE, file, self._record_ids)
        return EncodedRange(info, table)

    def abort(self) -> None:
        """Discard the records, or the table."""
        self._rows, self._ids = [], []
        if self._task is not None:
            self._task.discard()


def work(descriptor: int) -> tuple[RangeInfo, int]:
    """Write the table that a `RemoteRange` requests. Return the range and the file's descriptor."""
    with open(descriptor, "rb", closefd=False) as request:
        request.seek(0)
        data = request.read()
    count, size, natural = _HEADER.unpack_from(data)
    at = _HEADER.size
    lengths = memoryview(data)[at : (at := at + 8 * count)].cast("I")
    record_ids = data[at : (at := at + RECORD_ID_BYTES * count)]
    parts = [data[start:stop] for start, stop in pairwise(accumulate(lengths, initial=at))]
    file = new_memory_file()
    if file is None:
        raise InvalidInputError("no file in memory can be made here: set encoding_processes = 0")
    with RangeEncoder(TableWriter(file.path), file) as encoder:
        encoder.add_rows(parts, lengths, record_ids, memoryview(data)[at:])
        info = encoder.finish(size, natural=natural).info
    return info, file.release()


def start_processes(count: int) -> Workers:
    """Return processes that encode ranges, or raise OSError if none can be started."""
    return Workers(_MODULE, count)


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
