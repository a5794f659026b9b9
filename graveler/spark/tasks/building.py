"""Trees built by Spark: the driver cuts them into slices, and tasks write the ranges.

Spark makes two passes over the rows. The first one is native: it counts the rows and samples break keys
by Spark's own ``xxhash64``, which is the hash of the splitting policies. The second one sends the rows of
each slice to one task. A session of Spark Connect is sufficient.
"""

from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from graveler.committed.apply import Applied
from graveler.committed.ranges.range_store import RangeStore
from graveler.committed.slices import Cut, stitch
from graveler.committed.splitting import HASH_MASK, Splitting
from graveler.errors import SourceChangedError, ThrottledError
from graveler.reads.stores import Stores
from graveler.repository.imports.tasks import KEY, RESULT, SLICE, Sliced, SliceTask, decoded
from graveler.repository.writes.links import LinkRules

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.pandas._typing import ArrowMapIterFunction

SLICE_ROWS = 500_000
"""Approximate number of rows in a slice. A task holds them in memory, about 0.5 KiB each."""

MOST_SLICES = 1_000
"""Largest number of slices of a tree. With more rows the slices become larger."""

_SAMPLES = 8
_TRIES = 3
_BEHIND = b"\xff"
"""No path has this byte: a prefix followed by it sorts after all keys below the prefix."""


class Survey(NamedTuple):
    """The result of the first pass."""

    rows: int
    first: bytes
    last: bytes
    candidates: list[bytes]
    every: int


def survey(frame: "DataFrame", splitting: Splitting, slice_rows: int) -> Survey:
    """Return the result of a native pass over the keys of a frame."""
    from pyspark.sql import functions as f

    hard = splitting.raggedness * splitting.hard
    # a multiple of the modulus also selects break keys: some for each slice, however small the modulus
    modulus = hard * max(1, slice_rows // (_SAMPLES * hard))
    key = f.col(KEY)
    digest = f.xxhash64(f.lit(splitting.number).cast("long"), key).bitwiseAND(
        f.lit(HASH_MASK).cast("long")
    )
    breaks = f.collect_list(f.when(digest % f.lit(modulus).cast("long") == 0, key))
    row = frame.agg(f.count(f.lit(1)), f.min(key), f.max(key), breaks).collect()[0]
    candidates = sorted(map(bytes, row[3]))
    every = max(1, round(slice_rows / modulus), -(-len(candidates) // MOST_SLICES))
    return Survey(row[0], bytes(row[1] or b""), bytes(row[2] or b""), candidates, every)


@dataclass(slots=True)
class Builder:
    """Builds a tree from a base tree and the rows of a frame."""

    stores: Stores
    splitting: Splitting
    frame: "DataFrame"
    found: Survey
    replaces: bytes | None
    files: int = 0
    size: int = 0
    removed: int = 0

    def build(self, base: str) -> Applied:
        """Return the new tree for the tree of a metarange; all its ranges are in the store."""
        found, ranges = self.found, self.stores.ranges
        first, last = found.first, found.last
        if self.replaces is not None:
            first, last = min(first, self.replaces), max(last, self.replaces + _BEHIND)
        cut = Cut.of(
            ranges, base, self.splitting, (first, last), found.candidates, every=found.every
        )
        slices = kept(ranges, lambda: self._run(cut))
        self.files = sum(each.files for each in slices)
        self.size = sum(each.size for each in slices)
        applied = stitch(ranges, cut, [each.part for each in slices])
        self.removed = applied.tally.removed
        return applied

    def _run(self, cut: Cut) -> list[Sliced]:
        stores = self.stores
        task = SliceTask(stores.objects, cut, LinkRules.of(stores), self.replaces)
        frame = self.frame.withColumn(SLICE, _slice_of(cut.breaks))
        slices = by_slice(frame, cut, task)
        seen = sum(each.files for each in slices)
        if seen != self.found.rows or len(slices) != cut.slices:
            raise SourceChangedError(
                f"the source had {self.found.rows} rows in {cut.slices} slices at the first look and "
                f"{seen} rows in {len(slices)} slices at the second one: import from a source that "
                "does not change meanwhile"
            )
        return slices


def by_slice(frame: "DataFrame", cut: Cut, task: "ArrowMapIterFunction") -> list[Sliced]:
    """Return the slices that a task builds from the rows of each."""
    rows = frame.repartitionById(cut.slices, SLICE).mapInArrow(task, RESULT).collect()
    found: defaultdict[int, list[tuple[int, bytes | None, bytes, bool]]] = defaultdict(list)
    for number, key, value, there in rows:
        found[number].append((number, key and bytes(key), bytes(value), there))
    return [decoded(found[number]) for number in sorted(found)]


def kept(ranges: RangeStore, run: Callable[[], list[Sliced]]) -> list[Sliced]:
    """Return the slices that tasks have built, once garbage collection keeps all tables they found."""
    for _ in range(_TRIES):
        slices = run()
        if all(ranges.keep_found(table) for each in slices for table in each.found):
            return slices
    raise ThrottledError(
        f"garbage collection deleted tables during each of {_TRIES} tries to build the tree: try "
        "again when its sweep is over"
    )


def _slice_of(breaks: tuple[bytes, ...]) -> "Column":
    """Return the number of a row's slice, by a search tree of comparisons."""
    from pyspark.sql import functions as f

    def between(low: int, high: int) -> "Column":
        if low == high:
            return f.lit(low)
        middle = (low + high) // 2
        below = f.col(KEY) <= f.lit(breaks[middle])
        return f.when(below, between(low, middle)).otherwise(between(middle + 1, high))

    return between(0, len(breaks)).cast("int")
