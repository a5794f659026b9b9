"""Merges by tasks: each task merges slices of the trees, and the driver lands the merge commit."""

from base64 import b64decode, b64encode
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from graveler.base.arguments import BranchLike, RefLike, choice, count
from graveler.committed.apply import Tally
from graveler.committed.merge import RawConflict, merge_slice
from graveler.committed.merge_slices import MergedSlice, Order, Slice, Tasks
from graveler.committed.slices import Part
from graveler.errors import InvalidInputError
from graveler.model import Commit
from graveler.objects.store import ObjectStore
from graveler.reads.stores import Stores
from graveler.repository import strategies
from graveler.repository.imports.tasks import Sliced, result_batch, task_store
from graveler.repository.merges import MergeResult, merge_into, merge_spec
from graveler.repository.strategies import Strategy, asks, check_strategy, settled_apart
from graveler.spark.building import by_tasks, kept
from graveler.spark.imports import METHODS

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession

    from graveler.lake import Repository

SHARE_BYTES = 256 << 20
"""Approximate logical bytes of the ranges that a task opens in all three trees."""

_LARGE = 4 << 30
"""Estimated logical bytes to open from which Spark merges."""


@dataclass(frozen=True, slots=True)
class MergeTask:
    """Merges slices by their numbers; a task of another process calls it."""

    objects: ObjectStore
    order: Order
    slices: Sequence[Slice]
    strategy: Strategy | None

    def __call__(self, numbers: "Iterator[pa.RecordBatch]") -> "Iterator[pa.RecordBatch]":
        """Return the rows of the result for these slices."""
        for batch in numbers:
            for number in batch.column(0).to_pylist():
                yield result_batch(number, partial(self.run, number))

    def run(self, number: int) -> Sliced:
        """Merge a slice."""
        store, found = task_store(self.objects)
        settled = settled_apart(self.strategy)
        made = merge_slice(
            store,
            self.order,
            self.slices[number],
            strategy=settled.word,
            resolve=settled.resolve,
        )
        return Sliced.of(Part(made.infos, Tally(), 0, 0), found, notes=_notes(made))


def _notes(made: MergedSlice) -> dict[str, Any]:
    """Return the result of a slice except its ranges, as JSON values."""
    return {
        "conflicts": [list(map(_text, conflict)) for conflict in made.conflicts],
        "count": made.conflict_count,
        "logs": list(map(_text, made.logs)),
    }


def _merged(sliced: Sliced) -> MergedSlice:
    """Return the result of a slice."""
    notes = sliced.notes
    conflicts = [RawConflict(*map(_bytes, conflict)) for conflict in notes["conflicts"]]
    logs = [b64decode(log) for log in notes["logs"]]
    return MergedSlice(sliced.part.infos, conflicts, notes["count"], logs)


def _text(value: Any) -> str | None:
    return None if value is None else b64encode(value).decode()


def _bytes(value: str | None) -> Any:
    return None if value is None else b64decode(value)


@dataclass(frozen=True, slots=True)
class TaskMerger:
    """Merges slices by tasks."""

    stores: Stores
    spark: "SparkSession"
    strategy: Strategy | None

    def run(self, order: Order, slices: Sequence[Slice]) -> list[MergedSlice]:
        """Return the results of slices."""
        task = MergeTask(self.stores.objects, order, slices, self.strategy)
        numbers = self.spark.range(0, len(slices), 1, len(slices))
        return list(map(_merged, kept(self.stores.ranges, lambda: by_tasks(numbers, task))))


def merge(
    repository: "Repository",
    spark: "SparkSession",
    source: str | Commit | RefLike,
    into: str | BranchLike,
    *,
    message: str | None = None,
    metadata: Mapping[str, str] | None = None,
    strategy: Strategy | None = None,
    committer: str = "",
    method: str = "auto",
    share_bytes: int = SHARE_BYTES,
) -> MergeResult:
    """Merge a ref into a branch; see `Tables.merge`."""
    check_strategy(strategy)
    choice(method, "method", METHODS), count(share_bytes, "share_bytes", least=1)
    source, into, spec = merge_spec(repository.stores, source, into, message, metadata, committer)
    tasks = None
    if method == "spark" or (method == "auto" and not asks(strategy)):
        _check_sent(strategy)
        strategy = strategies.literal_first(repository.stores, strategy, source, into)
        run = TaskMerger(repository.stores, spark, strategy).run
        tasks = Tasks(run, share_bytes, _LARGE if method == "auto" else 0)
    return merge_into(repository.stores, source, into, spec, strategy=strategy, tasks=tasks)


def _check_sent(strategy: Strategy | None) -> None:
    """Refuse a resolver that cannot be sent to tasks."""
    from pyspark import cloudpickle

    try:
        cloudpickle.dumps(strategy)  # type: ignore[no-untyped-call]
    except Exception as error:
        raise InvalidInputError(
            f"the resolver cannot be sent to tasks: {type(error).__name__}: {error}: give a function that "
            "holds no connections, files or locks, or merge with method='process'"
        ) from error
