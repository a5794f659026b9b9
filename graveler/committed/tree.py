"""The ranges of a tree as a sequence that is decoded on access: few of thousands are needed.

A tree keeps the rows of its metarange as bytes, in memory or in the mapped local form. A slice is a
view.
"""

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from typing import Self, overload

from xxhash import xxh3_128_digest

from graveler.committed.cache.flat import FlatTable
from graveler.errors import CorruptionError
from graveler.model import RangeInfo
from graveler.values import (
    RECORD_ID_BYTES,
    decode_range_info,
    encode_range_info,
    record_id,
    value_identity,
)

_STEP = RECORD_ID_BYTES
_LONGEST_RUN = 2_048
_BLOCK = 1_024
"""The number of consecutive ranges that share a sum, with which long trees are compared."""
_SUM = 16
_LOOKUPS = 16
"""The number of lookups by key after which the keys are copied out of the local form."""


class RowList:
    """Rows in memory."""

    def __init__(self, keys: list[bytes], values: list[bytes], record_ids: bytes) -> None:
        self.count = len(keys)
        self._keys = keys
        self._values = values
        self._record_ids = record_ids

    def key(self, row: int) -> bytes:
        """Return the last key of a range."""
        return self._keys[row]

    def value(self, row: int) -> bytes:
        """Return the value record of a range."""
        return self._values[row]

    def keys(self, start: int = 0, stop: int | None = None) -> Sequence[bytes]:
        """Return the last keys of the ranges from `start` up to `stop`."""
        return self._keys[start:stop]

    def values(self, start: int = 0, stop: int | None = None) -> Sequence[bytes]:
        """Return the value records of the ranges from `start` up to `stop`."""
        return self._values[start:stop]

    def record_ids(self, start: int = 0, stop: int | None = None) -> bytes:
        """Return their record ids, 32 bytes each."""
        return self._record_ids[_STEP * start : None if stop is None else _STEP * stop]


Rows = FlatTable | RowList
"""The rows of a metarange: the last key of each range, and the value record of the range."""


class _Decoded:
    """Rows and the decoded ranges, shared by all views."""

    __slots__ = ("_record_ids", "_sums", "infos", "keys", "lookups", "rows")

    def __init__(self, rows: Rows) -> None:
        self.rows = rows
        self.infos: dict[int, RangeInfo] = {}
        self.keys: Sequence[bytes] | None = None
        self.lookups = 0
        self._record_ids: bytes | None = None
        self._sums: bytes | None = None

    def record_ids(self) -> bytes:
        if self._record_ids is None:
            self._record_ids = self.rows.record_ids()
        return self._record_ids

    def sums(self) -> bytes:
        """Return the sums of the blocks of record ids, computed once.

        Record ids are SHA-256, which cannot be chosen, so that a fast hash suffices.
        """
        if self._sums is None:
            ids, size = memoryview(self.record_ids()), _STEP * _BLOCK
            blocks = [ids[at : at + size] for at in range(0, len(ids), size)]
            self._sums = b"".join(map(xxh3_128_digest, blocks))
        return self._sums

    def info(self, row: int) -> RangeInfo:
        info = self.infos.get(row)
        if info is None:
            key = self.rows.key if self.keys is None else self.keys.__getitem__
            info = decode_range_info(key(row), self.rows.value(row))
            last = key(row - 1) if row else b""
            if not last < info.min_key <= info.max_key:
                raise CorruptionError(
                    f"a metarange has range {info.id.hex()} of {info.min_key!r} to "
                    f"{info.max_key!r} after {last!r}"
                )
            self.infos[row] = info
        return info

    def bisect(self, key: bytes, low: int, high: int) -> int:
        """Return the first row from `low` up to `high` whose range ends at or after `key`."""
        if self.keys is None:
            self.lookups += 1
            if self.lookups <= _LOOKUPS:
                return bisect_left(range(self.rows.count), key, low, high, key=self.rows.key)
            self.keys = self.rows.keys()
        return bisect_left(self.keys, key, low, high)


class Tree(Sequence[RangeInfo]):
    """Consecutive ranges of a tree, in key order: all of them or a part."""

    __slots__ = ("_decoded", "_rows")

    def __init__(self, rows: Rows) -> None:
        self._decoded = _Decoded(rows)
        self._rows = range(rows.count)

    def __len__(self) -> int:
        return len(self._rows)

    @overload
    def __getitem__(self, place: int) -> RangeInfo: ...

    @overload
    def __getitem__(self, place: slice) -> Self: ...

    def __getitem__(self, place: int | slice) -> RangeInfo | Self:
        rows = self._rows[place]
        if isinstance(rows, int):
            return self._decoded.info(rows)
        view = type(self).__new__(type(self))
        view._decoded, view._rows = self._decoded, rows
        return view

    def __iter__(self) -> Iterator[RangeInfo]:
        return map(self._decoded.info, self._rows)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Sequence):
            return NotImplemented
        return len(self) == len(other) and all(
            one == another for one, another in zip(self, other, strict=True)
        )

    __hash__ = None  # type: ignore[assignment]

    def at_or_after(self, key: bytes, start: int = 0) -> int:
        """Return the position, from `start` on, of the first range that ends at or after `key`."""
        at = self._decoded.bisect(key, self._rows.start + start, self._rows.stop)
        return at - self._rows.start

    def find(self, key: bytes) -> RangeInfo | None:
        """Return the only range that can hold `key`, or None if none can."""
        decoded, rows = self._decoded, self._rows
        if decoded.keys is None:
            at = decoded.bisect(key, rows.start, rows.stop)
        else:  # not a call: this runs for each lookup
            at = bisect_left(decoded.keys, key, rows.start, rows.stop)
        if at >= rows.stop:
            return None
        info = decoded.infos.get(at) or decoded.info(at)
        return info if info.min_key <= key else None

    def within(self, start: bytes = b"", stop: bytes | None = None) -> Self:
        """Return the ranges that can hold a key from `start` up to, not including, `stop`."""
        first = self.at_or_after(start) if start else 0
        if stop is None:
            return self[first:]
        last = self.at_or_after(stop, first)
        if last < len(self) and self[last].min_key < stop:
            last += 1
        return self[first:last]

    def last_key(self, place: int) -> bytes:
        """Return the last key of a range."""
        return self._decoded.rows.key(self._rows[place])

    def ids(self) -> list[bytes]:
        """Return the ids of the ranges."""
        return [value_identity(value) for value in self.values()]

    def keys(self) -> Sequence[bytes]:
        """Return the last key of each range."""
        return self._decoded.rows.keys(self._rows.start, self._rows.stop)

    def values(self) -> Sequence[bytes]:
        """Return the value record of each range."""
        return self._decoded.rows.values(self._rows.start, self._rows.stop)

    def record_ids(self) -> bytes:
        """Return the record ids of the ranges in the metarange, 32 bytes each."""
        return self._decoded.record_ids()[_STEP * self._rows.start : _STEP * self._rows.stop]

    def sums(self) -> bytes:
        """Return the sums of the blocks of a whole tree of many ranges; empty for any other."""
        decoded = self._decoded
        whole = len(self) == decoded.rows.count > 2 * _BLOCK
        return decoded.sums() if whole else b""

    def placed_ids(self) -> tuple[bytes, int, int]:
        """Return all record ids of the metarange, uncopied, and start and stop of these ranges."""
        return self._decoded.record_ids(), self._rows.start, self._rows.stop


class TreeBuilder:
    """The ranges of a new tree, in key order. Ranges of other trees are added without decoding."""

    def __init__(self) -> None:
        self._keys: list[bytes] = []
        self._values: list[bytes] = []
        self._ids = bytearray()
        self._infos: dict[int, RangeInfo] = {}

    def __len__(self) -> int:
        return len(self._keys)

    def __getitem__(self, place: int) -> RangeInfo:
        row = range(len(self._keys))[place]
        info = self._infos.get(row)
        if info is None:
            info = self._infos[row] = decode_range_info(self._keys[row], self._values[row])
        return info

    def append(self, info: RangeInfo) -> None:
        """Add a range at the end."""
        value = encode_range_info(info)
        self._infos[len(self._keys)] = info
        self._keys.append(info.max_key)
        self._values.append(value)
        self._ids += record_id(info.max_key, value)

    def extend(self, infos: Sequence[RangeInfo]) -> None:
        """Add consecutive ranges at the end."""
        if isinstance(infos, Tree):
            self._keys += infos.keys()
            self._values += infos.values()
            self._ids += infos.record_ids()
        else:
            for info in infos:
                self.append(info)

    def pop(self, count: int) -> list[RangeInfo]:
        """Remove the last `count` ranges. Return them in key order."""
        first = len(self._keys) - count
        infos = [self[row] for row in range(first, len(self._keys))]
        for row in range(first, len(self._keys)):
            del self._infos[row]
        del self._keys[first:], self._values[first:], self._ids[_STEP * first :]
        return infos

    def tree(self) -> Tree:
        """Return the tree of all ranges."""
        tree = Tree(RowList(self._keys, self._values, bytes(self._ids)))
        tree._decoded.infos.update(self._infos)
        return tree


def tree_of(infos: Sequence[RangeInfo]) -> Tree:
    """Return ranges as a tree."""
    if isinstance(infos, Tree):
        return infos
    builder = TreeBuilder()
    builder.extend(infos)
    return builder.tree()


def shared_ends(*trees: Tree) -> tuple[int, int]:
    """Return how many ranges all trees share at the start, and how many of the rest at the end."""
    head, tail = _shared_blocks(*trees)
    rest = min(map(len, trees)) - head - tail
    (ids, at, stop), *others = (tree.placed_ids() for tree in trees)
    starts = (shared_start(ids, other, rest, at + head, start + head) for other, start, _ in others)
    head += (more := min(starts, default=0))
    rest -= more
    ends = (_shared_end(ids, other, rest, stop - tail, end - tail) for other, _, end in others)
    return head, tail + min(ends, default=0)


def _shared_blocks(*trees: Tree) -> tuple[int, int]:
    """Return what `shared_ends` returns, in whole blocks, so that few bytes are read."""
    sums, *others = (tree.sums() for tree in trees)
    if not sums or not all(others):
        return 0, 0
    count = len(trees[0])
    most = min(map(len, trees)) // _BLOCK
    head = min((shared_start(sums, other, most, size=_SUM) for other in others), default=0)
    if any(len(tree) != count for tree in trees):
        return head * _BLOCK, 0
    blocks = len(sums) // _SUM
    ends = (_shared_end(sums, other, blocks - head, blocks, blocks, _SUM) for other in others)
    tail = min(ends, default=0)
    return head * _BLOCK, count - (blocks - tail) * _BLOCK if tail else 0


def shared_start(
    one: bytes, other: bytes, most: int, at: int = 0, other_at: int = 0, size: int = _STEP
) -> int:
    """Return how many items are equal from the rows `at` and `other_at` on, up to `most`."""
    return _same_run(one, other, most, size * at, size * other_at, size, back=False)


def _shared_end(
    one: bytes, other: bytes, most: int, end: int, other_end: int, size: int = _STEP
) -> int:
    """Return how many items are equal before the rows `end` and `other_end`, up to `most`."""
    return _same_run(one, other, most, size * end, size * other_end, size, back=True)


def _same_run(
    one: bytes, other: bytes, most: int, at: int, other_at: int, size: int, *, back: bool
) -> int:
    """Return how many items are equal from the bytes `at` and `other_at` on, or before them."""
    view, same = memoryview(other), one.startswith  # no copies, and no calls of our own
    low, high, step = 0, min(1, most), 1
    while low < most:
        first, last = (-high, -low) if back else (low, high)
        if not same(view[other_at + size * first : other_at + size * last], at + size * first):
            break
        low, step = high, min(8 * step, _LONGEST_RUN)
        high = min(low + step, most)
    while high - low > 1:
        middle = (low + high) // 2
        first, last = (-middle, -low) if back else (low, middle)
        if same(view[other_at + size * first : other_at + size * last], at + size * first):
            low = middle
        else:
            high = middle
    return low
