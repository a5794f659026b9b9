"""The rows that commits append to a table, found from a batch of their changes."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Unpack

from graveler.committed.units import log_of
from graveler.errors import ObjectNotFoundError, StateError
from graveler.frames.spark.reader import ReadOptions, read
from graveler.model import ChangeKind, Commit, Entry
from graveler.reads.partitions import is_hidden
from graveler.reads.ports import View
from graveler.reads.stores import Stores
from graveler.repository.reverts import CHERRY_PICK

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from graveler.lake import Repository

COMPACTION = "spark.compaction"
"""Name in the metadata of a commit: the table that it has compacted, with the same rows."""


@dataclass(frozen=True, slots=True)
class AddedFiles:
    """Files that commits have added, in the order of their paths, as a tree without other files."""

    view: View
    files: Sequence[Entry]

    @property
    def repository(self) -> Stores:
        """The stores of the repository."""
        return self.view.repository

    def entries(self, prefix: str = "") -> Iterator[Entry]:
        """Yield the files below `prefix`."""
        return (entry for entry in self.files if entry.path.startswith(prefix))

    def stat(self, path: str) -> Entry:
        """Return the file at a path."""
        for entry in self.files:
            if entry.path == path:
                return entry
        raise ObjectNotFoundError(f"{path!r} was not added")

    def get_many(self, paths: Iterable[Entry]) -> Iterator[tuple[Entry, bytes]]:
        """Yield files with their bytes."""
        return self.view.get_many(paths)

    def read_range(self, path: Entry, start: int, length: int) -> bytes:
        """Return a part of a file."""
        return self.view.read_range(path, start, length)

    def uri(self, entry: Entry) -> str:
        """Return the physical URI of a file."""
        return self.view.uri(entry)


def read_appended(
    repository: "Repository", changes: "DataFrame", folder: str, **options: Unpack[ReadOptions]
) -> "DataFrame | None":
    """Return the rows of the files that changes add below a folder; see `Tables.appended`."""
    rows = changes.where(changes.path.startswith(folder)).select("commit_id", "kind", "path")
    added = added_files(repository, folder, rows.collect())
    return None if added is None else read(added, folder, spark=changes.sparkSession, **options)


def added_files(
    repository: "Repository", folder: str, changes: Iterable[tuple[str, str, str]]
) -> AddedFiles | None:
    """Return the files that changes add to a table; None if there are none.

    Files that Spark skips are not part of a table, except the log of a Delta table, which `read` refuses.
    """
    paths: dict[str, list[str]] = {}
    compactions: dict[str, bool] = {}
    for commit_id, kind, path in changes:
        name = path.removeprefix(folder)
        if is_hidden(name) and log_of(name.encode()) is None:
            continue
        if commit_id not in compactions:
            compactions[commit_id] = _has_compacted(repository.commit(commit_id))
        if compactions[commit_id]:
            continue
        if kind != ChangeKind.ADDED:
            raise StateError(
                f"{folder!r} is not only appended to: {path!r} was {kind} by commit {commit_id[:12]}; "
                f"read the whole table as of a commit, by lake.read({commit_id[:12]!r}, {folder!r})"
            )
        paths.setdefault(commit_id, []).append(path)
    if not paths:
        return None
    views = {commit_id: repository.ref(commit_id) for commit_id in paths}
    entries = [views[found].stat(path) for found in paths for path in paths[found]]
    entries.sort(key=lambda entry: entry.path.encode())
    return AddedFiles(next(iter(views.values())), entries)


def _has_compacted(commit: Commit) -> bool:
    """Return whether a commit is a compaction, which keeps the rows, and not a copy of its changes."""
    return COMPACTION in commit.metadata and CHERRY_PICK not in commit.metadata
