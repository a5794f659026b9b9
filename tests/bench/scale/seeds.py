"""Rows of the cut of the large lake and the reuse by its commits, next to lakeFS's published figures."""

import math
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from importlib import import_module
from random import Random
from statistics import fmean
from typing import Any

import numpy as np
from xxhash import xxh64_intdigest as xxh64

from graveler.committed.splitting import HASH_MASK
from graveler.lake import Branch
from graveler.testing.world import link_unseen
from tests.bench.measure import Result, progress, reported
from tests.bench.scale.place import PER_HOUR, Place, changed, path_of, ranges_of, throwaway

_MIB = 1 << 20
_SHARES = (0.05, 0.20)
_COMMITS = 20
"""Number of commits of a day, as lakeFS's authors assume."""
_MADE = 8
"""Number of these equal commits that are made."""
_RECORD = 400
"""Bytes of a record in the example of lakeFS's authors."""


def seeds(place: Place) -> list[Result]:
    """Measure the cut of the large lake, and changes of 5 and 20 % in a day, under both rules."""
    progress(f"lakeFS's rule over the keys of {place.entries:,} entries")
    lakefs = import_module("graveler.simulation.replay")
    breaks = list(_breaks(place.entries, lakefs.LAKEFS))
    with place.repository() as repo:
        most = repo.stores.splitting.max_bytes
        with throwaway(repo) as branch:
            infos = ranges_of(branch)
            sizes = [info.size for info in infos]
            early = fmean(info.natural and info.size < most for info in infos)
            record = sum(sizes) / place.entries
            ends = {size: _ends(place.entries, size, breaks) for size in (record, _RECORD)}
            results = [
                reported(
                    "ranges cut before the largest size",
                    f"{early:.1%}",
                    f"of {len(infos):,}; lakeFS's rule over the same paths: "
                    f"{_early(ends[record], record):.0%} of {len(ends[record]):,} with the same records, "
                    f"{_early(ends[_RECORD], _RECORD):.0%} of {len(ends[_RECORD]):,} with records of "
                    f"{_RECORD} bytes; its authors expect 65 % with those",
                ),
                reported(
                    "bytes in ranges of 1 to 10 MiB, at which lakeFS's authors aim",
                    f"{_well_sized(sizes):.1%}",
                    f"lakeFS's rule {_well_sized(np.diff(ends[record], prepend=0) * record):.0%}",
                ),
            ]
            return results + [_reuse(place, branch, share, ends[record]) for share in _SHARES]


def _breaks(entries: int, splitting: Any) -> Iterator[int]:
    """Yield the entries after which the hash of the path ends a range."""
    seed, raggedness = splitting.seed, splitting.raggedness
    for number in range(entries):
        if not (xxh64(path_of(number).encode(), seed) & HASH_MASK) % raggedness:
            yield number


def _ends(entries: int, record: float, breaks: Sequence[int]) -> list[int]:
    """Return the number of entries up to the end of each range by lakeFS's rule, for equal records."""
    most = import_module("graveler.simulation.replay").LAKEFS.max_bytes
    full, ends, left = math.ceil(most / record), [0], iter([*breaks, entries])
    following = next(left)
    while ends[-1] < entries:
        while following < ends[-1]:
            following = next(left)
        ends.append(min(ends[-1] + full, following + 1, entries))
    return ends[1:]


def _early(ends: Sequence[int], record: float) -> float:
    """Return the share of the ranges that are smaller than lakeFS's largest size."""
    lakefs = import_module("graveler.simulation.replay")
    return float(np.mean(np.diff(ends, prepend=0) * record < lakefs.LAKEFS.max_bytes))


def _well_sized(sizes: Any) -> float:
    """Return the share of the bytes that is in ranges of 1 to 10 MiB."""
    return float(sum(size for size in sizes if _MIB <= size <= 10 * _MIB) / sum(sizes))


def _reuse(place: Place, branch: Branch, share: float, ends: Sequence[int]) -> Result:
    """Commit changes of consecutive folders that change a share of the entries in a day."""
    folders = -(-place.entries // PER_HOUR)
    width = max(1, round(folders * share / _COMMITS))
    progress(f"{_MADE} commits, each of {width * PER_HOUR:,} entries in {width:,} folders")
    slots = Random(4).sample(range(folders // width), min(_MADE, folders // width))
    ours, theirs = [], []
    before = {info.id for info in ranges_of(branch)}
    for slot in slots:
        first = slot * width * PER_HOUR
        stop = min(place.entries, first + width * PER_HOUR)
        link_unseen(branch, (changed(number) for number in range(first, stop)))
        branch.commit("changed folders")
        tree = ranges_of(branch)
        new = sum(info.size for info in tree if info.id not in before)
        ours.append(1 - new / sum(info.size for info in tree))
        before = {info.id for info in tree}
        # by lakeFS's rule, touched ranges are cut as before, because keys and sizes do not change
        touched = bisect_left(ends, first + 1), bisect_left(ends, stop)
        start = ends[touched[0] - 1] if touched[0] else 0
        theirs.append(1 - (ends[touched[1]] - start) / place.entries)
    return reported(
        f"bytes that a commit reuses, of {_COMMITS} a day that change {share:.0%} of the entries",
        f"{fmean(ours):.2%}",
        f"{min(ours):.2%} at least, of {len(ours)} commits; lakeFS's rule {fmean(theirs):.2%}; its "
        "authors expect 99 %",
    )
