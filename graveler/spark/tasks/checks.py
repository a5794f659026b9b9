"""The check of a repository in which tasks check ranges and objects; the report is that of one process.

A first job reads each range once and returns a row for each finding and each entry. A second job checks
each object once, even if many entries name it. Tasks get object stores and no key-value store.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from graveler.base.background import Threads, batches
from graveler.committed.ranges.range_store import RangeStore
from graveler.frames.spark.session import running
from graveler.model import Entry, RangeInfo
from graveler.reads.soundness import OBJECT, Depth, Finding, Staged, check_range, fault_of, mark_of
from graveler.reads.stores import FileStores, Stores
from graveler.repository.imports.tasks import batch_of
from graveler.spark.tasks.preflight import check_job
from graveler.values import decode_range_info, encode_range_info

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession

    from graveler.fsck.check import FsckReport
    from graveler.lake.repository import Repository

_WORK = "part int, number long, key binary, value binary"
FOUND = (
    "number long, place long, kind string, id string, message string, paths array<string>, "
    "mark binary, address string, size long, checksum string, version string"
)
"""Columns of the rows of the first job. A finding has a kind, an entry has a mark."""

OBJECT_FIELDS = ("mark", "address", "size", "checksum", "version")
"""Columns of an entry that describe its object."""

_LOOKED = "mark binary, fault string, read long"
_THREADS = 8
_CHUNK = 1_000
_TASK_OBJECTS = 2_000
_MOST_TASKS = 5_000

Row = tuple[Any, ...]


class Outcome(NamedTuple):
    """The results of the two jobs."""

    looked_at: int
    hashed: int
    findings: Sequence[Row]
    faults: Sequence[Row]


@dataclass(frozen=True, slots=True)
class RangeTask:
    """Reads ranges; a task of another process calls it."""

    ranges: RangeStore
    entries: bool

    def __call__(self, work: "Iterator[pa.RecordBatch]") -> "Iterator[pa.RecordBatch]":
        """Yield a row for each finding and each entry of ranges."""
        for batch in work:
            for row in batch.to_pylist():
                info = decode_range_info(row["key"], row["value"])
                for rows in batches(self._rows(row["number"], info), _CHUNK):
                    yield batch_of(rows, FOUND)

    def _rows(self, number: int, info: RangeInfo) -> Iterator[Row]:
        held: list[Entry] = []

        def hold(entries: Sequence[Entry]) -> Iterable[tuple[Entry, str]]:
            held.extend(entries)
            return ()

        place = -1
        faults = hold if self.entries else None
        for place, finding in enumerate(check_range(self.ranges, info, str, faults)):
            yield (number, place, *finding[1:4], list(finding.paths), *(None,) * len(OBJECT_FIELDS))
        for each, entry in enumerate(held, place + 1):
            yield object_row(number, each, entry)


@dataclass(frozen=True, slots=True)
class ObjectTask:
    """Checks several objects at a time; a task of another process calls it."""

    files: FileStores
    depth: Depth

    def __call__(self, objects: "Iterator[pa.RecordBatch]") -> "Iterator[pa.RecordBatch]":
        """Yield the mark, the fault and the number of bytes read of each object."""
        rows = (row for batch in objects for row in batch.to_pylist())
        with Threads(_THREADS, thread_name_prefix="graveler-fsck") as pool:
            for chunk in batches(rows, _CHUNK):
                yield batch_of([*pool.map(self._look, chunk)], _LOOKED)

    def _look(self, row: dict[str, Any]) -> Row:
        mark = row.pop("mark")
        return (mark, *fault_of(self.files, Entry("", **row), self.depth))


def object_row(number: int, place: int, entry: Entry) -> Row:
    """Return the row of an entry's object."""
    fields = (getattr(entry, name) for name in OBJECT_FIELDS[1:])
    return (number, place, None, None, None, [entry.path], mark_of(entry), *fields)


Jobs = Callable[
    [RangeTask, ObjectTask | None, Sequence[tuple[int, RangeInfo]], Sequence[Row]], Outcome
]
"""Runs the tasks of ranges by number and the tasks of objects; also gets rows of staged entries."""


@dataclass(slots=True)
class TaskCheck:
    """Checks ranges and objects by tasks; see `graveler.reads.soundness.FileCheck`."""

    stores: Stores
    depth: Depth
    jobs: Jobs
    looked_at: int = 0
    hashed: int = 0
    resumed: int = 0

    def __call__(self, ranges: Iterable[RangeInfo], staged: Iterable[Staged]) -> Iterator[Finding]:
        """Yield the findings in the order of the ranges and the staged entries."""
        infos, writes = list(ranges), list(staged)
        holders: list[bytes | str] = [info.id for info in infos]
        holders += [branch for branch, _ in writes]
        rows = [
            object_row(number, 0, entry) for number, (_, entry) in enumerate(writes, len(infos))
        ]
        stores, looks = self.stores, self.depth != "none"
        objects = ObjectTask(FileStores.of(stores), self.depth) if looks else None
        done = self.jobs(RangeTask(stores.ranges, looks), objects, list(enumerate(infos)), rows)
        self.looked_at, self.hashed = done.looked_at, done.hashed
        found = [
            (number, place, Finding(holders[number], kind, name, message, tuple(paths)))
            for number, place, kind, name, message, paths in done.findings
        ]
        for number, place, address, fault, paths in done.faults:
            uri = stores.uri(address)
            found.append(
                (number, place, Finding(holders[number], OBJECT, uri, fault, tuple(paths)))
            )
        for *_, finding in sorted(found, key=lambda each: each[:2]):
            yield finding


def fsck(
    repository: "Repository", spark: "SparkSession | None" = None, *, objects: Depth = "exist"
) -> "FsckReport":
    """Do the check of ``repository.fsck`` with tasks that check ranges and objects.

    The report is the same. The driver reads refs, commits, metaranges and staged writes. A check by
    tasks cannot be resumed and has no limit of its reading rate.

    Args:
        spark: A session, classic or of Spark Connect; by default the active one, else a new one.
        objects: ``exist`` checks the presence and size of every object, ``checksum`` reads all objects,
            ``none`` leaves them out.
    """
    check = TaskCheck(repository.stores, objects, partial(_run, spark or running()))
    return repository.fsck(objects=objects, check=check)


def _run(
    spark: "SparkSession",
    ranges: RangeTask,
    objects: ObjectTask | None,
    infos: Sequence[tuple[int, RangeInfo]],
    staged: Sequence[Row],
) -> Outcome:
    from pyspark import StorageLevel
    from pyspark.sql import functions as f

    from graveler.spark.metadata.trees import balanced

    check_job(spark, ranges, objects)
    entries = sum(info.count for _, info in infos) + len(staged)
    parts = balanced(infos, lambda item: item[1].count, 0) if infos else []
    work = [
        (part, number, info.max_key, encode_range_info(info))
        for part, some in enumerate(parts)
        for number, info in some
    ]
    frame = spark.createDataFrame(work, _WORK).repartitionById(max(1, len(parts)), "part")
    found = frame.mapInArrow(ranges, FOUND)
    if objects is None:
        rows = found.select("number", "place", "kind", "id", "message", "paths").collect()
        return Outcome(0, 0, rows, ())
    found = found.unionAll(spark.createDataFrame(list(staged), FOUND))
    found = found.persist(StorageLevel.DISK_ONLY)
    tasks = min(max(1, entries // _TASK_OBJECTS), _MOST_TASKS)
    held = found.where("mark is not null")
    once = held.select(*OBJECT_FIELDS).dropDuplicates(["mark"]).repartition(tasks, "mark")
    looked = once.mapInArrow(objects, _LOOKED).persist(StorageLevel.DISK_ONLY)
    try:
        findings = found.where("kind is not null")
        faults = looked.where("fault != ''").join(held, "mark")
        (count, read), *_ = looked.agg(f.count("mark"), f.sum("read")).collect()
        return Outcome(
            count,
            read or 0,
            findings.select("number", "place", "kind", "id", "message", "paths").collect(),
            faults.select("number", "place", "address", "fault", "paths").collect(),
        )
    finally:
        looked.unpersist()
        found.unpersist()
