"""Export: tasks copy the files of a version, or only changed files, to a folder or a bucket.

A task writes each file completely under a fixed name, so it may run twice. It gets the stores of the files
and of the target, and no key-value store.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from graveler.base.background import Threads, batches
from graveler.base.names import path_key
from graveler.committed.diff import differing
from graveler.committed.metarange import prefix_end, read
from graveler.errors import ObjectNotFoundError
from graveler.model import Entry
from graveler.reads.downloads import MOST_FAULTS, failure
from graveler.reads.export import Copier, Export, begin, destination, end
from graveler.reads.stores import FileStores
from graveler.repository.imports.tasks import FAULTS, Fault
from graveler.spark.loading import check_limit
from graveler.spark.preflight import check_job

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame

    from graveler.lake import Repository
    from graveler.spark.tables import Tables

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
        import pyarrow as pa

        faults = 0
        names = [field.split()[0] for field in _RESULT.split(", ")]
        types = (pa.int64(), pa.int64(), pa.string(), pa.string())
        with Threads(_THREADS, thread_name_prefix="graveler-export") as pool:
            for chunk in batches((row for batch in rows for row in batch.to_pylist()), _CHUNK):
                done = [*pool.map(self._do, chunk)]
                faults += sum(fault is not None for *_, fault in done)
                columns = zip(*done, strict=True)
                arrays = [pa.array(each, kind) for each, kind in zip(columns, types, strict=True)]
                yield pa.RecordBatch.from_arrays(arrays, names)
                if faults >= MOST_FAULTS:
                    return

    def _do(self, row: dict[str, Any]) -> tuple[int, int, str | None, str | None]:
        try:
            if row["address"] is None:
                self.copier.delete(row["path"])
                return 1, 0, None, None
            self.copier.copy(Entry(**row))
        except FAULTS as error:
            return 0, 0, row["path"], Fault.of(error).encode().decode()
        return 1, row["size"], None, None


def export(
    tables: "Tables",
    ref: str,
    place: str | Path,
    since: str | None,
    prefix: str,
) -> Export:
    """Export files between commit ids; see `Tables.export`."""
    repository = tables.repository
    prefix = f"{folder}/" if (folder := prefix.rstrip("/")) else ""
    if prefix and not any(repository.ref(each).has_below(prefix) for each in {ref, since or ref}):
        raise ObjectNotFoundError(f"nothing below {prefix!r} in commit {ref[:12]}")
    target = destination(repository.stores, place)
    copier = Copier(FileStores.of(repository.stores), target, prefix)
    made = Export(repository.name, ref, prefix, since or "")
    check_limit(tables.spark)
    check_job(tables.spark, copier)
    begin(target, made)
    columns = ("path", *_FIELDS)
    tasks = _tasks(repository, ref, since, prefix)
    deleted = 0
    if since is None:
        copies = tables.entries(ref, prefix).select(*columns)
    else:
        changes = tables.diff(since, ref, prefix)
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
    faults = [(path, Fault.read(fault).error()) for path, fault, *_ in sums if path is not None]
    files, size = next(((row[2], row[3]) for row in sums if row[0] is None), (0, 0))
    if faults:
        raise failure(
            sorted(faults, key=lambda fault: fault[0]),
            f"{files:,} other files were written to {copier.target.root}: export again",
        )
    return files, size


def _tasks(repository: "Repository", ref: str, since: str | None, prefix: str) -> int:
    """Return the number of tasks for the files."""
    ranges = repository.stores.ranges
    start = path_key(prefix) if prefix else b""
    names = [repository.commit(commit).metarange for commit in (since, ref) if commit is not None]
    trees = [read(ranges, tree).within(start, prefix_end(start)) for tree in names]
    sides = [list(trees[0])] if since is None else differing(*trees)
    files: int = sum(info.count for side in sides for info in side)
    return min(max(1, files // _TASK_FILES), _MOST_TASKS)
