"""The files, bytes and rows below the folders of a committed tree.

Files are counted by the ranges of the tree: only the ranges at the edges of a folder are opened. The sums of
a whole range stay in memory, because a range never changes.
"""

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from graveler.base.names import path_key
from graveler.committed.metarange import prefix_end, read
from graveler.committed.ranges.range_store import RangeStore
from graveler.model import Commit, RangeInfo
from graveler.reads.stores import Stores
from graveler.reads.table import sums
from graveler.reads.view import readable

_KEPT = 100_000
_kept: dict[bytes, tuple[int, int, int]] = {}


class Totals(NamedTuple):
    """The sums of a folder.

    Attributes:
        files: Number of files.
        size: Their bytes. None: too many ranges would have to be read.
        rows: Their rows. None: unknown, or not every file's entry states them.
    """

    files: int
    size: int | None
    rows: int | None


def folder_totals(
    stores: Stores, commit: Commit, folders: Iterable[str], *, most: int
) -> Iterator[Totals]:
    """Yield the sums of each folder.

    Args:
        folders: Paths of folders with a slash at the end, or "" for the whole tree.
        most: Number of whole ranges that are read. What they add up to is known to later calls.
    """
    tree, left = read(stores.ranges, commit.metarange), most
    for folder in folders:
        key = path_key(folder) if folder else b""
        stop = prefix_end(key)
        files, parts = 0, [0, 0, 0]
        known = True
        with readable(stores, commit.id):
            for info in tree.within(key, stop):
                whole = info.min_key >= key and (stop is None or info.max_key < stop)
                if whole and info.id not in _kept:
                    left -= 1
                    known = known and left >= 0
                count, found = _sums(stores.ranges, info, (key, stop), whole=whole, read=known)
                files += count
                parts = [one + other for one, other in zip(parts, found, strict=True)]
        size, rows, stated = parts
        yield Totals(files, size if known else None, rows if known and stated == files else None)


def _sums(
    store: RangeStore,
    info: RangeInfo,
    within: tuple[bytes, bytes | None],
    *,
    whole: bool,
    read: bool,
) -> tuple[int, tuple[int, int, int]]:
    """Return how many files of a range are within two keys, and their sums if they are to be read."""
    if whole and (info.id in _kept or not read):
        return info.count, _kept.get(info.id, (0, 0, 0))
    table = store.open_range(info)
    if whole:
        if len(_kept) >= _KEPT:
            _kept.clear()
        _kept[info.id] = found = sums(table.run())
        return info.count, found
    start, stop = within
    first = table.bisect(start) if info.min_key < start else 0
    last = table.count if stop is None or info.max_key < stop else table.bisect(stop)
    if first >= last or not read:
        return max(last - first, 0), (0, 0, 0)
    return last - first, sums(table.run(first, last))
