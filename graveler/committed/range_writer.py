"""Sorted records in, ranges out: cut by the splitting rule, named by content, published."""

from collections import deque
from collections.abc import Iterable, MutableMapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from types import TracebackType
from typing import Final, NoReturn

from xxhash import xxh64_intdigest as xxh64

from graveler.committed.range_store import RangeStore
from graveler.committed.splitting import HASH_MASK, HASH_SEED, Splitting
from graveler.committed.table import Record, Scratch, TableFile, TableKind, table_properties
from graveler.errors import InvalidInputError, StateError, UnsortedKeysError
from graveler.identity import range_id
from graveler.limits import PATH_BYTES
from graveler.model import RangeInfo
from graveler.records import RECORD_ID_BYTES
from graveler.sstable.writer import TableWriter

_WAITING_EACH: Final = 2


class Publisher:
    """Publishes the range files of one writer.

    Once a file could not be put, every later call but `abort` raises the same error.

    Args:
        store: Where to.
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
        """Take over a finished file; raises what putting an earlier one raised."""
        self._kept.append((identifier, file, record_ids))
        if not self._hold and len(self._kept) + len(self._waiting) > 1:
            self._submit()

    def finish(self) -> None:
        """Return when everything is in the store; raises the first error there was."""
        if self._pool is None and len(self._kept) == 1:
            self._put(*self._kept[0])
            self._kept.clear()
        self._submit()
        while self._waiting:
            self._settle_first()

    def abort(self) -> None:
        """Forget what is not yet in the store, and wait for what is on its way."""
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
            del self._kept[:done]  # what could not be put stays for the next call

    def _settle_first(self) -> None:
        self._waiting[0].result()  # one that failed stays for the next call
        self._waiting.popleft()

    def _put(self, identifier: bytes, file: TableFile, record_ids: bytes) -> None:
        self._store.publish(TableKind.RANGE, identifier, file, record_ids)
        file.close()


class RangeWriter:
    """Writes the ranges of one tree, in key order.

    Use it in a ``with``: leaving drops what is not finished.

    Args:
        store: Where ranges are published.
        splitting: Where a range ends.
        hold: Publish nothing before `finish`: for a tree that may yet be refused.
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
                table.__exit__(kind, error, trace)  # turns RocksDB's errors into ours
        finally:
            self.abort()

    def add(self, key: bytes, record_id: bytes, value: bytes) -> None:
        """Write one record; `add_all` is the faster way for many.

        Raises:
            UnsortedKeysError: The key does not come after everything added before.
            InvalidInputError: The key is empty or longer than 1024 bytes.
        """
        self.add_all(((key, record_id, value),))

    def add_all(self, records: Iterable[Record]) -> None:
        """Write records in key order; raises as `add` does."""
        least, most = self._splitting.min_bytes, self._splitting.max_bytes
        raggedness = self._splitting.raggedness
        # what raggedness divides is divisible by its power of two: looked at first, because a
        # bitwise and costs less than a remainder of 63 bits, and nearly all keys fail it
        low_bits = (raggedness & -raggedness) - 1
        table = None if self._table is None else self._table.records
        ids = self._ids  # grows in place: what is hashed and kept at the end is one run of bytes
        last, size = self._last, self._size
        try:
            # one pass of a million turns: everything it touches is a local name, and the
            # splitting rule is written out (a test holds it to Splitting.ends_range)
            for key, record_id, value in records:
                length = len(key)
                if length > PATH_BYTES:
                    _refuse(key, last)
                if table is None:
                    if key <= last:
                        _refuse(key, last)
                    table = self._start(key)
                try:
                    table[key] = value  # within a table RocksDB watches the order
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
        """Take over an existing range; ends the current one."""
        self.add_ranges((info,))

    def add_ranges(self, infos: Sequence[RangeInfo]) -> None:
        """Take over existing ranges that follow each other in one tree."""
        if not infos:
            return
        if infos[0].min_key <= self._last:
            _refuse(infos[0].min_key, self._last)
        self._close()
        self._infos += infos
        self._last = infos[-1].max_key
        self.reused += len(infos)

    def finish(self) -> tuple[RangeInfo, ...]:
        """End the last range, publish what was held, return all ranges in key order."""
        if self._finished:
            raise StateError("the ranges of this writer are finished: make another writer")
        self._close()
        self._publisher.finish()
        self.abort()
        return tuple(self._infos)

    def abort(self) -> None:
        """Drop what is not published; after `finish`, nothing."""
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
        properties = table_properties(
            TableKind.RANGE,
            min_key=info.min_key,
            max_key=info.max_key,
            count=info.count,
            size=info.size,
        )
        self._table.finish(info.id, properties)
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
