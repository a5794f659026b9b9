"""Trees built by Spark: the driver cuts them into slices, and tasks write the ranges.

Two passes over the rows. The first one is native: it counts them and samples the break keys, by Spark's
own ``xxhash64``, which is the hash of the splitting policies. The second one brings the rows of a slice
to one task each. Nothing here needs more of a session than Spark Connect has.
"""

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

from graveler.committed import Applied, RangeStore, Splitting
from graveler.committed.slices import Cut, stitch
from graveler.committed.splitting import HASH_MASK
from graveler.errors import SourceChangedError, ThrottledError
from graveler.objects.store import ObjectStore
from graveler.reads.stores import Stores
from graveler.repository.imports.tasks import KEY, RESULT, SLICE, Fault, Sliced, SliceTask, decoded
from graveler.repository.links import LinkRules
from graveler.spark.preflight import check_job

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import Column, DataFrame, Row

SLICE_ROWS: Final = 500_000
"""Rows of a slice, about: a task holds them in memory, some 0.5 KiB each."""

MOST_SLICES: Final = 1_000
"""Slices of a tree at most: with more work they become larger."""

_SAMPLES: Final = 8
_TRIES: Final = 3
_BEHIND: Final = b"\xff"
"""No path has this byte: a prefix with it is behind all keys below the prefix."""


class Task(Protocol):
    """Builds slices of rows; a task of another process calls it."""

    @property
    def objects(self) -> ObjectStore:
        """The repository's object store."""

    def __call__(self, rows: "Iterator[pa.RecordBatch]", /) -> "Iterator[pa.RecordBatch]":
        """Return the rows of the result."""


class Survey(NamedTuple):
    """What the first pass finds.

    Attributes:
        rows: How many rows there are.
        first: The first key.
        last: The last one.
        candidates: Break keys, ascending.
        every: How many of them a slice has.
    """

    rows: int
    first: bytes
    last: bytes
    candidates: list[bytes]
    every: int


def survey(frame: "DataFrame", splitting: Splitting, slice_rows: int) -> Survey:
    """Return what a native pass over the keys of a frame finds."""
    from pyspark.sql import functions as f  # noqa: PLC0415 - heavy: only where it is used

    hard = splitting.raggedness * splitting.hard
    # a multiple of the modulus selects break keys, too: some for each slice, however small the modulus
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
    """Builds the tree that a frame makes of any base.

    Args:
        stores: The repository.
        frame: Rows of an inventory, with the key of each.
        found: What the first pass found in it.
        replaces: Start of the keys of which the frame has all; None: other keys stay.

    Attributes:
        files: Rows of the last tree that was built.
        size: The bytes of their files.
        removed: Keys that it deleted.
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
        """Return what the tree of a metarange becomes; all of it is in the store.

        Raises:
            InvalidInputError: A row makes no sense, or a path is in two rows.
            PermissionDeniedError: A file lies in no declared place.
            SourceChangedError: The second pass did not find the rows of the first one.
        """
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
        """Return what tasks make of the slices."""
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
    """Return the slices that tasks make of a frame.

    Raises:
        InvalidInputError: The storage is in the memory of this process.
        MissingDependencyError: Workers have not the driver's graveler.
        GravelerError: As `in_order`.
    """
    check_job(frame.sparkSession, task.objects)
    return in_order(frame.mapInArrow(task, RESULT).collect())


def in_order(rows: "Sequence[Row]") -> list[Sliced]:
    """Return the slices of the rows that tasks returned.

    Raises:
        GravelerError: What a task could not mend, with the type that it had there.
    """
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
    """Return what tasks have built, when garbage collection keeps all tables that they found.

    Args:
        ranges: Where the tables are.
        run: Runs the tasks; again, if a sweep has deleted a table meanwhile.

    Raises:
        ThrottledError: It did during each try.
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
    """Return the number of the slice of a row, by a search tree of comparisons."""
    from pyspark.sql import functions as f  # noqa: PLC0415 - heavy: only where it is used

    def between(low: int, high: int) -> "Column":
        if low == high:
            return f.lit(low)
        middle = (low + high) // 2
        below = f.col(KEY) <= f.lit(breaks[middle])
        return f.when(below, between(low, middle)).otherwise(between(middle + 1, high))

    return between(0, len(breaks)).cast("int")
