"""Many keys at once: each range is opened once, and its keys are looked up together."""

from bisect import bisect_left
from collections.abc import Sequence
from itertools import pairwise, repeat
from typing import Final

from graveler.committed.flat import hashes_of
from graveler.committed.metarange import read
from graveler.committed.range_store import RangeStore
from graveler.committed.tree import Tree

_FEW: Final = 64
_NARROW: Final = 1 << 16


def find_many(store: RangeStore, metarange: str, keys: Sequence[bytes]) -> list[bytes | None]:
    """Return key and value record, side by side, of each key in a tree; None where it is missing.

    The keys may be in any order and repeat. Every range that can hold one of them is opened once;
    those to fetch are fetched side by side.

    Args:
        store: Where the tree is.
        metarange: Its id.
        keys: The keys.

    Raises:
        CorruptionError: A range cannot be read.
    """
    tree = read(store, metarange)
    places = map(bisect_left, repeat(tree.keys()), keys)
    if len(keys) <= _FEW:
        return _find_few(store, tree, keys, list(places))
    import numpy  # noqa: PLC0415 - it takes longer to load than few lookups take

    # numpy sorts narrow numbers in one pass
    kind = numpy.uint16 if len(tree) < _NARROW else numpy.uint32
    unsorted = numpy.fromiter(places, kind, len(keys))
    order = unsorted.argsort(kind="stable")
    sorted_keys = list(map(keys.__getitem__, order.tolist()))
    hashes = hashes_of(sorted_keys)
    by_range = unsorted[order]
    inside = int(by_range.searchsorted(kind(len(tree))))
    begins = numpy.flatnonzero(by_range[1:inside] != by_range[: max(inside - 1, 0)]) + 1
    edges = [0, *begins.tolist(), inside] if inside else []
    tables = store.ahead([tree[place] for place in by_range[edges[:-1]].tolist()], keep=True)
    rows: list[bytes | None] = []
    for table, (start, stop) in zip(tables, pairwise(edges), strict=True):
        rows += table.find_many(sorted_keys[start:stop], hashes[start:stop])
    rows += repeat(None, len(keys) - inside)
    back = numpy.empty_like(order)
    back[order] = numpy.arange(len(keys))
    return list(map(rows.__getitem__, back.tolist()))


def _find_few(
    store: RangeStore, tree: Tree, keys: Sequence[bytes], places: Sequence[int]
) -> list[bytes | None]:
    inside = sorted(set(places) - {len(tree)})
    tables = dict(
        zip(inside, store.ahead([tree[place] for place in inside], keep=True), strict=True)
    )
    return [
        tables[place].find(key) if place in tables else None
        for place, key in zip(places, keys, strict=True)
    ]
