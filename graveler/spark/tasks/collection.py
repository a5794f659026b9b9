"""Garbage collection in which tasks read the ranges; the collector still makes every decision.

A task reads ranges, or the lists of their addresses, and puts missing lists. It may run twice. It gets
the object store and no key-value store.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import count
from typing import TYPE_CHECKING

from graveler.base.arguments import choice
from graveler.committed.references import AddressLists, Ranges, by_one_process
from graveler.frames.spark.session import running
from graveler.model import RangeInfo
from graveler.repository.imports.tasks import FAULTS, batch_of, decode_fault, encode_fault
from graveler.spark.tasks.imports import METHODS
from graveler.spark.tasks.preflight import check_job

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession

    from graveler.gc.collector import GarbageCollector
    from graveler.lake.repository import Repository

LARGE = 2_000_000
"""Number of entries in kept ranges from which Spark reads them: half a minute for one process."""

_ROWS = "part int, number long, id binary, kept boolean"
_RESULT = "address binary, fault string"
_LISTED = 20
"""A list is read this many times as fast as its range."""


def collector(
    repository: "Repository", spark: "SparkSession | None" = None, *, method: str = "auto"
) -> "GarbageCollector":
    """Return the garbage collection of a repository, with Spark to read the kept ranges.

    It has the same rules, marks and reports as ``repository.gc``. The addresses in a range are stored
    as a list, so that later calls read only new ranges.

    Args:
        spark: A session; by default the active one, else a new one when it is needed.
        method: ``process`` or ``spark``; ``auto`` uses Spark if the kept ranges have two million entries
            or more.
    """
    return repository.gc.reading(AddressReader(spark, choice(method, "method", METHODS)))


@dataclass(frozen=True, slots=True)
class AddressReader:
    """Reads the addresses in ranges, by tasks if there are many."""

    spark: "SparkSession | None"
    method: str

    def __call__(self, lists: AddressLists, ranges: Ranges) -> Iterator[bytes]:
        """Yield the addresses; those from tasks are ascending and distinct."""
        if self.method == "process":
            return by_one_process(lists, ranges)
        found = list(ranges)
        entries = sum(info.count for info, _ in found)
        if not found or (self.method == "auto" and entries < LARGE):
            return by_one_process(lists, found)
        session = self.spark or running()
        check_job(session, lists)
        return _by_tasks(session, lists, found)


def _by_tasks(
    spark: "SparkSession", lists: AddressLists, ranges: list[tuple[RangeInfo, bool]]
) -> Iterator[bytes]:
    from graveler.spark.metadata.trees import balanced

    parts = balanced(ranges, _weight, 0)
    numbers = count()
    rows = [
        (place, next(numbers), info.id, kept)
        for place, part in enumerate(parts)
        for info, kept in part
    ]
    frame = spark.createDataFrame(rows, _ROWS).repartitionById(len(parts), "part")
    found = frame.mapInArrow(AddressTask(lists), _RESULT).distinct().orderBy("address")
    for address, fault in found.toLocalIterator():
        if fault is not None:  # the first fault comes before all addresses
            raise decode_fault(fault)
        yield bytes(address)


def _weight(item: tuple[RangeInfo, bool]) -> int:
    info, kept = item
    return max(1, info.count // _LISTED) if kept else info.count


@dataclass(frozen=True, slots=True)
class AddressTask:
    """Reads the addresses in ranges; a task of another process calls it."""

    lists: AddressLists

    def __call__(self, batches: "Iterator[pa.RecordBatch]") -> "Iterator[pa.RecordBatch]":
        """Yield the addresses in the ranges of rows; a range that cannot be read yields a fault.

        A fault has the number of the range in place of an address. Its first byte is 0, so that faults
        come before addresses and in the order of the ranges.
        """
        for batch in batches:
            columns = (batch.column(name).to_pylist() for name in ("number", "id", "kept"))
            for number, identifier, kept in zip(*columns, strict=True):
                try:
                    found = self.lists.addresses(identifier, kept=kept)
                except FAULTS as error:
                    fault = encode_fault(error)
                    yield batch_of([(number.to_bytes(8), fault)], _RESULT)
                else:
                    yield batch_of([(address, None) for address in found], _RESULT)
