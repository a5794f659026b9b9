"""Several staging tokens read as one, the newest write of a path winning."""

from collections.abc import Iterable, Iterator, Sequence
from heapq import merge
from operator import itemgetter

__all__ = ["combine"]

_Item = tuple[bytes, bytes]


def _aged(age: int, items: Iterable[_Item]) -> Iterator[tuple[bytes, int, bytes]]:
    return ((key, age, value) for key, value in items)


def combine(newest_first: Sequence[Iterable[_Item]]) -> Iterator[_Item]:
    """Return (key, staged write) ascending; of equal keys only the one of the newest stream.

    Args:
        newest_first: Streams of (key, staged write), each ascending without repeats.
    """
    if len(newest_first) == 1:  # the usual case costs nothing
        return iter(newest_first[0])
    return _combine(newest_first)


def _combine(newest_first: Sequence[Iterable[_Item]]) -> Iterator[_Item]:
    last = None
    streams = [_aged(age, items) for age, items in enumerate(newest_first)]
    for key, _, value in merge(*streams, key=itemgetter(0, 1)):
        if key != last:
            last = key
            yield key, value
