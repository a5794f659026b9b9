"""Export: tasks copy the files of a version, or only changed files, to a folder or a bucket.

A task writes each file completely under a fixed name, so it may run twice. It gets the stores of the files
and of the target, and no key-value store.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from graveler.base.arguments import PathText, RefLike, prefix_text, text
from graveler.base.background import Threads, batches
from graveler.base.names import path_key
from graveler.committed.diff import differing
from graveler.committed.metarange import prefix_end, read
from graveler.errors import ObjectNotFoundError
from graveler.frames.spark.loading import check_limit
from graveler.model import Commit, Entry
from graveler.reads.local.downloads import MOST_FAULTS, failure
from graveler.reads.local.export import Copier, Export, begin, destination, end
from graveler.reads.stores import FileStores
from graveler.repository.imports.tasks import FAULTS, batch_of, decode_fault, encode_fault
from graveler.spark.tables import Tables
from graveler.spark.tasks.preflight import check_job

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

    from graveler.lake.repository import Repository

_FIELDS = ("address", "size", "checksum", "version")
_RESULT = "files long, bytes long, path string, fault string"
_TASK_FILES = 500
_MOST_TASKS = 5_000
_THREADS = 8
_CHUNK = 100


@dataclass(frozen=True, slots=True)
class CopyTask:
    """Copies or deletes the files of rows; a task of another process calls it."""

    copier: Copier

    def __call__(self, rows: "Iterator[pa.RecordBatch]") -> "Iterator[pa.RecordBatch]":
        """Yield the totals, and a row for each file that could not be copied."""
        faults = 0
        with Threads(_THREADS, thread_name_prefix="graveler-export") as pool:
            for chunk in batches((row for batch in rows for row in batch.to_pylist()), _CHUNK):
                done = [*pool.map(self._do, chunk)]
                faults += sum(fault is not None for *_, fault in done)
                yield batch_of(done, _RESULT)
                if faults >= MOST_FAULTS:
                    return

    def _do(self, row: dict[str, Any]) -> tuple[int, int, str | None, str | None]:
        try:
            if row["address"] is None:
                self.copier.delete(row["path"])
                return 1, 0, None, None
            self.copier.copy(Entry(**row))
        except FAULTS as error:
            return 0, 0, row["path"], encode_fault(error)
        return 1, row["size"], None, None


def export(
    repository: "Repository",
    ref: str | Commit | RefLike,
    place: PathText,
    *,
    since: str | Commit | RefLike | None = None,
    prefix: PathText = "",
    spark: "SparkSession | None" = None,
) -> Export:
    """Copy the files of a version to a folder or a bucket, by tasks, under their paths in the tree.

    Each file is compared with its entry, and appears completely or not at all. A call that was stopped
    can be repeated. After all files, a record is put as ``_SUCCESS``. The next call first removes it.

    Args:
        place: A folder that all workers have, or ``s3://bucket/prefix``, outside the storages of the
            lake. Other files there stay.
        since: The version that was exported to the place before. Only files that changed since are
            copied, and files of removed paths are deleted.
        prefix: Only this folder of the tree; names begin after it. "" for all.
        spark: A session, classic or of Spark Connect; by default the active one, else a new one.
    """
    place = place if isinstance(place, str) else str(place)
    head = repository.ref(ref).commit_id
    base = None if since is None else repository.ref(since).commit_id
    place, folder = text(place, "place"), prefix_text(prefix, "prefix").rstrip("/")
    prefix = folder and f"{folder}/"
    if prefix and not any(repository.ref(each).has_below(prefix) for each in {head, base or head}):
        raise ObjectNotFoundError(f"nothing below {prefix!r} in commit {head[:12]}")
    target = destination(repository.stores, place)
    copier = Copier(FileStores.of(repository.stores), target, prefix)
    made = Export(repository.name, head, prefix, base or "")
    tables = Tables(repository, spark)
    check_limit(tables.spark)
    check_job(tables.spark, copier)
    begin(target, made)
    columns = ("path", *_FIELDS)
    tasks = _tasks(repository, head, base, prefix)
    deleted = 0
    if base is None:
        copies = tables.entries(head, prefix).select(*columns)
    else:
        changes = tables.diff(base, head, prefix)
        gone = changes.where("kind = 'removed'")
        nothing = [f"null as {name}" for name in _FIELDS]
        deleted, _ = _run(gone.selectExpr("path", *nothing), copier, tasks)
        kept = changes.where("kind != 'removed'")
        copies = kept.selectExpr("path", *(f"after.{name} as {name}" for name in _FIELDS))
    files, size = _run(copies, copier, tasks)
    made = replace(made, files=files, bytes=size, deleted=deleted)
    end(target, made)
    return made


def _run(rows: "DataFrame", copier: Copier, tasks: int) -> tuple[int, int]:
    """Return the number of files that tasks copied or deleted, and the bytes of the copies."""
    from pyspark.sql import functions as f

    done = rows.repartition(tasks, "path").mapInArrow(CopyTask(copier), _RESULT)
    sums = done.groupBy("path", "fault").agg(f.sum("files"), f.sum("bytes")).collect()
    faults = [(path, decode_fault(fault)) for path, fault, *_ in sums if path is not None]
    files, size = next(((row[2], row[3]) for row in sums if row[0] is None), (0, 0))
    if faults:
        raise failure(
            sorted(faults, key=lambda fault: fault[0]),
            f"{files:,} other files were written to {copier.target.root}: export again",
        )
    return files, size


def _tasks(repository: "Repository", ref: str, since: str | None, prefix: str) -> int:
    ranges = repository.stores.ranges
    start = path_key(prefix) if prefix else b""
    names = [repository.commit(commit).metarange for commit in (since, ref) if commit is not None]
    trees = [read(ranges, tree).within(start, prefix_end(start)) for tree in names]
    sides = [list(trees[0])] if since is None else differing(*trees)
    files: int = sum(info.count for side in sides for info in side)
    return min(max(1, files // _TASK_FILES), _MOST_TASKS)
