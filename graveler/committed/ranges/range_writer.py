"""Writing sorted records as ranges: cut by the splitting policy, named by content, published.

A range that a commit ended, not the policy, is a *fragment*. New records after fragments are held
in memory. If the policy ends a range of both, all are written again, so that equal records get
equal ranges. If it does not, they are joined with fragments of at most twice their size, or become
a fragment of their own.
"""

from array import array
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future
from dataclasses import replace
from functools import partial
from itertools import chain, count, islice
from operator import lt
from types import TracebackType

from graveler.base.background import Threads
from graveler.committed import metarange
from graveler.committed.cache.flat import Record
from graveler.committed.cache.table import FinishedTable, Scratch
from graveler.committed.ranges.encoder import RangeEncoder, columns, refuse_keys
from graveler.committed.ranges.range_store import RangeStore
from graveler.committed.splitting import MANY, Cutter, Splitting
from graveler.committed.tree import Tree, TreeBuilder
from graveler.errors import StateError
from graveler.model import RANGE_KEY_BYTES, RangeInfo

_WAITING_EACH = 2
_TOGETHER = 8
_TOGETHER_BYTES = 8 << 20
_BATCH = 512
_SMALL_BATCHES = 64
_ABSORB = 2


class Publisher:
    """Publishes the range files of one writer: one file for each thread, or batches in one thread.

    After a file could not be put, every later call except `abort` raises the same error.
    """

    def __init__(self, store: RangeStore, *, hold: bool) -> None:
        self._store = store
        self._hold = hold
        self._threads = store.objects.put_threads
        self._together = 1 if self._threads else _TOGETHER
        self._kept: list[FinishedTable] = []
        self._bytes = 0
        self._pool: Threads | None = None
        self._waiting: deque[Future[None]] = deque()

    def add(self, table: FinishedTable) -> None:
        """Add a finished file. Raises the error of an earlier file."""
        self._kept.append(table)
        if self._hold:
            return
        if self._threads:
            if len(self._kept) + len(self._waiting) > 1:
                self._submit()
        else:
            self._bytes += table.file.load()
            if len(self._kept) >= _TOGETHER or self._bytes >= _TOGETHER_BYTES:
                self._submit()  # the disk works while the next files are made

    def finish(self, last: Callable[[], FinishedTable] | None = None) -> None:
        """Wait until all files are in the store. Raises the first error.

        Args:
            last: Makes one more file. With threads, it is put together with the others. Without
                threads, it is put after them.
        """
        if self._threads and (self._pool or len(self._kept) > 1 or last is not None):
            self._submit()
        elif not self._threads:
            if len(self._kept) > self._together:
                self._submit()
            while self._waiting:
                self._settle_first()
        if last is not None:
            self._kept.append(last())
        if self._kept:
            self._put(self._kept)
            self._kept.clear()  # not after an error: the next call raises it again
        while self._waiting:
            self._settle_first()

    def abort(self) -> None:
        """Discard the waiting files, and wait until the current uploads are complete."""
        self._kept.clear()
        self._waiting.clear()
        if self._pool is not None:
            self._pool.shutdown(wait=True, cancel_futures=True)
            self._pool = None

    def _submit(self) -> None:
        most = _WAITING_EACH * self._threads or 1
        if self._kept and self._pool is None:
            self._pool = Threads(self._threads or 1, thread_name_prefix="graveler-put")
        while self._kept and self._pool is not None:
            if len(self._waiting) >= most:
                self._settle_first()
            self._waiting.append(self._pool.submit(self._put, self._kept[: self._together]))
            del self._kept[: self._together]
        self._bytes = 0

    def _settle_first(self) -> None:
        self._waiting[0].result()  # a failed file stays: the next call raises its error again
        self._waiting.popleft()

    def _put(self, tables: Sequence[FinishedTable]) -> None:
        self._store.publish(tables)
        for table in tables:
            table.file.close()


class RangeWriter:
    """Writes the ranges of one tree, in key order."""

    def __init__(self, store: RangeStore, splitting: Splitting, *, hold: bool = False) -> None:
        self._store = store
        self._cutter = Cutter(splitting)
        self._most = splitting.max_bytes
        self._publisher = Publisher(store, hold=hold)
        self._scratch = Scratch(store.cache.scratch, largest=splitting.max_bytes)
        self._infos = TreeBuilder()
        self._own = 0  # the number of ranges up to the last one that this writer has written
        self._fragments = 0  # how many of the last ranges may be written again
        self._before = b""  # the key that followed the last added ranges in their own tree
        self._held: list[Record] = []  # the records after the fragments
        self._range: RangeEncoder | None = None
        self._last = b""  # the last key that was added
        self._end_key = b""  # the last key of the current range
        self._size = 0  # of the current range, or of the fragments and the held records
        self._finished = False

    def __enter__(self) -> "RangeWriter":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        current, self._range = self._range, None
        try:
            if current is not None:
                current.table.__exit__(kind, error, trace)  # translates RocksDB's errors
        finally:
            self.abort()

    def add_all(self, records: Iterable[Record]) -> None:
        """Write records in key order."""
        if self._finished:
            raise StateError("the ranges of this writer are finished: make another writer")
        for batch in _batches(records):
            key, last = batch[0][0], self._last
            if key <= last:
                refuse_keys([key], last)
            if self._range is None and not self._held:
                self._look_left(key)
            if self._fragments:
                self._hold(batch)
            else:
                self._write(batch)
            self._last = batch[-1][0]

    def add_ranges(self, infos: Sequence[RangeInfo], *, before: bytes = b"") -> None:
        """End the current range, and add consecutive ranges of an existing tree.

        Args:
            before: The key that follows them in that tree, or b"" if unknown. If the same key
                follows in the new tree, the last range keeps its `natural`.
        """
        if not infos:
            return
        if infos[0].min_key <= self._last:
            refuse_keys((infos[0].min_key,), self._last)
        self._end(infos[0].min_key)
        self._infos.extend(infos)
        self._before = before
        self._last = infos[-1].max_key

    def ends_before(self, next_key: bytes) -> bool:
        """Return whether the policy ends a range between the last record and `next_key`."""
        return self._range is None or self._cutter.cut(self._last, next_key, self._size)

    def finish(self, *, before: bytes | None = None) -> Tree:
        """End the last range, publish the held ranges, and return all ranges in key order."""
        tree = self._ended(before)
        self._publisher.finish()
        self.abort()
        return tree

    def finish_tree(self) -> tuple[str, Tree]:
        """Finish like `finish`, and publish the metarange together with the last ranges.

        Returns:
            The id of the tree in hex, and its ranges. All are in the store.
        """
        tree = self._ended(None)
        table = partial(metarange.table_of, self._store, tree, self._scratch.file())
        self._publisher.finish(table if tree else None)
        self.abort()
        return metarange.remember(self._store, tree), tree

    def _ended(self, before: bytes | None) -> Tree:
        if self._finished:
            raise StateError("the ranges of this writer are finished: make another writer")
        self._end(before)
        return self._infos.tree()

    def abort(self) -> None:
        """Discard the ranges that are not published. Does nothing after `finish`."""
        self._finished = True
        self._publisher.abort()  # first, so that its threads end even if the rest raises
        if self._range is not None:
            self._range.table.abort()
            self._range = None
        self._scratch.close()

    def _judge(self, next_key: bytes | None) -> bool:
        """Update whether the last range, an existing one, ends naturally before `next_key`."""
        info = self._infos[-1]
        if next_key is not None and next_key == self._before:
            return info.natural
        natural = self._cutter.cut(info.max_key, next_key, info.size)
        if natural != info.natural:
            self._infos.pop(1)
            self._infos.append(replace(info, natural=natural))
        return natural

    def _look_left(self, next_key: bytes) -> None:
        """Find the fragments that end where new records start."""
        size = 0
        if len(self._infos) > self._own and not self._judge(next_key):
            for place in range(len(self._infos) - 1, self._own - 1, -1):
                info = self._infos[place]
                if info.natural or size + info.size > self._most:
                    break
                size += info.size
                self._fragments += 1
        self._size = size

    def _hold(self, batch: Sequence[Record]) -> None:
        """Hold records after fragments until the policy ends a range of both."""
        parts, _ = columns(batch)
        keys, lengths = parts[::2], list(map(len, parts))
        if not all(map(lt, keys, keys[1:])):  # no table checks them yet
            refuse_keys(keys, self._last)
        self._held += batch
        cuts, self._size = self._cutter.cuts(self._last, self._size, keys, lengths)
        if cuts:
            self._write_again(self._fragments)

    def _end(self, next_key: bytes | None) -> None:
        """End the current range, or the last one, before `next_key`."""
        cut = self._cutter.cut
        if self._held:
            # The next key does not count. Records appended to a table end before the next table in
            # every commit, and would be written again with all fragments each time.
            if cut(self._last, None, self._size):
                self._write_again(self._fragments)
            else:
                self._write_again(self._absorbed())
        if self._range is not None:
            self._close(natural=cut(self._last, next_key, self._size))
        elif len(self._infos) > self._own:
            self._judge(next_key)
        self._size = 0

    def _absorbed(self) -> int:
        """Return how many of the fragments are written together with the held records."""
        size = sum(len(key) + len(value) for key, _, value in self._held)
        for at in range(self._fragments):
            fragment = self._infos[-1 - at].size
            if fragment > _ABSORB * size:
                return at
            size += fragment
        return self._fragments

    def _write_again(self, count: int) -> None:
        """Write the records of the last `count` ranges and the held records."""
        held, self._held = self._held, []
        self._fragments = 0
        infos = self._infos.pop(count)
        self._size = 0
        tables = (self._store.open_range(info, numbered=True) for info in infos)
        records = chain.from_iterable(table.records() for table in tables)
        for batch in _batches(chain(records, held)):
            self._write(batch)

    def _write(self, batch: Sequence[Record]) -> None:
        """Write records in ranges that the policy cuts."""
        parts, ids = columns(batch)
        keys, lengths = parts[::2], list(map(len, parts))
        if max(lengths[::2]) > RANGE_KEY_BYTES:
            refuse_keys(keys, b"")
        size = 0 if self._range is None else self._size
        cuts, left = self._cutter.cuts(self._end_key, size, keys, lengths)
        start = 0
        for place, ended in cuts:
            self._fill(parts, lengths, ids, start, place)
            self._size = ended
            self._close(natural=True)
            start = place
        self._fill(parts, lengths, ids, start, len(ids))
        self._size = left

    def _fill(
        self,
        parts: list[bytes],
        lengths: list[int],
        ids: list[bytes],
        start: int,
        stop: int,
    ) -> None:
        """Add the records from `start` to `stop` to the current range."""
        if start == stop:
            return
        if self._range is None:
            refuse_keys(parts[2 * start : 2 * start + 1], self._end_key)
            file = self._scratch.file()
            self._range = RangeEncoder(self._store.table_writer(file), file)
        some = slice(2 * start, 2 * stop)
        self._range.add(parts[some], array("I", lengths[some]), b"".join(ids[start:stop]))
        self._end_key = parts[2 * stop - 2]

    def _close(self, *, natural: bool) -> None:
        """End the current range, and publish it."""
        if self._range is None:
            return
        info, table = self._range.finish(self._size, natural=natural)
        self._range = None
        self._infos.append(info)
        self._own = len(self._infos)
        self._publisher.add(table)


def _batches(records: Iterable[Record]) -> Iterator[list[Record]]:
    """Yield the records in batches, small ones first, so that few records need no numpy."""
    left = iter(records)
    for number in count():
        batch = list(islice(left, _BATCH if number < _SMALL_BATCHES else MANY))
        if not batch:
            return
        yield batch
