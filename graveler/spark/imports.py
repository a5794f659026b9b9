"""Bulk import: the entries of a frame become a commit, and Spark builds its tree."""

from collections.abc import Mapping
from dataclasses import replace as replaced
from pathlib import PurePath
from typing import TYPE_CHECKING, Final

from graveler.arguments import PathText, choice, count, flag, instance, prefix_text, text
from graveler.errors import InvalidInputError, ObjectNotFoundError, StateError
from graveler.repository.branch import Branch, commit_spec
from graveler.repository.imports import Imported, source_of, source_text
from graveler.repository.imports.files import plain
from graveler.repository.imports.inventory import InventoryRows
from graveler.repository.imports.tasks import KEY
from graveler.repository.imports.trees import land_tree
from graveler.spark.building import SLICE_ROWS, Builder, survey
from graveler.spark.preflight import check_job
from graveler.spark.session import running
from graveler.spark.sources import frame_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_COLUMNS: Final = (
    *("address", "size", "etag", "mtime", "lastmodifieddate", "version"),
    *("checksum", "contenttype", "metadata"),
)


METHODS: Final = ("auto", "process", "spark")
LARGE: Final = 1 << 30
"""Bytes of an inventory from which on Spark imports it; some 20 million files."""


def import_(  # noqa: PLR0913 - where from, where to, and how
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
    """Commit entries of many files that are in a store already, by one process or by Spark.

    Both give the same tree. Sources are those of ``branch.import_``. Spark lists the folders of a source,
    or reads the files of an inventory, in tasks, and keeps the rows on the disks of the executors.

    Args:
        branch: Where to; nothing may be staged on it.
        source: A folder or a prefix of a bucket; or the file of an inventory.
        to: Folder of the entries; "" for the whole tree.
        message: Of the commit.
        below: Of an inventory: only files below this place, whose paths begin behind it.
        replace: Delete what the branch has below `to` and the source has not, in the same commit.
        method: ``process`` or ``spark``; ``auto`` takes Spark for inventories of 1 GiB and more. How many
            files a folder has is not known before it is listed, so it is imported by one process.
        spark: A session; the active one where not given, else a new one.
        metadata: Of the commit.
        committer: Of the commit; "" stands for the user of the process.
        slice_rows: As for `import_frame`.

    Raises:
        StateError: Writes are staged on the branch.
        GravelerError: As `import_frame`, and as ``branch.import_``.
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


def import_frame(  # noqa: PLR0913 - where to, and how
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
    included, whatever the partitions of the frame. The frame is read twice and must not change
    meanwhile. The branch moves in one step; what is staged elsewhere on it stays staged.

    The tasks get the storage of the repository, with the credentials that the lake has for it, and
    nothing of its key-value store. They need the driver's graveler.

    Args:
        branch: Where to.
        frame: A row for each file. Columns, without case and underscores: ``path``, below `to`;
            ``address`` and ``size``; ``etag``, or ``mtime`` of a local file, or ``version``; and if
            wanted ``checksum``, ``content_type``, ``metadata`` (a map of texts). Others are not read.
        to: Folder of the entries; "" for the whole tree.
        message: Of the commit.
        replace: Delete what the branch's head has below `to` and the frame has not, in the same commit.
        metadata: Of the commit.
        committer: Of the commit; "" stands for the user of the process.
        slice_rows: How many rows a task gets, about. It does not change the result.

    Raises:
        InvalidInputError: A column is missing, a row makes no sense or a path is in two rows: the
            message has the path. Or executors cannot reach the storage.
        ObjectNotFoundError: The frame has no rows.
        NoChangesError: The head has all of it already.
        StateError: Writes are staged below `to`.
        PermissionDeniedError: A file lies in no declared place.
        SourceChangedError: The frame gave other rows when it was read again.
        MissingDependencyError: Workers have not the driver's graveler.
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
    found = survey(rows, stores.splitting, slice_rows)
    if not found.rows:
        raise ObjectNotFoundError("the frame names no files: nothing was imported")
    builder = Builder(stores, rows, found, prefix if replace else None)
    made = land_tree(stores, branch.name, spec, builder.build, prefix=prefix, fence=branch._fence)
    return Imported(builder.files, builder.size, builder.removed, made.id)


def _rows_of(frame: "DataFrame", to: str) -> "DataFrame":
    """Return the columns of an inventory that a frame has, and the key of each row.

    Raises:
        InvalidInputError: It is no frame of Spark, or a column is missing, or there twice.
    """
    from pyspark.sql import functions as f  # noqa: PLC0415 - heavy: only where it is used

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
