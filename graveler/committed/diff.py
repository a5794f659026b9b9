"""Differences between trees, found in time proportional to the difference.

Trees are cut side by side into the smallest segments that can be compared independently. Ranges
that all trees have are never opened; elsewhere, records are compared by key and content identity.
"""

from collections.abc import Callable, Iterator, Sequence
from operator import eq
from typing import NamedTuple

from graveler.committed.cache.flat import FlatTable
from graveler.committed.metarange import prefix_end, read
from graveler.committed.ranges.range_store import RangeStore
from graveler.committed.tree import Tree, shared_ends, shared_start, tree_of
from graveler.model import RangeInfo
from graveler.values import value_identity

_FEW = 64
"""The maximum number of ranges of a side that are compared one by one."""
_ROWS_AT_ONCE = 512

Side = Sequence[RangeInfo]
Segment = tuple[tuple[RangeInfo, ...], ...]
"""The ranges of each side, in the order of the sides."""


def differing(*sides: Side) -> list[list[RangeInfo]]:
    """Return, for each side, the ranges that not all sides have.

    A range that every side has is a segment of its own. Ranges of a side do not overlap, so no
    other range overlaps it. Shared ranges at the start and at the end of all sides are skipped in
    runs. The ranges between them are halved at a key until few ranges are left.
    """
    rest: list[list[RangeInfo]] = [[] for _ in sides]
    waiting = [[tree_of(side) for side in sides]]
    while waiting:
        trees = waiting.pop()
        if max(map(len, trees)) > _FEW:
            head, tail = shared_ends(*trees)
            trees = [tree[head : len(tree) - tail] for tree in trees]
            longest = max(trees, key=len)
            if len(longest) > _FEW and all(trees):
                behind = longest.last_key(len(longest) // 2) + b"\0"
                cuts = [tree.at_or_after(behind) for tree in trees]
                waiting.append([tree[cut:] for tree, cut in zip(trees, cuts, strict=True)])
                waiting.append([tree[:cut] for tree, cut in zip(trees, cuts, strict=True)])
                continue
        ids = [tree.ids() for tree in trees]
        shared = set(ids[0]).intersection(*ids[1:])
        for side, tree, own in zip(rest, trees, ids, strict=True):
            side.extend(tree[at] for at, each in enumerate(own) if each not in shared)
    return rest


def same_ranges(one: Side, other: Side) -> bool:
    """Return whether both sides have the same ranges."""
    return [info.id for info in one] == [info.id for info in other]


def pieces(*sides: Side) -> Iterator[tuple[Tree, Segment | None]]:
    """Yield, in key order, runs of ranges that all sides share, and the segments between them."""
    last = tree_of(sides[-1])
    at = 0
    for segment in segments(*differing(*sides)):
        following = last.at_or_after(span_of(segment)[0], at)
        yield last[at:following], segment
        at = following + len(segment[-1])
    yield last[at:], None


def span_of(segment: Segment) -> tuple[bytes, bytes]:
    """Return the first and the last key of a segment."""
    ends = [(side[0].min_key, side[-1].max_key) for side in segment if side]
    return min(first for first, _ in ends), max(last for _, last in ends)


def segments(*sides: Side) -> Iterator[Segment]:
    """Yield groups of ranges whose key intervals overlap, directly or through other ranges."""
    tagged = [(info.min_key, place, info) for place, side in enumerate(sides) for info in side]
    tagged.sort(key=lambda item: item[:2])
    group: list[list[RangeInfo]] = [[] for _ in sides]
    end = b""
    for min_key, place, info in tagged:
        if min_key > end and any(group):
            yield tuple(map(tuple, group))
            group = [[] for _ in sides]
        group[place].append(info)
        end = max(end, info.max_key)
    if any(group):
        yield tuple(map(tuple, group))


class RawChange(NamedTuple):
    """One key whose content identity differs between two trees."""

    key: bytes
    left_value: bytes | None
    right_value: bytes | None


def same_content(one: bytes | None, other: bytes | None) -> bool:
    """Return whether two value records have the same content identity. None equals only None."""
    if one is None or other is None:
        return one is other
    return one == other or value_identity(one) == value_identity(other)


def diff(store: RangeStore, left: str, right: str, *, prefix: bytes = b"") -> Iterator[RawChange]:
    """Yield the keys under `prefix` that differ from tree `left` to tree `right`, in key order."""
    if left == right:
        return iter(())
    stop = prefix_end(prefix)
    sides = (read(store, tree).within(prefix, stop) for tree in (left, right))
    return diff_ranges(store, *sides, start=prefix, stop=stop)


def diff_ranges(
    store: RangeStore,
    left: Side,
    right: Side,
    *,
    start: bytes = b"",
    stop: bytes | None = None,
    same: Callable[[bytes, bytes], bool] = same_content,
) -> Iterator[RawChange]:
    """Yield the differences of two lists of ranges, from key `start` up to `stop`."""
    for lefts, rights in segments(*differing(left, right)):
        before, after = (_Cursor(store, side, start, stop) for side in (lefts, rights))
        yield from _joined(before, after, same)


def same_records(store: RangeStore, left: str, right: str) -> bool:
    """Return whether two trees have the same records, even in different ranges.

    The ids of the trees do not tell: the same records can be split differently.
    """
    return left == right or next(record_diff(store, left, right), None) is None


def record_diff(store: RangeStore, left: str, right: str) -> Iterator[RawChange]:
    """Yield the keys whose records differ, even if their content is equal."""
    return diff_ranges(store, read(store, left), read(store, right), same=eq)


class _Cursor:
    """A position in consecutive ranges. Each range is opened when the cursor reaches it."""

    def __init__(self, store: RangeStore, infos: Side, start: bytes, stop: bytes | None) -> None:
        self._tables = store.ahead(infos, numbered=True)
        self._records: list[tuple[bytes, bytes]] = []  # a batch of rows
        self._behind = 0  # the row after the batch
        self._start = start
        self._stop = stop
        self.table: FlatTable | None = None
        self._next_table()

    def _next_table(self) -> None:
        self.row = self.end = self._behind = 0
        self._records.clear()
        while self.row >= self.end:
            self.table = next(self._tables, None)
            if self.table is None:
                return
            self.row = self.table.bisect(self._start) if self._start else 0
            count = self.table.count
            self.end = count if self._stop is None else self.table.bisect(self._stop, self.row)
            self.ids = self.table.record_ids()

    def record(self) -> tuple[bytes, bytes]:
        """Return key and value record of the current row."""
        if self.table is not None and self.row >= self._behind:
            follows = self.row == self._behind and self._records
            count = min(4 * len(self._records) if follows else 1, _ROWS_AT_ONCE)
            self._behind = min(self.row + count, self.end)
            run = self.table.run(self.row, self._behind)
            self._records = list(zip(*run.columns(), strict=True))
        return self._records[self.row - self._behind]

    def advance(self, rows: int) -> None:
        """Advance by `rows` rows of the range."""
        self.row += rows
        if self.row >= self.end:
            self._next_table()


def _joined(
    left: _Cursor, right: _Cursor, same: Callable[[bytes, bytes], bool]
) -> Iterator[RawChange]:
    while left.table is not None and right.table is not None:
        # records with equal ids are equal: they are skipped in runs and not read
        most = min(left.end - left.row, right.end - right.row)
        equal = shared_start(left.ids, right.ids, most, left.row, right.row)
        if equal:
            left.advance(equal)
            right.advance(equal)
            continue
        (key, value), (other, other_value) = left.record(), right.record()
        if key == other:
            if not same(value, other_value):
                yield RawChange(key, value, other_value)
            left.advance(1)
            right.advance(1)
        elif key < other:
            yield RawChange(key, value, None)
            left.advance(1)
        else:
            yield RawChange(other, None, other_value)
            right.advance(1)
    while left.table is not None:
        yield RawChange(*left.record(), None)
        left.advance(1)
    while right.table is not None:
        key, value = right.record()
        yield RawChange(key, None, value)
        right.advance(1)


_MOST = 16

Span = tuple[bytes, bytes]


def differing_spans(store: RangeStore, left: str, right: str) -> tuple[Span, ...]:
    """Return first and last key of each stretch of ranges that only one of the trees has.

    At most 16 spans are returned, in key order. Further spans are joined with their neighbours.
    All differences are within the spans, but not every key of a span differs. No range is opened.
    """
    if left == right:
        return ()
    rest = differing(read(store, left), read(store, right))
    spans = list(map(span_of, segments(*rest)))
    step = -(-len(spans) // _MOST)
    return tuple(
        (spans[at][0], spans[min(at + step, len(spans)) - 1][1])
        for at in range(0, len(spans), step or 1)
    )
