"""Transactions: writes to several tables that land on a branch in one commit, or not at all.

A transaction is a run without steps. Files that two transactions append do not conflict. Paths that a
transaction has replaced, or found missing, must not have changed when it lands: they are compared with
each head that it may land on, also where a landing compares less, as for partitions in other spellings,
an overwrite without rows, and files that a compaction has combined.
"""

import logging
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Unpack

from graveler.base.arguments import BranchLike, PathText, path_text, text
from graveler.errors import MergeConflictError, NoChangesError, StateError
from graveler.frames.spark.reader import ReadOptions, read
from graveler.frames.spark.writer import WriteOptions, paths_in_partitions, write
from graveler.model import MESSAGE_BYTES, Change, Commit, Conflict, Entry
from graveler.spark.compaction import Bin, rewrite
from graveler.spark.idempotence import Landed, Txn

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from graveler.lake import Repository, Run

_SHOWN = 5
_KEPT = 1_000
_log = logging.getLogger(__name__)


class _LandedBefore(Exception):
    def __init__(self, commit: Commit) -> None:
        super().__init__(f"in commit {commit.id[:12]} already")
        self.commit = commit


@dataclass(slots=True)
class Claims:
    """The paths that must not have changed when a transaction lands."""

    repository: "Repository"
    base: Commit
    claimed: dict[str, set[str] | None] = field(default_factory=dict)

    def folder(self, folder: str) -> None:
        """Claim a folder: its files, and the absence of others."""
        self.claimed[folder] = None

    def paths(self, folder: str, paths: set[str]) -> None:
        """Claim files of a folder."""
        known = self.claimed.setdefault(folder, set())
        if known is not None:
            known |= paths

    def check(self, head: Commit) -> None:
        """Compare the claimed paths with a head of the target."""
        if head.id == self.base.id:
            return
        changes = {change.path: change for change in self._changes(head)}
        if not changes:
            return
        shown = ", ".join(map(repr, sorted(changes)[:_SHOWN]))
        more = f" and {len(changes) - _SHOWN} more" if len(changes) > _SHOWN else ""
        conflicts = [
            Conflict(path, changes[path].before, None, changes[path].after)
            for path in sorted(changes, key=str.encode)[:_KEPT]
        ]
        raise MergeConflictError(
            f"another writer has changed what the transaction replaces ({shown}{more}), in commits up "
            f"to {head.id[:12]}; nothing has landed: run the transaction again, it will read what is "
            "there now",
            tuple(conflicts),
            len(changes),
        )

    def _changes(self, head: Commit) -> Iterator[Change]:
        for folder, paths in self.claimed.items():
            for change in self.repository.diff(self.base, head, prefix=folder):
                if paths is None or change.path in paths:
                    yield change


class Transaction:
    """Writes to tables that land on a branch together.

    Attributes:
        branch: The branch.
        base: Its head when the transaction began; reads see it and the writes of the transaction.
        skipped: Whether the branch already has the transaction; writes then do nothing.
        commit: After the block, the commit to which the branch moved. If the transaction was
            skipped, the commit that has it.
    """

    def __init__(
        self, repository: "Repository", spark: "SparkSession", branch: str, base: Commit
    ) -> None:
        self.branch = branch
        self.base = base
        self.skipped = False
        self.commit: Commit | None = None
        self._repository = repository
        self._spark = spark
        self._run: Run | None = None
        self._over = False
        self._claims = Claims(repository, base)

    def _begin(self, run: "Run") -> None:
        self._run = run
        self.base = self._claims.base = self._repository.commit(run.record.base)

    def _check_open(self) -> None:
        if self._over:
            raise StateError(
                f"the transaction on {self.branch!r} is over: read and write within its block"
            )

    def _skip(self, name: str, commit: Commit) -> None:
        self.skipped = True
        self.commit = commit
        _log.warning("%s is on %s in commit %s: it is skipped", name, self.branch, commit.id[:12])

    def __repr__(self) -> str:
        return f"<Transaction on {self.branch} of {self._repository.name}>"

    def read(self, path: PathText, **options: Unpack[ReadOptions]) -> "DataFrame":
        """Return a table as the transaction sees it: the base with its own writes.

        Args:
            path: The table's folder.
            **options: As for `graveler.spark.read`.

        Raises:
            StateError: The transaction is over.
            ObjectNotFoundError: There is no file.
        """
        self._check_open()
        view = self._run or self._repository.ref(self.base)
        return read(view, path, spark=self._spark, **options)

    def write(
        self, df: "DataFrame", path: PathText, **options: Unpack[WriteOptions]
    ) -> list[Entry]:
        """Write a frame as files of a table and stage them.

        Mode ``append`` is compatible with any other writer. In the other modes the overwritten
        partitions, or else the table, must not have changed when the transaction lands.

        Args:
            df: The frame to write.
            path: The table's folder.
            **options: As for `graveler.spark.write`.

        Returns:
            The entries of the written files; none if they were ignored or the transaction is skipped.

        Raises:
            AlreadyExistsError: The mode is ``error``, and `path` has files.
            SchemaChangedError: The table has other columns or types.
            InvalidInputError: An argument is invalid.
            StateError: The transaction is over.
        """
        self._check_open()
        if self._run is None:
            return []
        entries = write(self._run, df, path, **options)
        folder = f"{path_text(path, 'path').rstrip('/')}/"
        self._claim(df, folder, entries, options)
        return entries

    def _rewrite(self, folder: str, due: list[Bin]) -> list[Entry]:
        """Combine the files of each bin; they must not have changed when the transaction lands."""
        if self._run is None:
            return []
        self._claims.paths(folder, {entry.path for one in due for _, entry in one.files})
        return rewrite(self._run, self._spark, folder, due)

    def _claim(
        self, df: "DataFrame", folder: str, entries: list[Entry], options: WriteOptions
    ) -> None:
        mode = options.get("mode", "append")
        dynamic = options.get("partition_overwrite", "dynamic") == "dynamic"
        if mode == "overwrite" and dynamic and options.get("partition_by"):
            base = self._repository.ref(self.base)
            for path in paths_in_partitions(base, folder, entries, df):
                self._claims.folder(f"{path.rpartition('/')[0]}/")
        elif mode == "overwrite" or (mode != "append" and entries):
            self._claims.folder(folder)


@contextmanager
def transaction(
    repository: "Repository",
    spark: "SparkSession",
    branch: str | BranchLike,
    message: str,
    metadata: Mapping[str, str],
    txn: Txn | None,
    landed: Landed,
) -> Iterator[Transaction]:
    """Open a transaction, and land it at the end of the block; see `Tables.transaction`."""
    message = text(message, "message", most=MESSAGE_BYTES)
    target = repository.branch(branch)
    work = Transaction(repository, spark, target.name, target.head)
    found = None if txn is None else landed.find(txn, work.base)
    if found is not None:
        work._skip(str(txn), found)
        yield work
        work._over = True
        return

    def accepts(head: Commit) -> None:
        before = None if txn is None else landed.find(txn, head)
        if before is not None:
            raise _LandedBefore(before)
        work._claims.check(head)

    pairs = {**metadata, **({} if txn is None else txn.metadata)}
    key = f"transaction {repository.stores.ids.unique()}"
    try:
        with repository.run(key, into=target.name, metadata=pairs, on_failure="drop") as run:
            with run.renewing():
                work._begin(run)
                yield work
            with suppress(NoChangesError):
                run.commit(message, allow_empty=txn is not None)
            work.commit = run.publish(message=message, accepts=accepts).commit
    except _LandedBefore as before:
        work._skip(str(txn), before.commit)
    finally:
        work._over = True
