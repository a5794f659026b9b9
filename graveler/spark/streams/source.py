"""The source of streaming queries: the changes of a branch, commit after commit.

The commits are those of the branch by first parents, so a merge is one commit with all its changes. The
offset is a commit with its number. A process on the driver's host opens the lake and plans. Tasks read the
ranges that differ, and get nothing of the key-value store.
"""

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import datetime
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxFiles,
    SupportsTriggerAvailableNow,
)

import graveler
from graveler.base.names import path_key
from graveler.committed.diff import Segment, diff_ranges, differing, segments
from graveler.committed.metarange import EMPTY_METARANGE, prefix_end, read
from graveler.committed.ranges.range_store import RangeStore
from graveler.errors import CheckpointError, ExpiredError, InvalidInputError, RefNotFoundError
from graveler.model import Commit
from graveler.refs.history import log, merge_bases
from graveler.spark.metadata.columns import COLUMNS
from graveler.spark.metadata.options import Request
from graveler.spark.metadata.trees import balanced, batched, change_batch, entries_of

if TYPE_CHECKING:
    from graveler.lake.lake import Lake
    from graveler.lake.repository import Repository
    from graveler.refs.commits import Commits


class Offset(NamedTuple):
    """The position of a stream.

    Attributes:
        commit: The last commit that was read; "" before the first commit of the branch.
        start: The commit after which the stream began. It is stored because Spark needs it again to repeat
            the first batch, and the branch or tag may have moved since.
    """

    commit: str
    sequence: int
    start: str


class Part(NamedTuple):
    """The part of a commit that a task reads."""

    commit_id: str
    committed: datetime
    sequence: int
    segment: Segment


class ChangeReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Reads the changes of commits; tasks get a copy without open resources."""

    def __init__(self, request: Request, ranges: RangeStore) -> None:
        self._request = request
        self._ranges = ranges
        self._start = path_key(request.prefix) if request.prefix else b""
        self._stop = prefix_end(self._start)
        self._lake: Lake | None = None
        self._until = ""
        # an offset and a head with the commits between them, cached because a limit makes many batches
        self._ahead: tuple[str, str, list[Commit]] = ("", "", [])

    @property
    def _repository(self) -> "Repository":
        """The repository; Spark asks for offsets many times a second, so the lake stays open."""
        if self._lake is None:
            self._lake = graveler.open(self._request.lake)
        return self._lake.repository(self._request.repository)

    @property
    def _commits(self) -> "Commits":
        return self._repository.stores.refs.commits

    def _head(self) -> Commit:
        repository = self._repository
        return repository.branch(self._request.branch or repository.stores.default_branch).head

    def stop(self) -> None:
        """Close the lake."""
        lake, self._lake = self._lake, None
        if lake is not None:
            lake.close()

    def initialOffset(self) -> dict[str, Any]:
        """Return the offset at which a query without a checkpoint begins."""
        ref = self._request.starting_ref
        if not ref:
            return Offset("", 0, "")._asdict()
        try:
            start = self._repository.ref(ref).commit_id
        except (ExpiredError, RefNotFoundError) as error:
            error.add_note(
                f"The query has no checkpoint, or has lost it, so it begins at startingRef {ref!r}: give a "
                "ref that is kept, such as a tag"
            )
            raise
        head = self._head()
        if all(commit.id != start for commit in self._log(head)):
            raise InvalidInputError(
                f"startingRef {ref!r} is commit {start[:12]}, which is not a commit of the branch "
                f"{self._request.branch!r} by first parents (head {head.id[:12]}): choose one that "
                "`graveler log --first-parent` shows"
            )
        return Offset(start, 0, start)._asdict()

    def getDefaultReadLimit(self) -> ReadLimit:
        """Return the largest number of commits in a batch."""
        most = self._request.most
        return ReadMaxFiles(most) if most else ReadAllAvailable()  # Spark has no limit of commits

    def prepareForTriggerAvailableNow(self) -> None:
        """Remember the present head: nothing after it is read."""
        self._until = self._head().id

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        """Return the end of the next batch."""
        offset = Offset(**start)
        until = self._until or self._head().id
        known, head, commits = self._ahead
        if (known, head) != (offset.commit, until):
            commits = self._between(offset, until)
        if not commits:
            return start
        most = limit.max_files if isinstance(limit, ReadMaxFiles) else len(commits)
        batch, rest = commits[:most], commits[most:]
        self._ahead = (batch[-1].id, until, rest)
        return Offset(batch[-1].id, offset.sequence + len(batch), offset.start)._asdict()

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[InputPartition]:
        """Return the part of a batch that each task reads."""
        first, last = Offset(**start), Offset(**end)
        if first.start != last.start:
            first = Offset(last.start, 0, last.start)
        commits = self._between(first, last.commit)
        parts = [
            Part(commit.id, commit.created, first.sequence + number, segment)
            for number, commit in enumerate(commits, 1)
            for segment in self._changed(commit)
        ]
        tasks = balanced(parts, lambda part: entries_of(part.segment), self._request.parallelism)
        return [InputPartition(task) for task in tasks]

    def read(self, partition: InputPartition) -> "Iterator[pa.RecordBatch]":
        """Yield the rows of a task."""
        schema = COLUMNS["changes"]
        for part in partition.value or ():
            changes = diff_ranges(self._ranges, *part.segment, start=self._start, stop=self._stop)
            for rows in map(change_batch, batched(changes)):
                same = (part.commit_id, part.committed, part.sequence)
                kinds = [field.type for field in schema][-len(same) :]
                constants = [
                    pa.repeat(pa.scalar(value, kind), rows.num_rows)
                    for value, kind in zip(same, kinds, strict=True)
                ]
                yield pa.RecordBatch.from_arrays([*rows.columns, *constants], schema=schema)

    def _log(self, head: Commit) -> Iterator[Commit]:
        return log(self._commits, head.id, first_parent=True)

    def _between(self, offset: Offset, until: str) -> list[Commit]:
        """Return the commits of the branch after an offset, up to a commit, oldest first."""
        found: list[Commit] = []
        for commit in self._log(self._commits.get(until)):
            if commit.id == offset.commit:
                break
            found.append(commit)
        else:
            if offset.commit:
                raise self._rewritten(offset, until)
        return found[::-1]

    def _rewritten(self, offset: Offset, until: str) -> CheckpointError:
        bases: tuple[Commit, ...] = ()
        with suppress(RefNotFoundError):  # the repository was made again
            bases = merge_bases(self._commits, offset.commit, until)
        common = bases[0].id if bases else ""
        way = (
            f"The last commit that both have is {common}: undo what was read after it, and start "
            f"a query with a new checkpoint and startingRef {common[:12]}"
            if common
            else "They have no commit in common: start a query with a new checkpoint"
        )
        return CheckpointError(
            f"branch {self._request.branch or 'of the stream'!r} does not hold commit "
            f"{offset.commit[:12]} any more, number {offset.sequence} of the stream and the offset in the "
            f"checkpoint: it was undone, reset or made again, and is at {until[:12]}. Nothing was "
            f"read. {way}; or put the branch back"
        )

    def _changed(self, commit: Commit) -> Iterator[Segment]:
        """Yield the ranges that a commit has changed, together with those before it."""
        expired = self._repository.stores.refs.expired
        trees = [EMPTY_METARANGE, commit.metarange]
        with _unread(commit):
            expired.check_readable(commit.id)
            for parent in commit.parents[:1]:
                expired.check_readable(parent)
                trees[0] = self._commits.get(parent).metarange
        sides = [read(self._ranges, tree).within(self._start, self._stop) for tree in trees]
        return segments(*differing(*sides))


@contextmanager
def _unread(commit: Commit) -> Iterator[None]:
    try:
        yield
    except ExpiredError as error:
        error.add_note(
            f"The stream has not read commit {commit.id[:12]} yet: start a query with a new checkpoint and "
            "a startingRef that is kept, and keep commits for longer than the query may rest"
        )
        raise
