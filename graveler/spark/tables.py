"""The tables of a repository by ref and path, with one Spark session."""

import re
from collections.abc import Mapping
from contextlib import AbstractContextManager
from functools import cache
from typing import TYPE_CHECKING, Any, Unpack

import graveler
from graveler.base.arguments import (
    BranchLike,
    PathText,
    RefLike,
    choice,
    count,
    instance,
    path_text,
    prefix_text,
    text,
)
from graveler.base.names import check_caller_pairs
from graveler.config import load_config
from graveler.errors import InvalidInputError
from graveler.frames.spark.loading import check_limit, frame_of_table
from graveler.frames.spark.reader import ReadOptions, read
from graveler.frames.spark.session import running
from graveler.frames.spark.writer import WriteOptions, check_terms
from graveler.model import MESSAGE_BYTES, Commit
from graveler.spark.compaction import Compaction, small_files
from graveler.spark.idempotence import NAMES, Landed, Txn
from graveler.spark.metadata.options import Request
from graveler.spark.streams.rows import COMPACTION, read_appended
from graveler.spark.streams.sink import BatchWork, BatchWriter
from graveler.spark.tasks.imports import METHODS
from graveler.spark.tasks.preflight import check_sent
from graveler.spark.transactions import Transaction, transaction

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from graveler.lake.repository import Repository


TARGET_BYTES = 128 << 20
"""Size of the files that a compaction writes: 128 MiB."""

_QUOTED = re.compile(r"`(?:[^`]|``)*`")


class Tables:
    """The tables of a repository, to read and write with a Spark session.

    ::

        lake = graveler.spark.Tables(repo)
        orders = lake.read("main", "tables/orders/", where={"dt": "2026-01-03"})

    Attributes:
        repository: The repository.
        spark: The session, classic or of Spark Connect; by default the active one, else a new local
            one.
    """

    def __init__(self, repository: "Repository", spark: "SparkSession | None" = None) -> None:
        self.repository = repository
        self.spark = spark or running()
        self._landed = Landed(repository.stores.refs.commits)

    def __repr__(self) -> str:
        return f"<Tables of {self.repository.name}>"

    def __reduce__(self) -> tuple[Any, ...]:
        return _reopened, (self.repository.stores.location, self.repository.name)

    def read(
        self, ref: str | Commit | RefLike, path: PathText, **options: Unpack[ReadOptions]
    ) -> "DataFrame":
        """Return a table in a commit; the frame does not show later commits.

        Args:
            ref: A branch (its committed head), a tag or a commit id; ``main~3`` is three commits
                before, ``main@{2026-01-03T05:00Z}`` the head of the branch at that time.
            path: The table's folder.
            **options: As for `graveler.spark.read`.

        Raises:
            RefNotFoundError: No such ref.
            ExpiredError: Garbage collection has removed the commit's tree, or a file.
            ObjectNotFoundError: There is no file.
            InvalidInputError: A column is unknown, or Spark cannot read these files together.
        """
        return read(self.repository.ref(ref), path, spark=self.spark, **options)

    def entries(self, ref: str | Commit | RefLike, prefix: PathText = "") -> "DataFrame":
        """Return the entries of a commit: path, address, size, checksum, and so on.

        Tasks read them. Each entry has the ``range_id`` of its range. As for all frames of this kind, the
        data source ``format("graveler")`` reads it: Spark's processes open the lake by its location, and
        need graveler.

        Args:
            ref: As for `read`.
            prefix: Start of the paths; "" for all.

        Raises:
            RefNotFoundError: No such ref.
        """
        return self._metadata("entries", ref, prefix=prefix_text(prefix, "prefix"))

    def ranges(self, ref: str | Commit | RefLike, prefix: PathText = "") -> "DataFrame":
        """Return the ranges of a commit's tree: id, first and last path, entries, bytes.

        Args:
            ref: As for `read`.
            prefix: Only ranges that can have such paths; "" for all.
        """
        return self._metadata("ranges", ref, prefix=prefix_text(prefix, "prefix"))

    def diff(
        self,
        left: str | Commit | RefLike,
        right: str | Commit | RefLike,
        prefix: PathText = "",
        *,
        method: str = "auto",
    ) -> "DataFrame":
        """Return the differences from `left` to `right`: path, kind, the entries before and after.

        Ids of ranges are compared first, and only ranges that differ are read. The driver reads the few
        ranges of a small difference at once: a Spark job would take many times as long.

        Args:
            left: As for `read`.
            right: As for `read`.
            prefix: Start of the paths; "" for all.
            method: ``process`` reads the ranges in the driver, ``spark`` by tasks; ``auto`` takes Spark if
                the ranges that differ have more than 250,000 entries, or 64 MiB.

        Raises:
            RefNotFoundError: No such ref.
        """
        choice(method, "method", METHODS)
        trees = [self.repository.ref(ref).commit for ref in (left, right)]
        prefix = prefix_text(prefix, "prefix")
        if method != "spark":
            from pyspark.sql.pandas.types import from_arrow_schema

            from graveler.spark.metadata.trees import TreeReader

            stores = self.repository.stores
            request = Request(stores.location, stores.name, kind="diff", prefix=prefix)
            reader = TreeReader(stores.ranges, request, [tree.metarange for tree in trees])
            found = reader.read_here(only_small=method == "auto")
            if found is not None:
                return frame_of_table(self.spark, found, from_arrow_schema(found.schema))
        base, head = (tree.id for tree in trees)
        return self._metadata("diff", head, base=base, prefix=prefix)

    def commits(self, ref: str | Commit | RefLike) -> "DataFrame":
        """Return the history of a ref, children before parents.

        Args:
            ref: As for `read`.
        """
        return self._metadata("commits", ref)

    def _metadata(self, kind: str, ref: str | Commit | RefLike, **options: str) -> "DataFrame":
        options = self._options(kind, ref=self._commit_id(ref), **options)
        return self.spark.read.format("graveler").options(**options).load()

    def _options(self, kind: str, **options: str) -> dict[str, str]:
        check_limit(self.spark)
        stores = self.repository.stores
        _check_opened(stores.location)
        if kind != "commits":  # the driver lists those
            check_sent(stores.objects)
        given = {name: value for name, value in options.items() if value}
        return {"lake": stores.location, "repository": stores.name, "kind": kind, **given}

    def _commit_id(self, ref: str | Commit | RefLike) -> str:
        return self.repository.ref(ref).commit_id

    def transaction(
        self,
        branch: str | BranchLike,
        *,
        message: str,
        metadata: Mapping[str, str] | None = None,
        txn: tuple[str, int] | None = None,
    ) -> AbstractContextManager[Transaction]:
        """Write tables on a private branch, and land them at the end of the block.

        ::

            with lake.transaction("main", message="daily load") as tx:
                tx.write(orders, "tables/orders/", partition_by=["dt"])
                tx.write(totals, "tables/totals/", mode="overwrite")

        The branch moves once, by one commit with all writes. If it has moved meanwhile, the transaction
        is merged with its new head. After an exception or the death of the driver, it has not moved, and
        only files remain that garbage collection removes.

        Args:
            branch: The branch, protected or not; the gates that it requires judge the commit.
            message: Message of the commit.
            metadata: Metadata of the commit, without names that begin with ``txn.`` or
                ``spark.compaction``.
            txn: A name of the application and a whole number, such as the day or the batch. A
                second transaction of the same pair is skipped, even if both run at the same time: its
                writes do nothing, and `Transaction.skipped` is True. The commit has the pair as
                ``txn.app`` and ``txn.version``, and the history of the branch is searched for it.

        Raises:
            MergeConflictError: Another writer has changed paths that the transaction replaces; the
                message has the paths.
            RefNotFoundError: No such branch.
            GateFailedError: A gate that the branch requires has refused.
            FencedError: The transaction was silent for longer than a lease, and was dropped.
        """
        pairs = check_caller_pairs("transaction", metadata, NAMES, COMPACTION)
        return self._transaction(branch, message, pairs, None if txn is None else Txn.of(txn))

    def _transaction(
        self,
        branch: str | BranchLike,
        message: str,
        metadata: Mapping[str, str],
        txn: Txn | None = None,
        spark: "SparkSession | None" = None,
    ) -> AbstractContextManager[Transaction]:
        spark = spark or self.spark
        return transaction(self.repository, spark, branch, message, metadata, txn, self._landed)

    def batch_writer(
        self,
        branch: str | BranchLike,
        into: PathText | BatchWork,
        *,
        txn_app: str,
        message: str = "",
        metadata: Mapping[str, str] | None = None,
        checkpoint: str = "",
        **options: Unpack[WriteOptions],
    ) -> BatchWriter:
        """Return a function for ``foreachBatch`` that lands each batch in one commit, once.

        ::

            write = lake.batch_writer("main", "tables/clicks/", txn_app="clicks")
            query = clicks.writeStream.foreachBatch(write).option("checkpointLocation", at).start()

        A batch is a transaction of the branch, named by `txn_app` and the number of the batch. A batch that
        the branch already has is skipped, so a restarted query lands each batch once. The commit also has
        the query's id, as ``txn.query``. A query that lost its checkpoint counts from 0 again. Its batches
        are refused, as are those of another query with the same `txn_app`.

        Args:
            branch: As for `transaction`.
            into: The table's folder, or a function that is called with the `Transaction` and the batch, and
                writes to several tables, which land together.
            txn_app: Name of the application, used by one query only.
            message: Message of the commits; "" for one that counts batches.
            metadata: Metadata of the commits, as for `transaction`.
            checkpoint: The query's ``checkpointLocation``, required with Spark Connect, which does not
                return the query's id. There, `into` runs in a process of the server, which opens the lake by
                its location.
            **options: Options of the folder, as for `graveler.spark.write`. The mode is ``append``, or
                ``overwrite`` for queries in output mode ``complete``. A batch is then the whole table, so
                `partition_overwrite` is ``static`` by default.

        Raises:
            RefNotFoundError: No such branch.
            InvalidInputError: An argument is invalid.
        """
        if callable(into) and options:
            raise InvalidInputError(
                f"{', '.join(options)}: options are for a folder: give them to tx.write within the function"
            )
        if choice(options.get("mode", "append"), "mode", ("append", "overwrite")) == "overwrite":
            options.setdefault("partition_overwrite", "static")
        if not callable(into):
            into = path_text(into, "into")
            check_terms(into, **options)
        app = text(txn_app, "txn_app")
        return BatchWriter(
            self._transaction,
            self.repository.branch(branch).name,
            into,
            app=app,
            message=text(message, "message", empty=True, most=MESSAGE_BYTES),
            metadata=check_caller_pairs(f"batch writer {app!r}", metadata, NAMES, COMPACTION),
            checkpoint=text(checkpoint, "checkpoint", empty=True),
            options=options,
        )

    def changes(
        self,
        branch: str | BranchLike,
        *,
        starting_ref: str | Commit | RefLike = "",
        prefix: PathText = "",
        max_commits: int = 0,
    ) -> "DataFrame":
        """Return a stream of the changes of a branch, commit after commit.

        Its columns are those of `diff`, and ``commit_id``, ``committed`` and ``sequence``, the number of the
        commit in the stream. The commits are those of the branch by first parents: a merge is one commit
        with all its changes. The data source ``format("graveler")`` reads the stream. It needs Spark 4.2.

        Args:
            branch: The branch.
            starting_ref: A commit of the branch; the stream begins with the changes after it. By default it
                begins with the first commit. The query looks it up when it starts without a
                checkpoint.
            prefix: Start of the paths; "" for all.
            max_commits: Largest number of commits in a micro-batch; 0 for no limit.

        Raises:
            RefNotFoundError: No such branch.
        """
        if not isinstance(starting_ref, str):
            starting_ref = self._commit_id(starting_ref)
        options = self._options(
            "changes",
            branch=self.repository.branch(branch).name,
            # not looked up here: a query with a checkpoint does not need it, and it may be gone
            startingRef=starting_ref,
            prefix=prefix_text(prefix, "prefix"),
            maxCommitsPerTrigger=str(count(max_commits, "max_commits") or ""),
        )
        return self.spark.readStream.format("graveler").options(**options).load()

    def appended(
        self, changes: "DataFrame", path: PathText, **options: Unpack[ReadOptions]
    ) -> "DataFrame | None":
        """Return the rows that a batch of `changes` has appended to a table.

        ::

            def copy(tx, batch):
                rows = lake.appended(batch, "tables/orders/")
                if rows is not None:
                    tx.write(rows, "tables/copy/")

        The driver lists the files that the batch adds below the table's folder, and Spark reads them. The
        commits of `compact` are skipped, because their rows are not new.

        Args:
            changes: A batch of `changes`, as ``foreachBatch`` passes it.
            path: The table's folder.
            **options: As for `graveler.spark.read`.

        Returns:
            The rows; None if no file was added.

        Raises:
            StateError: The batch also replaces or removes files of the table.
            ExpiredError: Garbage collection has removed the tree of a commit, or a file.
        """
        folder = f"{path_text(path, 'path').rstrip('/')}/"
        return read_appended(self.repository, changes, folder, **options)

    def create_views(
        self,
        ref: str | Commit | RefLike,
        tables: Mapping[str, PathText],
        **options: Unpack[ReadOptions],
    ) -> "Mapping[str, DataFrame]":
        """Create a temporary view in the session for each table, all of one commit.

        A view does not move with its branch. Spark cannot read another version through it: it refuses
        ``VERSION AS OF``, and silently ignores options on a view. Make views with other names for another
        ref.

        Args:
            ref: As for `read`.
            tables: The paths of tables, by the names of their views. Existing views are replaced.
            **options: Options of all tables, as for `graveler.spark.read`.

        Returns:
            The frames by the names of their views.

        Raises:
            RefNotFoundError: No such ref.
            ObjectNotFoundError: A table has no file; no view is made.
            InvalidInputError: A view cannot have the name; no view is made.
        """
        instance(tables, "tables", Mapping, "a mapping of names of views to paths")
        for name in tables:
            _check_view(self.spark, name)
        view = self.repository.ref(ref)
        frames = {
            name: read(view, path, spark=self.spark, **options) for name, path in tables.items()
        }
        for name, frame in frames.items():
            frame.createOrReplaceTempView(name)
        return frames

    def compact(
        self,
        branch: str | BranchLike,
        path: PathText,
        *,
        target_bytes: int = TARGET_BYTES,
        where: Mapping[str, Any] | None = None,
        message: str = "",
    ) -> Compaction:
        """Rewrite the small Parquet files of a table as larger ones, in one commit.

        Rows stay in their partitions, and readers see the same table. Partitions whose number of files would
        not decrease do not change, nor do files of three quarters of the target size or more. Writers may
        append meanwhile.

        Args:
            branch: The branch.
            path: The table's folder.
            target_bytes: Total present size up to which files are combined into one.
            where: Only these partitions, as for `graveler.spark.read`.
            message: Message of the commit; "" for one that counts files.

        Raises:
            MergeConflictError: Another writer has replaced a rewritten file; nothing landed.
            CorruptionError: The new files have a different number of rows; nothing landed.
            RefNotFoundError: No such branch.
        """
        folder = f"{path_text(path, 'path').rstrip('/')}/"
        count(target_bytes, "target_bytes", least=1)
        message = text(message, "message", empty=True)
        due = small_files(self.repository.ref(branch), self.spark, folder, where, target_bytes)
        if not due:
            return Compaction(None, 0, 0, 0, 0, 0)
        files = sum(len(one.files) for one in due)
        message = message or f"compact {folder}: {files} files"
        with self._transaction(branch, message, {COMPACTION: folder}) as tx:
            due = small_files(self.repository.ref(tx.base), self.spark, folder, where, target_bytes)
            old = [entry for one in due for _, entry in one.files]
            made = tx._rewrite(folder, due) if due else []
        return Compaction(
            commit=tx.commit if old else None,
            partitions=len({one.folder for one in due}),
            files_before=len(old),
            files_after=len(made),
            bytes_before=sum(entry.size for entry in old),
            bytes_after=sum(entry.size for entry in made),
        )


@cache
def _reopened(location: str, name: str) -> Tables:
    """Return the tables of a repository in another process, whose lake stays open until it ends."""
    return Tables(graveler.open(location).repository(name))


def _check_opened(location: str) -> None:
    """Refuse a lake that would be empty in another process."""
    if load_config(location).kv_uri == "mem://":
        raise InvalidInputError(
            f"the key-value store of {location} is in the memory of this process, and the processes of "
            "Spark open the lake by its location: keep it in a database, such as sqlite://kv.sqlite3"
        )


def _check_view(spark: "SparkSession", name: Any) -> None:
    from pyspark.errors import ParseException

    name = text(name, "name of a view")
    try:
        if "." not in _QUOTED.sub("", name):
            spark.catalog.tableExists(name)  # parses the name, in a session of Spark Connect too
            return
    except ParseException:
        pass
    raise InvalidInputError(
        f"tables: {name!r} is not a valid view name: give letters, digits and '_', or put it in backquotes"
    )
