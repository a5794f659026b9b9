"""Bulk import: the entries of a frame become a commit, and Spark builds its tree."""

import pickle
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from graveler.arguments import PathText, count, flag, instance, prefix_text
from graveler.errors import InvalidInputError, ObjectNotFoundError
from graveler.repository.branch import Branch
from graveler.repository.imports import Imported
from graveler.repository.imports.files import plain
from graveler.repository.imports.inventory import InventoryRows
from graveler.repository.imports.tasks import KEY
from graveler.repository.imports.trees import land_tree
from graveler.spark.building import SLICE_ROWS, Builder, survey
from graveler.spark.workers import check_workers

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_COLUMNS: Final = (
    *("address", "size", "etag", "mtime", "lastmodifieddate", "version"),
    *("checksum", "contenttype", "metadata"),
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
    spec = branch._spec(message, metadata, committer)
    stores = branch.repository
    pickle.dumps(stores.objects)  # a storage that executors cannot reach is refused by name
    rows = _rows_of(frame, to)
    check_workers(frame.sparkSession)
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
