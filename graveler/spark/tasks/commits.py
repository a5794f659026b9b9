"""Commits by tasks: the driver reads staged writes, tasks build the ranges, the driver lands the commit."""

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING

from graveler.base.arguments import choice, count, flag, instance
from graveler.base.background import batches
from graveler.committed.apply import Applied, StagedChange, apply
from graveler.committed.metarange import read
from graveler.committed.slices import Cut, Load, build, stitch
from graveler.errors import InternalError
from graveler.frames.spark.loading import frame_of_table
from graveler.frames.spark.session import running
from graveler.model import Commit
from graveler.objects.store import ObjectStore
from graveler.reads.stores import Stores
from graveler.repository.branch import Branch, commit_spec
from graveler.repository.commits import sealing
from graveler.repository.imports.tasks import (
    KEY,
    SLICE,
    Sliced,
    in_key_order,
    run_slice,
    task_store,
)
from graveler.spark.tasks.building import MOST_SLICES, by_slice, kept
from graveler.spark.tasks.imports import METHODS
from graveler.spark.tasks.preflight import check_job
from graveler.values import Replacement

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession

SHARE_BYTES = 128 << 20
"""Approximate logical bytes of a slice: its changes, which a task holds in memory, and the ranges that
the task reads."""

_LARGE = 1 << 30
"""Estimated logical bytes from which Spark builds a commit."""
_BATCH = 4_096
_RECORD_ID = "record_id"
_VALUE = "value"
_REPLACES = "replaces"


@dataclass(frozen=True, slots=True)
class CommitTask:
    """Builds a slice of its changes; a task of another process calls it."""

    objects: ObjectStore
    cut: Cut

    def __call__(self, rows: "Iterator[pa.RecordBatch]") -> "Iterator[pa.RecordBatch]":
        """Return the rows of the result for the changes of one slice; none without changes."""
        return run_slice(rows, self.run)

    def run(self, number: int, table: "pa.Table") -> Sliced:
        """Build a slice from its changes, which come in any order."""
        store, found = task_store(self.objects)
        part = build(store, self.cut, number, _changes(in_key_order(table)))
        return Sliced(part, found, files=len(table))


def _changes(rows: "Iterable[pa.RecordBatch]") -> Iterator[StagedChange]:
    for batch in rows:
        columns = (batch.column(name).to_pylist() for name in (KEY, _RECORD_ID, _VALUE, _REPLACES))
        for key, identifier, value, replaces in zip(*columns, strict=True):
            change = (key, identifier, value)
            yield Replacement(*change) if replaces else change


def _rows(changes: Sequence[StagedChange]) -> "pa.RecordBatch":
    import pyarrow as pa

    columns = [pa.array(column, pa.binary()) for column in zip(*changes, strict=True)]
    replaces = [isinstance(change, Replacement) for change in changes]
    return pa.RecordBatch.from_arrays(
        [*columns, pa.array(replaces, pa.bool_())], [KEY, _RECORD_ID, _VALUE, _REPLACES]
    )


@dataclass(frozen=True, slots=True)
class TaskCommitter:
    """Applies changes to trees by tasks."""

    stores: Stores
    spark: "SparkSession | None" = None
    least: int = 0
    share_bytes: int = SHARE_BYTES

    def apply(self, base: str, changes: Iterable[StagedChange]) -> Applied:
        """Return the new tree for the tree of a metarange, as `committed.apply.apply` does."""
        ranges, splitting = self.stores.ranges, self.stores.splitting
        load = Load(read(ranges, base), splitting)
        rows: list[pa.RecordBatch] = []
        for some in batches(changes, _BATCH):
            for change in some:
                load.add(change)
            rows.append(_rows(some))
        if not rows or load.size < self.least:
            return apply(ranges, base, _changes(rows), splitting)
        share = max(self.share_bytes, -(-load.size // MOST_SLICES))
        cut = load.cut(ranges, base, splitting, share)
        slices = kept(ranges, lambda: self._run(cut, rows))
        return stitch(ranges, cut, [each.part for each in slices])

    def _run(self, cut: Cut, rows: "Sequence[pa.RecordBatch]") -> list[Sliced]:
        import pyarrow as pa

        table = pa.Table.from_batches(rows)
        keys = chain.from_iterable(batch.column(KEY).to_pylist() for batch in rows)
        numbers = pa.array((bisect_left(cut.breaks, key) for key in keys), pa.int32())
        frame = frame_of_table(self.spark or running(), table.append_column(SLICE, numbers))
        task = CommitTask(self.stores.objects, cut)
        check_job(frame.sparkSession, task.objects)
        slices = by_slice(frame, cut, task)
        seen = sum(each.files for each in slices)
        if len(slices) != cut.slices or seen != len(table):
            raise InternalError(
                f"tasks have built {len(slices)} of {cut.slices} slices, of {seen} of {len(table)} changes"
            )
        return slices


def commit(
    branch: Branch,
    message: str,
    *,
    metadata: Mapping[str, str] | None = None,
    committer: str = "",
    allow_empty: bool = False,
    method: str = "auto",
    spark: "SparkSession | None" = None,
    share_bytes: int = SHARE_BYTES,
) -> Commit:
    """Commit the staged writes of a branch; tasks build the ranges if there is much to write.

    The tree equals that of ``branch.commit``, even if tasks fail. The driver reads the staged writes,
    holds them in memory, and lands the commit.

    Args:
        message: Message of the commit.
        metadata: Metadata of the commit.
        committer: Name of the committer; "" stands for the user of the process.
        allow_empty: Commit even if nothing staged differs from the head.
        method: ``process`` or ``spark``; ``auto`` uses Spark for 1 GiB or more of staged writes and of
            ranges that they touch.
        spark: A session; by default the active one, else a new one when it is needed.
        share_bytes: Approximate logical bytes of writes and ranges of a task.
    """
    instance(branch, "branch", Branch, "a branch")
    flag(allow_empty, "allow_empty"), choice(method, "method", METHODS)
    count(share_bytes, "share_bytes", least=1)
    least = _LARGE if method == "auto" else 0
    tasks = TaskCommitter(branch.repository, spark, least, share_bytes)
    return sealing.commit(
        branch.repository,
        branch.name,
        commit_spec(branch, message, metadata, committer),
        allow_empty=allow_empty,
        by=None if method == "process" else tasks.apply,
    )
