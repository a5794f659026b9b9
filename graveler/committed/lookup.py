"""Looking up many keys: each range is opened once, and its keys are looked up together."""

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from itertools import groupby, pairwise, repeat
from operator import itemgetter
from typing import Any, Self, overload

from xxhash import xxh3_64_intdigest

from graveler.base.forks import held_off
from graveler.committed.cache.flat import FlatTable
from graveler.committed.metarange import read
from graveler.committed.ranges.range_store import RangeStore
from graveler.committed.tree import Tree

_FEW = 64
_LENGTH_BITS = 16
_WIDE = 256
"""The most bytes of a key for which an array of keys, all as wide as the longest, is made."""
_ALONE = 12
"""Up to this many keys of a range, single lookups are faster."""


class Rows(Sequence[bytes | None]):
    """The joined key and value record of each key that was looked up, or None if it is missing.

    The bytes are copied out of their tables when they are read. Until then the tables stay open.
    Pickled rows are a list of bytes.

    Args:
        table_of: For each key, the position of its table in `tables`, an array of numpy.
        bounds: Start and end of each row in the file of its table, an array of two columns. Both
            are 0 if there is no such row.
    """

    __slots__ = ("_bounds", "_table_of", "_tables")

    def __init__(self, tables: Sequence[FlatTable], table_of: Any, bounds: Any) -> None:
        self._tables = tables
        self._table_of = table_of
        self._bounds = bounds

    def __reduce__(self) -> tuple[Any, ...]:
        return list, (list(self),)  # a copy has no tables

    def __len__(self) -> int:
        return len(self._bounds)

    @overload
    def __getitem__(self, place: int) -> bytes | None: ...

    @overload
    def __getitem__(self, place: slice) -> Self: ...

    def __getitem__(self, place: int | slice) -> bytes | Self | None:
        if isinstance(place, slice):
            return type(self)(self._tables, self._table_of[place], self._bounds[place])
        start, stop = self._bounds[place].tolist()
        return self._tables[self._table_of[place]].buffer[start:stop] if stop else None

    def __iter__(self) -> Iterator[bytes | None]:
        tables = self._tables
        for table, (start, stop) in zip(
            self._table_of.tolist(), self._bounds.tolist(), strict=True
        ):
            yield tables[table].buffer[start:stop] if stop else None


def hashes_of(keys: Sequence[bytes]) -> Any:
    """Return the hashes of keys as an array of numpy."""
    import numpy

    return numpy.fromiter(map(xxh3_64_intdigest, keys), numpy.uint64, len(keys))


def slots_of(hashes: Any, homes: Any, shifts: Any) -> tuple[Any, Any]:
    """Return the first slot and the tag of each of many keys, for `FlatTable.find_many`."""
    return (hashes >> 32) * homes >> 32, (hashes << shifts).astype("u4")


def find_many(store: RangeStore, metarange: str, keys: Sequence[bytes]) -> Sequence[bytes | None]:
    """Return the joined key and value record of each key in a tree, or None if it is missing."""
    tree = read(store, metarange)
    if len(keys) <= _FEW:
        return _find_few(store, tree, keys)
    with held_off:  # a child would wait forever for an import by a thread of its parent
        import numpy

    # keys of the same range and the same length are looked up together
    lengths = numpy.fromiter(map(len, keys), numpy.uint64, len(keys))
    kinds = _places_of(tree, keys, int(lengths.max())) << _LENGTH_BITS | lengths
    order = kinds.argsort()
    kinds, starts = kinds[order], (lengths.cumsum() - lengths)[order]
    joined = b"".join(keys)
    inside = int(kinds.searchsorted(numpy.uint64(len(tree) << _LENGTH_BITS)))
    begins = numpy.flatnonzero(numpy.diff(kinds[:inside], prepend=numpy.uint64(0)))
    firsts = kinds[begins]
    widths = (firsts & ((1 << _LENGTH_BITS) - 1)).tolist()
    # a view with a key at every position: only selected keys are copied
    all_keys = {
        width: numpy.ndarray(len(joined) - width + 1, f"V{width}", joined, strides=(1,))
        for width in set(widths)
    }
    ranges, bounds_of = (firsts >> _LENGTH_BITS).tolist(), pairwise([*begins.tolist(), inside])
    runs = zip(ranges, widths, bounds_of, strict=True)
    runs_of = {place: list(some) for place, some in groupby(runs, itemgetter(0))}
    tables = list(store.ahead([tree[place] for place in runs_of], keep=True))
    sizes = [some[-1][2][1] - some[0][2][0] for some in runs_of.values()]
    homes = numpy.array([table.homes for table in tables], numpy.uint64)
    shifts = numpy.array([table.shift for table in tables], numpy.uint64)
    first_slots, tags = slots_of(
        hashes_of(keys)[order[:inside]], homes.repeat(sizes), shifts.repeat(sizes)
    )
    bounds = numpy.zeros((len(keys), 2), numpy.int64)
    for table, some in zip(tables, runs_of.values(), strict=True):
        for _, width, (start, stop) in some:
            if stop - start <= _ALONE:
                alone = map(keys.__getitem__, order[start:stop].tolist())
                bounds[start:stop] = [table.find(key) or (0, 0) for key in alone]
            else:
                sought = all_keys[width][starts[start:stop]]
                found = table.find_many(sought, first_slots[start:stop], tags[start:stop])
                bounds[start:stop] = found
    table_of = numpy.zeros(len(keys), numpy.int64)
    table_of[:inside] = numpy.arange(len(tables)).repeat(sizes)
    back = numpy.empty_like(order)
    back[order] = numpy.arange(len(keys))
    return Rows(tables, table_of[back], bounds[back])


def _places_of(tree: Tree, keys: Sequence[bytes], longest: int) -> Any:
    """Return the position of the range that can hold each key, as an array of numpy."""
    import numpy

    lasts = tree.keys()
    width = max(longest, max(map(len, lasts), default=0))
    if width > _WIDE:
        found = map(bisect_left, repeat(lasts), keys)
        return numpy.fromiter(found, numpy.uint64, len(keys))
    # arrays of texts take half the time; they end at a NUL, which no path contains
    texts = numpy.array(lasts, f"S{width}")
    return texts.searchsorted(numpy.array(keys, f"S{width}")).astype(numpy.uint64)


def _find_few(store: RangeStore, tree: Tree, keys: Sequence[bytes]) -> list[bytes | None]:
    places = list(map(bisect_left, repeat(tree.keys()), keys))
    inside = sorted(set(places) - {len(tree)})
    tables = dict(
        zip(inside, store.ahead([tree[place] for place in inside], keep=True), strict=True)
    )
    return [
        key + value if place in tables and (value := tables[place].get(key)) is not None else None
        for place, key in zip(places, keys, strict=True)
    ]
