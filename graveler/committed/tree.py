"""The ranges of a tree as a sequence that is decoded on access.

A tree of 160 million paths lists 20,000 ranges. A lookup needs one of them. A diff or a commit
needs those that differ. So a tree keeps the rows of its metarange, keys and values as bytes, in
memory or in the mapped local form, and decodes a row to a `RangeInfo` on access. A slice is a view
of the same rows.
"""

from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from typing import Final, Protocol, Self, overload

from graveler.errors import CorruptionError
from graveler.model import RangeInfo
from graveler.values import (
    RECORD_ID_BYTES,
    decode_range_info,
    encode_range_info,
    record_id,
    value_identity,
)

_STEP: Final = RECORD_ID_BYTES
_LONGEST_RUN: Final = 2_048
_LOOKUPS: Final = 16
"""The number of lookups by key after which the keys are copied out of the local form."""


class Rows(Protocol):
    """The rows of a metarange: the last key of each range, and the value record of the range."""

    @property
    def count(self) -> int:
        """The number of rows."""

    def key(self, row: int) -> bytes:
        """Return the last key of a range."""

    def value(self, row: int) -> bytes:
        """Return the value record of a range."""

    def keys(self, start: int = 0, stop: int | None = None) -> Sequence[bytes]:
        """Return the last keys of the ranges from `start` up to `stop`."""

    def values(self, start: int = 0, stop: int | None = None) -> Sequence[bytes]:
        """Return the value records of the ranges from `start` up to `stop`."""

    def record_ids(self, start: int = 0, stop: int | None = None) -> bytes:
        """Return their record ids, 32 bytes each."""


class RowList:
    """Rows in memory.

    Attributes:
        count: The number of rows.
    """

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


class _Decoded:
    """Rows and the decoded ranges, shared by all views."""

    __slots__ = ("_record_ids", "infos", "keys", "lookups", "rows")

    def __init__(self, rows: Rows) -> None:
        self.rows = rows
        self.infos: dict[int, RangeInfo] = {}
        self.keys: Sequence[bytes] | None = None
        self.lookups = 0
        self._record_ids: bytes | None = None

    def record_ids(self) -> bytes:
        if self._record_ids is None:
            self._record_ids = self.rows.record_ids()
        return self._record_ids

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
    """Consecutive ranges of a tree, in key order: all of them or a part.

    Args:
        rows: The rows of the metarange.
    """

    __slots__ = ("_decoded", "_start", "_stop")

    def __init__(self, rows: Rows) -> None:
        self._decoded = _Decoded(rows)
        self._start = 0
        self._stop = rows.count

    @classmethod
    def _view(cls, decoded: _Decoded, start: int, stop: int) -> Self:
        view = cls.__new__(cls)
        view._decoded = decoded
        view._start = start
        view._stop = max(start, stop)
        return view

    def __len__(self) -> int:
        return self._stop - self._start

    @overload
    def __getitem__(self, place: int) -> RangeInfo: ...

    @overload
    def __getitem__(self, place: slice) -> Self: ...

    def __getitem__(self, place: int | slice) -> RangeInfo | Self:
        if isinstance(place, slice):
            start, stop, step = place.indices(len(self))
            if step != 1:
                raise IndexError(f"a tree has no slices of step {step}")
            return self._view(self._decoded, self._start + start, self._start + stop)
        if not -len(self) <= place < len(self):
            raise IndexError(f"range {place} of {len(self)}")
        return self._decoded.info(place % len(self) + self._start)

    def __iter__(self) -> Iterator[RangeInfo]:
        return map(self._decoded.info, range(self._start, self._stop))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Sequence):
            return NotImplemented
        return len(self) == len(other) and all(
            one == another for one, another in zip(self, other, strict=True)
        )

    __hash__ = None  # type: ignore[assignment]

    def at_or_after(self, key: bytes, start: int = 0) -> int:
        """Return the position, from `start` on, of the first range that ends at or after `key`."""
        at = self._decoded.bisect(key, self._start + start, self._stop)
        return at - self._start

    def find(self, key: bytes) -> RangeInfo | None:
        """Return the only range that can hold `key`, or None if none can."""
        decoded = self._decoded
        if decoded.keys is None:
            at = decoded.bisect(key, self._start, self._stop)
        else:  # not a call: this runs for each lookup
            at = bisect_left(decoded.keys, key, self._start, self._stop)
        if at == self._stop:
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
        return self._decoded.rows.key(self._start + place)

    def ids(self) -> list[bytes]:
        """Return the ids of the ranges."""
        return [value_identity(value) for value in self.values()]

    def keys(self) -> Sequence[bytes]:
        """Return the last key of each range."""
        return self._decoded.rows.keys(self._start, self._stop)

    def values(self) -> Sequence[bytes]:
        """Return the value record of each range."""
        return self._decoded.rows.values(self._start, self._stop)

    def record_ids(self) -> bytes:
        """Return the record ids of the ranges in the metarange, 32 bytes each."""
        return self._decoded.record_ids()[_STEP * self._start : _STEP * self._stop]

    def placed_ids(self) -> tuple[bytes, int, int]:
        """Return all record ids of the metarange, uncopied, and start and stop of these ranges."""
        return self._decoded.record_ids(), self._start, self._stop


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
    least = min(map(len, trees))
    (ids, at, stop), *others = (tree.placed_ids() for tree in trees)
    head = min(
        (shared_start(ids, other, least, at, start) for other, start, _ in others), default=0
    )
    least -= head
    tail = min((_shared_end(ids, other, least, stop, end) for other, _, end in others), default=0)
    return head, tail


def shared_start(one: bytes, other: bytes, most: int, at: int = 0, other_at: int = 0) -> int:
    """Return how many record ids are equal from the rows `at` and `other_at` on, up to `most`."""
    view = memoryview(other)  # avoids copies

    def same(start: int, stop: int) -> bool:
        part = view[_STEP * (other_at + start) : _STEP * (other_at + stop)]
        return one.startswith(part, _STEP * (at + start))

    return _same_run(same, most)


def _shared_end(one: bytes, other: bytes, most: int, end: int, other_end: int) -> int:
    """Return how many record ids are equal before the rows `end` and `other_end`, up to `most`."""
    view = memoryview(other)

    def same(start: int, stop: int) -> bool:
        part = view[_STEP * (other_end - stop) : _STEP * (other_end - start)]
        return one.startswith(part, _STEP * (end - stop))

    return _same_run(same, most)


def _same_run(same: Callable[[int, int], bool], most: int) -> int:
    """Return how many positions are equal from the first on, up to `most`.

    Whole runs are compared. They grow, so that a distant difference costs little more than a near
    one. Their growth is limited, so that little is read after the difference.
    """
    low, step = 0, 1
    while low < most and same(low, min(low + step, most)):
        low, step = min(low + step, most), min(8 * step, _LONGEST_RUN)
    if low == most:
        return low
    high = min(low + step, most)
    while high - low > 1:
        middle = (low + high) // 2
        if same(low, middle):
            low = middle
        else:
            high = middle
    return low
