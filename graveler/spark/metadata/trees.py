"""Kinds that tasks read from the ranges of committed trees: entries and differences.

The driver reads metaranges and compares ids of ranges. A task gets the object store, a folder for the
cache, and the list of its ranges.
"""

from collections.abc import Callable, Iterator, Sequence
from itertools import chain, islice
from typing import TYPE_CHECKING, NamedTuple, TypeVar

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, InputPartition

from graveler.base.names import path_key
from graveler.committed.diff import Segment, diff_ranges, differing, segments
from graveler.committed.metarange import prefix_end, ranged_runs, read
from graveler.committed.ranges.range_store import RangeStore
from graveler.model import ChangeKind, RangeInfo
from graveler.spark.metadata.columns import COLUMNS, entry_batch, entry_structs
from graveler.spark.metadata.options import Request

if TYPE_CHECKING:
    from graveler.committed.diff import RawChange

_T = TypeVar("_T")

_TASK_ENTRIES = 250_000
"""Number of entries of a task, if the number of tasks is not given."""
_SMALL_BYTES = 64 << 20
"""Size of the ranges that a driver reads at once. Spark has twice as much of it in the driver's heap."""
_ROWS = 4_096


class Ranges(NamedTuple):
    """The ranges that a task reads: of one tree, or of two compared trees."""

    left: tuple[RangeInfo, ...]
    right: tuple[RangeInfo, ...] = ()


class TreeReader(DataSourceReader):
    """Reads entries or differences; tasks get a copy of it."""

    def __init__(self, ranges: RangeStore, request: Request, trees: Sequence[str]) -> None:
        self._ranges = ranges
        self._kind = request.kind
        self._tasks = request.parallelism
        self._trees = tuple(trees)
        self._start = path_key(request.prefix) if request.prefix else b""
        self._stop = prefix_end(self._start)

    def partitions(self) -> list[InputPartition]:
        """Return the ranges of each task."""
        trees = [read(self._ranges, tree).within(self._start, self._stop) for tree in self._trees]
        if self._kind == "entries":
            parts = balanced(trees[0], lambda info: info.count, self._tasks)
            return [InputPartition(Ranges(tuple(part))) for part in parts]
        groups = balanced(list(segments(*differing(*trees))), entries_of, self._tasks)
        return [InputPartition(Ranges(*map(_joined, zip(*of, strict=True)))) for of in groups]

    def read_here(self, *, only_small: bool) -> pa.Table | None:
        """Return all rows, read by this process."""
        partitions = self.partitions()
        sizes = (info.size for part in partitions for side in part.value for info in side)
        small = len(partitions) <= 1 and sum(sizes) <= _SMALL_BYTES
        if only_small and not small:
            return None
        batches = chain.from_iterable(map(self.read, partitions))
        table = pa.Table.from_batches(batches, COLUMNS[self._kind])
        if not len(table):
            return table.schema.empty_table()
        return table.combine_chunks() if small else table  # a piece holds less than 2 GiB of text

    def read(self, partition: InputPartition) -> "Iterator[pa.RecordBatch]":
        """Yield the rows of a task."""
        if partition.value is None:  # Spark adds it if there is no partition
            return iter(())
        of: Ranges = partition.value
        if self._kind == "entries":
            found = ranged_runs(self._ranges, of.left, self._start, self._stop)
            return (entry_batch(run, info.id.hex()) for info, run in found)
        changes = diff_ranges(self._ranges, *of, start=self._start, stop=self._stop)
        return map(change_batch, batched(changes))


def balanced(items: Sequence[_T], weight: Callable[[_T], int], parts: int) -> list[list[_T]]:
    """Return the items in order, in non-empty parts of about equal weight."""
    weights = [weight(item) for item in items]
    total = sum(weights)
    parts = parts or -(-total // _TASK_ENTRIES)
    found: dict[int, list[_T]] = {}
    before = 0
    for item, of_item in zip(items, weights, strict=True):
        # the part that has the middle of the item
        found.setdefault((2 * before + of_item) * parts // (2 * total), []).append(item)
        before += of_item
    return list(found.values())


def entries_of(segment: Segment) -> int:
    """Return the number of entries in the ranges of a segment."""
    return sum(info.count for side in segment for info in side)


def _joined(sides: tuple[tuple[RangeInfo, ...], ...]) -> tuple[RangeInfo, ...]:
    return tuple(info for side in sides for info in side)


def change_batch(changes: "Sequence[RawChange]") -> pa.RecordBatch:
    """Return differences as rows of the kind ``diff``."""
    keys, lefts, rights = zip(*changes, strict=True)
    columns = [
        pa.array([key.decode() for key in keys], pa.string()),
        pa.array([str(ChangeKind.of(*sides)) for _, *sides in changes], pa.string()),
        entry_structs(keys, lefts, rights),
        entry_structs(keys, rights, lefts),
    ]
    return pa.RecordBatch.from_arrays(columns, schema=COLUMNS["diff"])


def batched(items: Iterator[_T]) -> Iterator[list[_T]]:
    """Yield the items in lists as long as a batch."""
    return iter(lambda: list(islice(items, _ROWS)), [])
