"""Many keys at once: each range is opened once, and its keys are looked up together."""

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from itertools import repeat

from graveler.committed.metarange import read
from graveler.committed.range_store import RangeStore


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
    found: list[bytes | None] = [None] * len(keys)
    places = list(map(bisect_left, repeat(tree.keys()), keys))
    order = sorted(range(len(keys)), key=places.__getitem__)
    groups = [group for group in _groups(order, places) if group[0] < len(tree)]
    tables = store.ahead([tree[place] for place, _ in groups], keep=True)
    for table, (_, numbers) in zip(tables, groups, strict=True):
        rows = table.find_many([keys[number] for number in numbers])
        for number, row in zip(numbers, rows, strict=True):
            found[number] = row
    return found


def _groups(order: Sequence[int], places: Sequence[int]) -> Iterable[tuple[int, Sequence[int]]]:
    """Yield each place with the numbers of the keys that belong there."""
    start = 0
    ordered = [places[number] for number in order]
    while start < len(order):
        place = ordered[start]
        stop = bisect_left(ordered, place + 1, start)
        yield place, order[start:stop]
        start = stop
