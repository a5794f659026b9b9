"""Sorted records in, ranges out: cut by the splitting rule, named by content, published.

The splitting rule decides where a range ends by the key just written and the logical bytes since the
last break. Two trees that share keys therefore share breaks, regardless of who built them and in how
many commits, and with the breaks they share range files. The hash is the one that Spark computes
natively (``xxhash64`` of the binary key), so that a job on a cluster cuts where a single process
does. Compressed sizes do not count, because they depend on the library that compresses.
"""

from collections import deque
from collections.abc import Iterable, MutableMapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from types import TracebackType
from typing import Final, NoReturn

from xxhash import xxh64_intdigest as xxh64

from graveler.committed.range_store import RangeStore
from graveler.committed.table import Record, Scratch, TableFile, TableKind, table_properties
from graveler.errors import InvalidInputError, StateError, UnsortedKeysError
from graveler.model import PATH_BYTES, RangeInfo
from graveler.sstable.writer import TableWriter
from graveler.values import RECORD_ID_BYTES, range_id

HASH_SEED: Final = 42
HASH_MASK: Final = (1 << 63) - 1
_MIB: Final = 1 << 20
_WAITING_EACH: Final = 2


@dataclass(frozen=True, slots=True)
class Splitting:
    """The parameters of the splitting rule; each repository has its own.

    Attributes:
        min_bytes: Logical bytes (keys and values) below which no range ends by itself.
        max_bytes: Logical bytes at which a range always ends; it may exceed them by one record.
        raggedness: Between the two, on average, one key in this many ends its range.
    """

    min_bytes: int = 0
    max_bytes: int = 20 * _MIB
    raggedness: int = 50_000

    def __post_init__(self) -> None:
        if not 0 <= self.min_bytes <= self.max_bytes or self.max_bytes < 1 or self.raggedness < 1:
            raise InvalidInputError(
                f"splitting of {self.min_bytes} to {self.max_bytes} bytes, raggedness "
                f"{self.raggedness}: give 0 <= min_bytes <= max_bytes, 1 <= max_bytes and "
                "1 <= raggedness"
            )

    def ends_range(self, key: bytes, size: int) -> bool:
        """Return whether a range of `size` logical bytes ends after its last key, `key`."""
        return size >= self.min_bytes and (
            size >= self.max_bytes or (xxh64(key, HASH_SEED) & HASH_MASK) % self.raggedness == 0
        )


class Publisher:
    """Publishes the range files of one writer.

    Once a file could not be put, every later call but `abort` raises the same error.

    Args:
        store: Takes the files.
        hold: Publish nothing before `finish`.
    """

    def __init__(self, store: RangeStore, *, hold: bool) -> None:
        self._store = store
        self._hold = hold
        self._workers = store.objects.put_threads
        self._kept: list[tuple[bytes, TableFile, bytes]] = []
        self._pool: ThreadPoolExecutor | None = None
        self._waiting: deque[Future[None]] = deque()

    def add(self, identifier: bytes, file: TableFile, record_ids: bytes) -> None:
        """Take a finished file; raises the error of an earlier one."""
        self._kept.append((identifier, file, record_ids))
        if not self._hold and len(self._kept) + len(self._waiting) > 1:
            self._submit()

    def finish(self) -> None:
        """Return when all files are in the store; raises the first error."""
        if self._pool is None and len(self._kept) == 1:
            self._put(*self._kept[0])
            self._kept.clear()
        self._submit()
        while self._waiting:
            self._settle_first()

    def abort(self) -> None:
        """Drop the files that wait, and return when those under way are in the store."""
        self._kept.clear()
        self._waiting.clear()
        if self._pool is not None:
            self._pool.shutdown(wait=True, cancel_futures=True)
            self._pool = None

    def _submit(self) -> None:
        if self._kept and self._pool is None and self._workers:
            self._pool = ThreadPoolExecutor(self._workers, thread_name_prefix="graveler-put")
        done = 0
        try:
            for item in self._kept:
                if self._pool is None:
                    self._put(*item)
                else:
                    if len(self._waiting) >= _WAITING_EACH * self._workers:
                        self._settle_first()
                    self._waiting.append(self._pool.submit(self._put, *item))
                done += 1
        finally:
            del self._kept[:done]  # a file that failed stays for the next call

    def _settle_first(self) -> None:
        self._waiting[0].result()  # a file that failed stays for the next call
        self._waiting.popleft()

    def _put(self, identifier: bytes, file: TableFile, record_ids: bytes) -> None:
        self._store.publish(TableKind.RANGE, identifier, file, record_ids)
        file.close()


class RangeWriter:
    """Writes the ranges of one tree, in key order.

    Use it in a ``with``: at its end, unfinished ranges are dropped.

    Args:
        store: Takes the ranges.
        splitting: Decides where a range ends.
        hold: Publish nothing before `finish`: for a tree that may still be refused.
    """

    def __init__(self, store: RangeStore, splitting: Splitting, *, hold: bool = False) -> None:
        self._store = store
        self._splitting = splitting
        self._publisher = Publisher(store, hold=hold)
        self._scratch = Scratch(store.cache.scratch, largest=splitting.max_bytes)
        self._infos: list[RangeInfo] = []
        self._table: TableWriter | None = None
        self._file: TableFile | None = None
        self._first = b""
        self._last = b""
        self._size = 0
        self._ids = bytearray()
        self._finished = False
        self.written = 0
        self.reused = 0

    def __enter__(self) -> "RangeWriter":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        table, self._table = self._table, None
        try:
            if table is not None:
                table.__exit__(kind, error, trace)  # translates RocksDB's errors
        finally:
            self.abort()

    def add(self, key: bytes, record_id: bytes, value: bytes) -> None:
        """Write one record; `add_all` is the faster way for many.

        Raises:
            UnsortedKeysError: The key does not come after all keys added before.
            InvalidInputError: The key is empty or longer than 1024 bytes.
        """
        self.add_all(((key, record_id, value),))

    def add_all(self, records: Iterable[Record]) -> None:
        """Write records in key order; raises as `add` does."""
        least, most = self._splitting.min_bytes, self._splitting.max_bytes
        raggedness = self._splitting.raggedness
        # A multiple of raggedness is a multiple of its power of two. That is tested first, because a
        # bitwise and costs less than a remainder of 63 bits, and nearly all keys fail it.
        low_bits = (raggedness & -raggedness) - 1
        table = None if self._table is None else self._table.records
        ids = self._ids  # grows in place: one run of bytes is hashed and kept at the end
        last, size = self._last, self._size
        try:
            # A million records may pass here: all names are local, and the splitting rule is written
            # out. A test compares it with Splitting.ends_range.
            for key, record_id, value in records:
                length = len(key)
                if length > PATH_BYTES:
                    _refuse(key, last)
                if table is None:
                    if key <= last:
                        _refuse(key, last)
                    table = self._start(key)
                try:
                    table[key] = value  # within a table RocksDB checks the order
                except Exception as error:
                    if key <= last:  # RocksDB has no error of its own for this
                        _refuse(key, last, error)
                    raise
                ids += record_id
                last = key
                size += length + len(value)
                digest = xxh64(key, HASH_SEED)
                if (
                    size >= most
                    or (not digest & low_bits and (digest & HASH_MASK) % raggedness == 0)
                ) and size >= least:
                    self._last, self._size = last, size
                    self._close()
                    table = None
                    size = 0
        finally:
            self._last, self._size = last, size

    def add_range(self, info: RangeInfo) -> None:
        """Add an existing range; ends the current one."""
        self.add_ranges((info,))

    def add_ranges(self, infos: Sequence[RangeInfo]) -> None:
        """Add existing ranges that follow each other in one tree."""
        if not infos:
            return
        if infos[0].min_key <= self._last:
            _refuse(infos[0].min_key, self._last)
        self._close()
        self._infos += infos
        self._last = infos[-1].max_key
        self.reused += len(infos)

    def finish(self) -> tuple[RangeInfo, ...]:
        """End the last range, publish the ranges that were held, return all in key order."""
        if self._finished:
            raise StateError("the ranges of this writer are finished: make another writer")
        self._close()
        self._publisher.finish()
        self.abort()
        return tuple(self._infos)

    def abort(self) -> None:
        """Drop the ranges that are not published; does nothing after `finish`."""
        self._finished = True
        self._publisher.abort()  # first: its threads must not outlive an error below
        if self._table is not None:
            self._table.abort()
            self._table = None
        self._scratch.close()

    def _start(self, key: bytes) -> MutableMapping[bytes, bytes]:
        if self._finished:
            raise StateError("the ranges of this writer are finished: make another writer")
        self._file = self._scratch.file()
        self._table = TableWriter(self._file.path)
        self._first = key
        return self._table.records

    def _close(self) -> None:
        if self._table is None or self._file is None:
            return
        record_ids = bytes(self._ids)
        info = RangeInfo(
            id=range_id((record_ids,)),
            min_key=self._first,
            max_key=self._last,
            count=len(record_ids) // RECORD_ID_BYTES,
            size=self._size,
        )
        self._table.finish(info.id, table_properties(TableKind.RANGE, info))
        self._table = None
        self._ids.clear()
        self._size = 0
        self._infos.append(info)
        self.written += 1
        self._publisher.add(info.id, self._file, record_ids)


def _refuse(key: bytes, last: bytes, cause: Exception | None = None) -> NoReturn:
    if not 1 <= len(key) <= PATH_BYTES:
        raise InvalidInputError(
            f"key of {len(key)} bytes ({key[:80]!r}): give 1 to {PATH_BYTES} bytes"
        )
    raise UnsortedKeysError(
        f"key {key!r} after {last!r}: records of a range must come in ascending key order, "
        "each key once"
    ) from cause
