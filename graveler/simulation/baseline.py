"""lakeFS's rule for comparison: where it ends ranges, and which ranges a commit writes again.

If tables share its large ranges, a commit writes nearly the whole tree again. For speed, records are
columns here, and the records between two changes are copied at once.
"""

from array import array
from bisect import bisect_left
from collections.abc import Iterable, Iterator
from itertools import groupby
from typing import Any, cast

import numpy as np
from xxhash import xxh64_intdigest as xxh64

from graveler.committed import metarange
from graveler.committed.apply import StagedChange
from graveler.committed.splitting import HASH_MASK, Splitting
from graveler.model import RangeInfo
from graveler.simulation.memory import MemoryRange, MemoryRanges
from graveler.values import RECORD_ID_BYTES, range_id

LAKEFS = Splitting("hash", max_bytes=20 << 20, raggedness=50_000, hard=1)
"""The defaults of lakeFS: a range ends at 20 MiB, or after one key in 50,000."""


def apply_as_lakefs(
    store: MemoryRanges, base: str, changes: Iterable[StagedChange], splitting: Splitting
) -> str:
    """Return the tree `base` with `changes`, rewritten as lakeFS does.

    A change touches the first range that ends at or after its key, even if the key comes before the
    first key of that range. A touched range is written again. An untouched range is reused by its
    id, and ends the range that is being written. Changes after the last range make a new range.

    Args:
        store: The store of the trees. Only trees that this function wrote can be a base.
        changes: The changes in key order, each key once.
        splitting: The policy; its largest size, raggedness and number are used.
    """
    infos = metarange.read(store, base)
    touched = groupby(changes, key=lambda change: infos.at_or_after(change[0]))
    result: list[RangeInfo] = []
    rows = _Columns(splitting)  # rows of adjacent touched ranges
    at = 0
    for place, group in touched:
        if place > at:
            result += rows.written(store)
            rows = _Columns(splitting)
        result += infos[at:place]
        # this function has made all ranges of the base
        old = cast("_Range", store.open_range(infos[place])) if place < len(infos) else None
        rows.lay(old, group)
        at = place + 1
    result += rows.written(store)
    result += infos[at:]
    return metarange.write(store, result)


def cuts(ends: "np.typing.NDArray[Any]", breaks: Iterable[int], most: int) -> Iterator[int]:
    """Yield the last row of each range that rows are cut into.

    Args:
        ends: Logical bytes up to and including each row.
        breaks: Rows after which the hash of the key ends a range, ascending.
    """
    left = iter(breaks)
    hashed = next(left, None)
    start, size = 0, 0
    while start < len(ends):
        last = min(int(np.searchsorted(ends, size + most)), len(ends) - 1)
        if hashed is not None and hashed <= last:
            last, hashed = hashed, next(left, None)
        yield last
        start, size = last + 1, int(ends[last])


class _Range(MemoryRange):
    """A range with the data for its next rewriting.

    Attributes:
        sizes: Logical bytes of each record.
        breaks: Rows after which the hash of the key ends a range.
    """

    def __init__(self, rows: "_Columns", start: int, stop: int) -> None:
        ids = bytes(rows.ids[RECORD_ID_BYTES * start : RECORD_ID_BYTES * stop])
        super().__init__(rows.keys[start:stop], rows.values[start:stop], ids)
        self.sizes = rows.sizes[start:stop]
        self.breaks = [row - start for row in rows.breaks if start <= row < stop]


class _Columns:
    """Consecutive records to cut into ranges."""

    def __init__(self, splitting: Splitting) -> None:
        self._most = splitting.max_bytes
        self._raggedness = splitting.raggedness
        self._seed = splitting.seed
        self.keys: list[bytes] = []
        self.values: list[bytes] = []
        self.ids = bytearray()
        self.sizes = array("q")
        self.breaks: list[int] = []

    def lay(self, old: _Range | None, changes: Iterable[StagedChange]) -> None:
        """Add the records of a range with the changes applied."""
        keys = [] if old is None else old.keys()
        at = 0
        for key, identifier, value in changes:
            place = bisect_left(keys, key, at)
            self._copy(old, at, place)
            at = place + (place < len(keys) and keys[place] == key)
            if identifier is not None and value is not None:
                self._add(key, identifier, value)
        self._copy(old, at, len(keys))

    def _add(self, key: bytes, identifier: bytes, value: bytes) -> None:
        if not (xxh64(key, self._seed) & HASH_MASK) % self._raggedness:
            self.breaks.append(len(self.keys))
        self.keys.append(key)
        self.values.append(value)
        self.ids += identifier
        self.sizes.append(len(key) + len(value))

    def _copy(self, old: _Range | None, start: int, stop: int) -> None:
        if old is None or start == stop:
            return
        moved = len(self.keys) - start
        self.breaks += (row + moved for row in old.breaks if start <= row < stop)
        self.keys += old.keys(start, stop)
        self.values += old.values(start, stop)
        self.ids += old.record_ids(start, stop)
        self.sizes += old.sizes[start:stop]

    def written(self, store: MemoryRanges) -> Iterator[RangeInfo]:
        """Cut the records into ranges, and yield the ranges."""
        ends = np.cumsum(np.frombuffer(self.sizes, np.int64)) if self.sizes else np.zeros(0)
        start, size = 0, 0
        for last in cuts(ends, self.breaks, self._most):
            yield self._range(store, start, last + 1, int(ends[last]) - size)
            start, size = last + 1, int(ends[last])

    def _range(self, store: MemoryRanges, start: int, stop: int, size: int) -> RangeInfo:
        made = _Range(self, start, stop)
        natural = size >= self._most or bool(made.breaks)
        identifier = range_id((made.record_ids(),))
        store.keep(identifier, made)
        return RangeInfo(identifier, made.key(0), made.key(-1), made.count, size, natural=natural)
