"""Packing a branch by tasks: each task cuts stretches of the tree again, the driver lands the commit."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from graveler.base.arguments import BranchLike, branch_text, choice, commit_texts, count, flag
from graveler.committed.apply import Tally
from graveler.committed.metarange import read
from graveler.committed.pack import Packed, Packer, Recut, assemble
from graveler.committed.slices import Part
from graveler.committed.splitting import Splitting
from graveler.objects.store import ObjectStore
from graveler.reads.stores import Stores
from graveler.repository import packing
from graveler.repository.imports.tasks import Sliced, result_batch, task_store
from graveler.repository.packing import PackResult
from graveler.spark.building import by_tasks, kept
from graveler.spark.imports import METHODS

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession

    from graveler.lake import Repository

SHARE_BYTES = 256 << 20
"""Approximate logical bytes that a task reads: about 170 ranges of the usual size."""


@dataclass(frozen=True, slots=True)
class PackTask:
    """Packs stretches of a tree by their numbers; a task of another process calls it.

    Attributes:
        everything: Whether all ranges are cut again.
        shares: The numbers of the stretches that each task packs.
    """

    objects: ObjectStore
    splitting: Splitting
    everything: bool
    tree: str
    shares: Sequence[Sequence[int]]

    def __call__(self, numbers: "Iterator[pa.RecordBatch]") -> "Iterator[pa.RecordBatch]":
        """Return the rows of the result for the stretches of these shares."""
        store, found = task_store(self.objects)
        packer = Packer(store, self.splitting, self.everything)
        infos = read(store, self.tree)
        bad = packer.bad(infos)
        stretches = packer.stretches(infos, bad)

        def recut(number: int) -> Sliced:
            made = packer.recut(infos, bad, stretches[number])
            return Sliced.of(Part(made.infos, Tally(), 0, 0), found, size=made.bytes_read)

        for batch in numbers:
            for share in batch.column(0).to_pylist():
                for number in self.shares[share]:
                    yield result_batch(number, partial(recut, number))


class TaskPacker:
    """Packs trees by tasks.

    Args:
        everything: Whether all ranges are cut again.
        share_bytes: Approximate logical bytes that a task reads.
    """

    def __init__(
        self,
        stores: Stores,
        spark: "SparkSession",
        *,
        everything: bool = False,
        share_bytes: int = SHARE_BYTES,
    ) -> None:
        self._stores = stores
        self._spark = spark
        self._packer = Packer(stores.ranges, stores.splitting, everything)
        self._share = share_bytes

    def waiting(self, branch: str) -> int:
        """Return the approximate logical bytes of the stretches to pack in a branch's head."""
        head = self._stores.refs.branches.get(branch).commit_id
        infos = read(self._stores.ranges, self._stores.refs.commits.get(head).metarange)
        return sum(each.size for each in self._packer.stretches(infos, self._packer.bad(infos)))

    def pack(self, tree: str) -> Packed:
        """Return the packed tree, as `Packer.pack` does."""
        from graveler.spark.trees import balanced

        ranges, packer = self._stores.ranges, self._packer
        infos = read(ranges, tree)
        stretches = packer.stretches(infos, packer.bad(infos))
        if not stretches:
            return Packed(tree)
        whole = sum(stretch.size for stretch in stretches)
        numbers = range(len(stretches))
        shares = balanced(numbers, lambda number: stretches[number].size, -(-whole // self._share))
        task = PackTask(self._stores.objects, packer.splitting, packer.everything, tree, shares)
        frame = self._spark.range(0, len(shares), 1, len(shares))
        slices = kept(ranges, lambda: by_tasks(frame, task))
        recuts = [Recut(tuple(each.part.infos), each.size) for each in slices]
        return assemble(ranges, tree, stretches, recuts)


LARGE = 4 << 30
"""Estimated logical bytes to read from which Spark packs a branch."""


def pack(
    repository: "Repository",
    spark: "SparkSession",
    branch: str | BranchLike,
    *,
    everything: bool = False,
    method: str = "auto",
    message: str = "",
    committer: str = "",
    share_bytes: int = SHARE_BYTES,
) -> PackResult:
    """Pack a branch; see `Tables.pack`."""
    flag(everything, "everything"), choice(method, "method", METHODS)
    count(share_bytes, "share_bytes", least=1)
    commit_texts(message, committer)
    stores = repository.stores
    name = branch_text(branch, "branch", within=stores)
    packer = TaskPacker(stores, spark, everything=everything, share_bytes=share_bytes)
    by = (
        None
        if method == "process" or (method == "auto" and packer.waiting(name) < LARGE)
        else packer.pack
    )
    return packing.pack(
        stores,
        name,
        everything=everything,
        message=message,
        committer=committer,
        by=by,
    )
