"""Two or three trees side by side, in the smallest pieces that can be decided alone."""

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from operator import attrgetter

from graveler.model import RangeInfo

_min_key = attrgetter("min_key")

Side = Sequence[RangeInfo]
Segment = tuple[tuple[RangeInfo, ...], ...]
"""The ranges of each side, in the order the sides were given."""


def split_common(*sides: Side) -> tuple[list[RangeInfo], list[list[RangeInfo]]]:
    """Return the ranges that all sides share, and what is left of each side.

    A range that every side has is a segment of its own: within a side ranges do not
    overlap, so nothing of any side overlaps it. Most ranges of most trees go this way, at
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
