"""Trees built by Spark: the driver cuts them into slices, and tasks write the ranges.

Spark makes two passes over the rows. The first one is native: it counts the rows and samples break keys
by Spark's own ``xxhash64``, which is the hash of the splitting policies. The second one sends the rows of
each slice to one task. A session of Spark Connect is sufficient.
"""

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple, Protocol

from graveler.committed.apply import Applied
from graveler.committed.range_store import RangeStore
from graveler.committed.slices import Cut, stitch
from graveler.committed.splitting import HASH_MASK, Splitting
from graveler.errors import SourceChangedError, ThrottledError
from graveler.objects.store import ObjectStore
from graveler.reads.stores import Stores
from graveler.repository.imports.tasks import KEY, RESULT, SLICE, Fault, Sliced, SliceTask, decoded
from graveler.repository.links import LinkRules
from graveler.spark.preflight import check_job

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import Column, DataFrame, Row

SLICE_ROWS = 500_000
"""Approximate number of rows in a slice. A task holds them in memory, about 0.5 KiB each."""

MOST_SLICES = 1_000
"""Largest number of slices of a tree. With more rows the slices become larger."""

_SAMPLES = 8
_TRIES = 3
_BEHIND = b"\xff"
"""No path has this byte: a prefix followed by it sorts after all keys below the prefix."""


class Task(Protocol):
    """Builds slices of rows; a task of another process calls it."""

    @property
    def objects(self) -> ObjectStore:
        """The repository's object store."""

    def __call__(self, rows: "Iterator[pa.RecordBatch]", /) -> "Iterator[pa.RecordBatch]":
        """Return the rows of the result."""


class Survey(NamedTuple):
    """The result of the first pass.

    Attributes:
        rows: Number of rows.
        first: The first key.
        last: The last key.
        every: Number of break keys in a slice.
    """

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


class Builder:
    """Builds a tree from a base tree and the rows of a frame.

    Args:
        frame: Rows of an inventory, with the key of each.
        found: The result of the first pass.
        replaces: Prefix of the keys that the frame replaces completely; None keeps all other keys.

    Attributes:
        files: Number of rows of the last tree that was built.
        size: Bytes of the files of these rows.
        removed: Number of keys that it deleted.
    """

    def __init__(
        self, stores: Stores, frame: "DataFrame", found: Survey, replaces: bytes | None
    ) -> None:
        self._stores = stores
        self._frame = frame
        self._found = found
        self._replaces = replaces
        self._splitting = stores.splitting
        self.files = self.size = self.removed = 0

    def build(self, base: str) -> Applied:
        """Return the new tree for the tree of a metarange; all its ranges are in the store."""
        found, ranges = self._found, self._stores.ranges
        first, last = found.first, found.last
        if self._replaces is not None:
            first, last = min(first, self._replaces), max(last, self._replaces + _BEHIND)
        cut = Cut.of(
            ranges, base, self._splitting, (first, last), found.candidates, every=found.every
        )
        slices = kept(ranges, lambda: self._run(cut))
        self.files = sum(each.files for each in slices)
        self.size = sum(each.size for each in slices)
        applied = stitch(ranges, cut, [each.part for each in slices])
        self.removed = applied.summary.removed
        return applied

    def _run(self, cut: Cut) -> list[Sliced]:
        """Return the slices that tasks have built."""
        stores = self._stores
        task = SliceTask(stores.objects, cut, LinkRules.of(stores), self._replaces)
        frame = self._frame.withColumn(SLICE, _slice_of(cut.breaks))
        rows = frame.repartitionById(cut.slices, SLICE).mapInArrow(task, RESULT).collect()
        slices = in_order(rows)
        seen = sum(each.files for each in slices)
        if seen != self._found.rows or len(slices) != cut.slices:
            raise SourceChangedError(
                f"the source had {self._found.rows} rows in {cut.slices} slices at the first look and "
                f"{seen} rows in {len(slices)} slices at the second one: import from a source that "
                "does not change meanwhile"
            )
        return slices


def by_tasks(frame: "DataFrame", task: Task) -> list[Sliced]:
    """Return the slices that tasks build from a frame."""
    check_job(frame.sparkSession, task.objects)
    return in_order(frame.mapInArrow(task, RESULT).collect())


def in_order(rows: "Sequence[Row]") -> list[Sliced]:
    """Return the slices of the rows that tasks returned."""
    by_slice: defaultdict[int, list[tuple[int, bytes | None, bytes, bool]]] = defaultdict(list)
    for number, key, value, there in rows:
        by_slice[number].append((number, key and bytes(key), bytes(value), there))
    slices: list[Sliced] = []
    for number in sorted(by_slice):
        sliced = decoded(by_slice[number])
        if isinstance(sliced, Fault):
            raise sliced.error()
        slices.append(sliced)
    return slices


def kept(ranges: RangeStore, run: Callable[[], list[Sliced]]) -> list[Sliced]:
    """Return the slices that tasks have built, once garbage collection keeps all tables they found.

    Args:
        run: Runs the tasks; called again if a sweep has deleted a table meanwhile.
    """
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
