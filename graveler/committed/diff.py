"""What differs between two trees, in time proportional to the difference.

Two or three trees are cut side by side into the smallest segments that can be compared
independently.
Ranges that both trees have are never opened; within the others records are compared by
key and content identity. An entry whose bytes were stored again at another address has not
changed, although its range has another id.
"""

from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from operator import attrgetter, eq
from typing import Final, NamedTuple

from graveler.committed import metarange
from graveler.committed.metarange import prefix_end, read, stream, within
from graveler.committed.range_store import RangeStore
from graveler.model import RangeInfo
from graveler.values import value_identity

_min_key = attrgetter("min_key")

Side = Sequence[RangeInfo]
Segment = tuple[tuple[RangeInfo, ...], ...]
"""The ranges of each side, in the order the sides were given."""


def split_common(*sides: Side) -> tuple[list[RangeInfo], list[list[RangeInfo]]]:
    """Return the ranges that all sides share, and what is left of each side.

    A range that every side has is a segment of its own: within a side ranges do not
    overlap, so nothing of any side overlaps it. Most ranges of most trees are such, at
    the price of a set look-up.
    """
    shared = {info.id for info in sides[0]}
    for side in sides[1:]:
        shared &= {info.id for info in side}
    common = [info for info in sides[-1] if info.id in shared]
    return common, [[info for info in side if info.id not in shared] for side in sides]


def same_ranges(one: Side, other: Side) -> bool:
    """Return whether both sides have the same ranges."""
    return [info.id for info in one] == [info.id for info in other]


def pieces(*sides: Side) -> Iterator[tuple[Side, Segment | None]]:
    """Yield, in key order, runs of ranges that all sides share, and the segments between them.

    Each item is (shared ranges, the segment after them, or None at the end).
    """
    common, rest = split_common(*sides)
    at = 0
    for segment in segments(*rest):
        start = min(side[0].min_key for side in segment if side)
        following = bisect_left(common, start, at, key=_min_key)
        yield common[at:following], segment
        at = following
    yield common[at:], None


def segments(*sides: Side) -> Iterator[Segment]:
    """Yield groups of ranges whose key intervals overlap, directly or by way of others.

    Groups come in key order; no key interval of one group touches another group.
    """
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
    """One key whose content identity differs between two trees.

    Attributes:
        key: The key.
        left_value: Value record on the left, None where the key is missing.
        right_value: Value record on the right, None where the key is missing.
    """

    key: bytes
    left_value: bytes | None
    right_value: bytes | None


def same_content(one: bytes | None, other: bytes | None) -> bool:
    """Return whether two value records have the same content identity; None (missing) equals None."""
    if one is None or other is None:
        return one is other
    return one == other or value_identity(one) == value_identity(other)


def diff(store: RangeStore, left: str, right: str, *, prefix: bytes = b"") -> Iterator[RawChange]:
    """Yield the keys under `prefix` that differ from tree `left` to tree `right`, in key order.

    Args:
        store: Where both trees are.
        left: Metarange id.
        right: Metarange id.
        prefix: Only keys that start so; ranges without any are not opened.
    """
    if left == right:
        return iter(())
    stop = prefix_end(prefix)
    return diff_ranges(
        store,
        within(read(store, left), prefix, stop),
        within(read(store, right), prefix, stop),
        start=prefix,
        stop=stop,
    )


def diff_ranges(
    store: RangeStore,
    left: Side,
    right: Side,
    *,
    start: bytes = b"",
    stop: bytes | None = None,
    same: Callable[[bytes, bytes], bool] = same_content,
) -> Iterator[RawChange]:
    """Yield the differences of two lists of ranges, from key `start` up to `stop`.

    Args:
        store: Where the ranges are.
        left: In key order.
        right: In key order.
        start: First key that counts.
        stop: First key that does not count any more.
        same: Whether two value records count as one; `eq` for any difference of a byte.
    """
    _, rest = split_common(left, right)
    for lefts, rights in segments(*rest):
        before, after = (stream(store, side, start, stop) for side in (lefts, rights))
        yield from _joined(before, after, same)


def same_records(store: RangeStore, left: str, right: str) -> bool:
    """Return whether two trees have the same records, however they are cut into ranges.

    The ids of the trees do not show it: the same records may be split differently.

    Args:
        store: Where both trees are.
        left: Metarange id.
        right: Metarange id.
    """
    if left == right:
        return True
    sides = (read(store, left), read(store, right))
    return next(diff_ranges(store, *sides, same=eq), None) is None


def _joined(
    lefts: Iterator[tuple[bytes, bytes]],
    rights: Iterator[tuple[bytes, bytes]],
    same: Callable[[bytes, bytes], bool],
) -> Iterator[RawChange]:
    left, right = next(lefts, None), next(rights, None)
    while left is not None and right is not None:
        if left[0] == right[0]:
            if not (left[1] == right[1] or same(left[1], right[1])):
                yield RawChange(left[0], left[1], right[1])
            left, right = next(lefts, None), next(rights, None)
        elif left[0] < right[0]:
            yield RawChange(left[0], left[1], None)
            left = next(lefts, None)
        else:
            yield RawChange(right[0], None, right[1])
            right = next(rights, None)
    if left is not None:
        yield RawChange(left[0], left[1], None)
        for key, value in lefts:
            yield RawChange(key, value, None)
    if right is not None:
        yield RawChange(right[0], None, right[1])
        for key, value in rights:
            yield RawChange(key, None, value)


_MOST: Final = 16

Span = tuple[bytes, bytes]


def differing_spans(store: RangeStore, left: str, right: str) -> tuple[Span, ...]:
    """Return first and last key of each stretch of ranges that one tree has and the other not.

    In key order, at most 16: of more, neighbours are joined. All differences are within them;
    not all that is within them differs. No range is opened.

    Args:
        store: Where the trees are.
        left: Metarange id.
        right: Metarange id.
    """
    if left == right:
        return ()
    _, rest = split_common(_infos(store, left), _infos(store, right))
    spans = [
        (
            min(side[0].min_key for side in segment if side),
            max(side[-1].max_key for side in segment if side),
        )
        for segment in segments(*rest)
    ]
    step = -(-len(spans) // _MOST)
    return tuple(
        (spans[at][0], spans[min(at + step, len(spans)) - 1][1])
        for at in range(0, len(spans), step or 1)
    )


def _infos(store: RangeStore, tree: str) -> Sequence[RangeInfo]:
    """Return a tree's ranges, from memory where this process has just built the tree."""
    infos = store.metaranges.get(tree)
    return metarange.read(store, tree) if infos is None else infos
