"""lakeFS's rule, for comparison: where it ends ranges, and which ranges a commit writes again."""

from bisect import bisect_left
from collections.abc import Iterable, Iterator
from itertools import chain, groupby
from typing import Final

from graveler.committed import RangeStore, RangeWriter, Splitting, StagedChange, metarange
from graveler.committed.flat import Record
from graveler.model import RangeInfo

LAKEFS: Final = Splitting("hash", max_bytes=20 << 20, raggedness=50_000, hard=1)
"""Its defaults: a range ends at 20 MiB, or after one key in 50,000."""


def apply_as_lakefs(
    store: RangeStore, base: str, changes: Iterable[StagedChange], splitting: Splitting
) -> str:
    """Return the tree that `base` becomes by `changes`, rewritten as lakeFS does.

    A change touches the first range that ends at or after its key, also where it comes before the
    first key of that range. A touched range is written again. An untouched one is taken over by its
    id, and ends the range that is being written. Changes after the last range make a range of their
    own.
    """
    infos = metarange.read(store, base)
    touched = groupby(changes, key=lambda change: infos.at_or_after(change[0]))
    result: list[RangeInfo] = []
    records: list[Iterator[Record]] = []  # of touched ranges that follow each other
    at = 0

    def write() -> None:
        # a writer of its own: what lies to the left is not joined to it
        with RangeWriter(store, splitting) as writer:
            writer.add_all(chain.from_iterable(records))
            result.extend(writer.finish())
        records.clear()

    for place, group in touched:
        if place > at and records:
            write()
        result += infos[at:place]
        old = store.open_range(infos[place]).records() if place < len(infos) else []
        records.append(iter(list(_laid_over(old, group))))
        at = place + 1
    write()
    result += infos[at:]
    return metarange.write(store, result)


def _laid_over(records: list[Record], changes: Iterable[StagedChange]) -> Iterator[Record]:
    keys = [record[0] for record in records]
    at = 0
    for key, identifier, value in changes:
        place = bisect_left(keys, key, at)
        yield from records[at:place]
        at = place + (place < len(keys) and keys[place] == key)
        if identifier is not None and value is not None:
            yield key, identifier, value
    yield from records[at:]
