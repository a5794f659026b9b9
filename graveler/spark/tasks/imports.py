"""Bulk import: a commit of the entries of a frame, with a tree that Spark builds."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from dataclasses import replace as replaced
from operator import attrgetter
from pathlib import PurePath
from typing import TYPE_CHECKING

from graveler.base.arguments import PathText, choice, count, flag, instance, prefix_text, text
from graveler.base.background import batches
from graveler.errors import InvalidInputError, ObjectNotFoundError, StateError
from graveler.frames.spark.session import running
from graveler.repository.branch import Branch, commit_spec
from graveler.repository.imports.files import plain
from graveler.repository.imports.found import Found, Piece
from graveler.repository.imports.importer import Imported, source_of, source_text
from graveler.repository.imports.inventory import InventoryRows
from graveler.repository.imports.tasks import (
    FAULTS,
    KEY,
    batch_of,
    decode_fault,
    encode_fault,
    land_tree,
)
from graveler.spark.tasks.building import SLICE_ROWS, Builder, survey
from graveler.spark.tasks.preflight import check_job

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

_COLUMNS = (
    *("address", "size", "etag", "mtime", "lastmodifieddate", "version"),
    *("checksum", "contenttype", "metadata"),
)


METHODS = ("auto", "process", "spark")
LARGE = 1 << 30
"""Bytes of an inventory from which Spark imports it: about 20 million files."""


def import_(
    branch: Branch,
    source: str | PurePath,
    to: PathText = "",
    *,
    message: str,
    below: str = "",
    replace: bool = False,
    method: str = "auto",
    spark: "SparkSession | None" = None,
    metadata: Mapping[str, str] | None = None,
    committer: str = "",
    slice_rows: int = SLICE_ROWS,
) -> Imported:
    """Commit entries of many files that are already in a store, by one process or by Spark.

    Both give the same tree. Sources are those of ``branch.import_``. Spark lists the folders of a source,
    or reads the files of an inventory, in tasks, and keeps the rows on the disks of the executors.

    Args:
        branch: The target; it must have no staged writes.
        source: A folder, a prefix of a bucket, or the file of an inventory.
        to: Folder of the entries; "" for the whole tree.
        below: For an inventory: only files below this place; their paths begin after it.
        replace: Delete paths below `to` that the source does not have, in the same commit.
        method: ``process`` or ``spark``; ``auto`` uses Spark for inventories of 1 GiB or more. The number
            of files in a folder is not known before it is listed, so one process imports a folder.
        committer: Name of the committer; "" stands for the user of the process.
    """
    instance(branch, "branch", Branch, "a branch")
    choice(method, "method", METHODS)
    source = source_text(source)
    below = text(below, "below", empty=True)
    staged = next(iter(branch.uncommitted()), None)
    if staged is not None:
        raise StateError(
            f"branch {branch.name!r} has a staged write of {staged.path!r}: commit it or discard it first"
        )
    found = source_of(branch.repository, source, below)
    if method == "process" or (method == "auto" and found.size() < LARGE):
        done = branch.import_(source, to, below=below, replace=replace)
        made = branch.commit(message, metadata=metadata, committer=committer)
        return replaced(done, commit=made.id)
    session = spark or running()
    check_job(session, branch.repository.objects)
    with frame_of(session, found.pieces()) as frame:
        return import_frame(
            branch,
            frame,
            to,
            message=message,
            replace=replace,
            metadata=metadata,
            committer=committer,
            slice_rows=slice_rows,
        )


def import_frame(
    branch: Branch,
    frame: "DataFrame",
    to: PathText = "",
    *,
    message: str,
    replace: bool = False,
    metadata: Mapping[str, str] | None = None,
    committer: str = "",
    slice_rows: int = SLICE_ROWS,
) -> Imported:
    """Commit an entry for each row of a frame; Spark builds the tree, and no byte is copied.

    The commit has the tree that ``branch.import_`` and ``branch.commit`` give in one process, ids
    included. The partitions of the frame do not matter. The frame is read twice and must not change
    meanwhile. The branch moves in one step. Writes staged elsewhere on it stay staged.

    The tasks get the storage of the repository with the lake's credentials for it, and nothing of its
    key-value store. They need the driver's version of graveler.

    Args:
        frame: A row for each file. Names of columns ignore case and underscores. Required: ``path``
            (below `to`), ``address``, ``size``, and ``etag``, ``version`` or, for a local file,
            ``mtime``. Optional: ``checksum``, ``content_type`` and ``metadata`` (a map of texts).
            Other columns are not read.
        to: Folder of the entries; "" for the whole tree.
        replace: Delete paths of the head below `to` that the frame does not have, in the same commit.
        committer: Name of the committer; "" stands for the user of the process.
        slice_rows: Approximate number of rows of a task. It does not change the result.
    """
    instance(branch, "branch", Branch, "a branch")
    to, slice_rows = prefix_text(to, "to"), count(slice_rows, "slice_rows", least=1)
    flag(replace, "replace")
    if to and not to.endswith("/"):
        raise InvalidInputError(f"to={to!r}: give a folder, as in {to + '/'!r}, or ''")
    spec = commit_spec(branch, message, metadata, committer)
    stores = branch.repository
    rows = _rows_of(frame, to)
    check_job(frame.sparkSession, stores.objects)
    prefix = to.encode()
    splitting = stores.splitting
    found = survey(rows, splitting, slice_rows)
    if not found.rows:
        raise ObjectNotFoundError("the frame names no files: nothing was imported")
    builder = Builder(stores, splitting, rows, found, prefix if replace else None)
    made = land_tree(stores, branch.name, spec, builder.build, prefix=prefix, fence=branch._fence)
    return Imported(builder.files, builder.size, builder.removed, made.id)


def _rows_of(frame: "DataFrame", to: str) -> "DataFrame":
    from pyspark.sql import functions as f

    if not type(frame).__module__.startswith("pyspark.sql."):
        raise InvalidInputError(
            f"frame: {type(frame).__module__}.{type(frame).__qualname__} is not a frame of Spark: "
            "give `spark.createDataFrame(frame)`"
        )
    names: dict[str, str] = {}
    for column in frame.columns:
        other = names.setdefault(plain(column), column)
        if other != column:
            raise InvalidInputError(
                f"the frame has columns {other!r} and {column!r}: leave one out"
            )
    InventoryRows("", verify=False).check_columns("the frame", names)
    for name in ("path", "address"):
        if name not in names:
            raise InvalidInputError(
                f"the frame has no column {name}; its columns are {', '.join(frame.columns)}"
            )
    path = f.concat(f.lit(to), f.col(f"`{names['path']}`"))
    others = [f.col(f"`{names[name]}`").alias(name) for name in _COLUMNS if name in names]
    return frame.select(path.cast("binary").alias(KEY), *others)


_FOUND = (
    "path string, address string, size long, version string, mtime timestamp, checksum string, "
    "content_type string, metadata map<string,string>, fault string"
)
_FIELDS = ("path", "address", "size", "version", "mtime", "checksum", "content_type")
_BATCH = 5_000


@dataclass(frozen=True, slots=True)
class PieceTask:
    """Reads pieces of a source by their numbers; a task of another process calls it."""

    pieces: Sequence[Piece]

    def __call__(self, numbers: "Iterator[pa.RecordBatch]") -> "Iterator[pa.RecordBatch]":
        """Return the files of the pieces of these numbers."""
        for batch in numbers:
            for number in batch.column(0).to_pylist():
                try:
                    for chunk in batches(self.pieces[number](), _BATCH):
                        yield _batch_of(chunk)
                except FAULTS as error:
                    yield _batch_of([Found("", "", 0)], encode_fault(error))


def _batch_of(files: Sequence[Found], fault: str | None = None) -> "pa.RecordBatch":
    fields = attrgetter(*_FIELDS)
    rows = [(*fields(file), list(file.metadata.items()), fault) for file in files]
    return batch_of(rows, _FOUND)


@contextmanager
def frame_of(spark: "SparkSession", pieces: Sequence[Piece]) -> "Iterator[DataFrame]":
    """Yield the files of all pieces as a frame for `import_frame`.

    A task reads each piece once. The rows stay on the disks of the executors during the block.
    """
    from pyspark import StorageLevel

    numbers = spark.range(0, len(pieces), 1, len(pieces))
    frame = numbers.mapInArrow(PieceTask(pieces), _FOUND).persist(StorageLevel.DISK_ONLY)
    try:
        for row in frame.where("fault is not null").select("fault").take(1):
            raise decode_fault(row[0])
        yield frame
    finally:
        frame.unpersist()
