"""The rollback of a published run by one revert commit on its target."""

from bisect import bisect_left
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Final

from graveler.committed import diff, get
from graveler.errors import (
    MergeConflictError,
    NoChangesError,
    NotFoundError,
    RunNotFoundError,
    RunStateError,
)
from graveler.model import Commit, Conflict
from graveler.names import check_caller_pairs
from graveler.publishing.landing import CommitSpec
from graveler.reads.stores import Stores
from graveler.refs import is_ancestor, log
from graveler.repository import reverts
from graveler.runs.history import standing_reverts
from graveler.runs.lifecycle import settle_publish
from graveler.runs.record import Input, RunRecord, after
from graveler.runs.records import RunRecords
from graveler.runs.state import RunEvent, RunState, next_state
from graveler.values import value_identity

_NAMED: Final = 5
_HOURS: Final = ("hour", "hours", "late")
"""Metadata of a commit that names the hours of its files."""


@dataclass(frozen=True, slots=True)
class Rollback:
    """The result of a rollback.

    Attributes:
        commit: The revert commit on the target.
        record: The run.
        readers: Runs that have read the run's output, by key; they may have to run again.
        already: Whether it was rolled back before this call.
    """

    commit: Commit
    record: RunRecord
    readers: tuple[RunRecord, ...] = ()
    already: bool = False


def rollback(
    records: RunRecords, key_or_commit: str, *, message: str | None, metadata: Mapping[str, str]
) -> Rollback:
    """Revert what a run published, on its target; see `Runs.rollback`."""
    check_caller_pairs("rollback", metadata)
    record, published = _published(records, key_or_commit)
    commit = _reverting(records.stores, record, published)
    already = commit is not None
    if commit is None:
        _check_not_forked_from(records.stores, record, published)
        try:
            commit = _revert(records.stores, record, published, message, metadata)
        except NoChangesError:
            # another process may have reverted it at the same moment
            commit = _reverting(records.stores, record, published)
            if commit is None:
                raise
            already = True
    record = _note(records, record, published, commit)
    return Rollback(commit, record, _readers(records, record, published), already)


def readers(records: RunRecords, key_or_commit: str) -> tuple[RunRecord, ...]:
    """Return the runs that have read the output of a published run, by key."""
    return _readers(records, *_published(records, key_or_commit))


def _published(records: RunRecords, key_or_commit: str) -> tuple[RunRecord, Commit]:
    """Return the run of a key or commit, and the commit that published it."""
    stores = records.stores
    record = records.find(key_or_commit)
    if record is None:
        commit = _find_commit(stores, key_or_commit)
        key = None if commit is None else commit.metadata.get("graveler.run")
        if commit is None or key is None or "graveler.published" not in commit.metadata:
            raise RunNotFoundError(
                f"{key_or_commit!r} is neither a run nor the commit that published one: "
                "`graveler run list` shows the runs; `graveler revert` reverts other commits"
            )
        return records.get(key), commit
    record = settle_publish(records, record)
    next_state(record.key, record.state, RunEvent.ROLLED_BACK)
    if record.state is RunState.ROLLED_BACK:
        revert = stores.refs.commits.get(record.rollback)
        return record, stores.refs.commits.get(revert.metadata["graveler.revert"])
    commit = _last_publish(stores, record)
    if commit is None:
        raise NoChangesError(f"run {record.key!r} changed nothing: there is nothing to roll back")
    return record, commit


def _last_publish(stores: Stores, record: RunRecord) -> Commit | None:
    """Return the last commit by which the run moved its target and that was not rolled back.

    It need not be of the last round: a round that wrote the same content moved nothing.
    """
    commits = stores.refs.commits
    heads = {head: commits.find(head) for head in record.rounds}
    floor = min((head.generation for head in heads.values() if head is not None), default=None)
    if floor is None:
        return None
    for commit in log(commits, record.commit, first_parent=True):
        if commit.generation <= floor:
            break
        metadata = commit.metadata
        if (
            metadata.get("graveler.run") == record.key
            and "graveler.published" in metadata
            and not heads.keys().isdisjoint(commit.parents[1:])
        ):
            return commit
    return None


def _find_commit(stores: Stores, text: str) -> Commit | None:
    try:
        return stores.refs.commits.find(text) or stores.refs.commits.by_prefix(text)
    except NotFoundError:
        return None


def _reverting(stores: Stores, record: RunRecord, published: Commit) -> Commit | None:
    """Return the commit on the target that reverts the publish and was not reverted itself."""
    commits = stores.refs.commits
    head = stores.refs.branches.get(record.into).commit_id
    if not is_ancestor(commits, published.id, head):
        raise RunStateError(
            f"run {record.key!r}: commit {published.id[:12]}, which published it, is not in "
            f"{record.into!r} any more: there is nothing to roll back"
        )
    standing = standing_reverts(stores, commits.get(head), floor=published.generation)
    return next((commit for commit, reverted in standing if reverted == published.id), None)


def _check_not_forked_from(stores: Stores, record: RunRecord, published: Commit) -> None:
    """Refuse while an open attempt was forked from the publish.

    If that attempt writes the same content, it changes nothing, and would publish nothing.
    """
    if record.live and is_ancestor(stores.refs.commits, published.id, record.base):
        raise RunStateError(
            f"run {record.key!r}: attempt {record.attempt} is {record.state}, and rests on commit "
            f"{published.id[:12]}: let it be published, or abandon it, then roll back"
        )


def _revert(
    stores: Stores,
    record: RunRecord,
    published: Commit,
    message: str | None,
    metadata: Mapping[str, str],
) -> Commit:
    spec = CommitSpec(
        message or f"roll back run {record.key}\n\nReverts commit {published.id}.",
        {
            # a consumer that follows commits by hour must see that these hours changed
            **{key: published.metadata[key] for key in _HOURS if key in published.metadata},
            **metadata,
            "graveler.rollback": record.key,
        },
    )
    try:
        return reverts.revert(stores, record.into, reverts.Pick(published, parent=1), spec)
    except MergeConflictError as error:
        shown = ", ".join(map(_changed_by, error.conflicts[:_NAMED]))
        more = error.count - _NAMED
        raise MergeConflictError(
            f"run {record.key!r} cannot be rolled back: later changes overlap with it: {shown}"
            + (f" and {more} more" if more > 0 else "")
            + ": roll those back first, the latest before the others",
            error.conflicts,
            error.count,
        ) from error


def _changed_by(conflict: Conflict) -> str:
    """Return a path in conflict and the last change to it."""
    change = conflict.dest_change
    if change is None:
        return repr(conflict.path)
    commit = change.commit[:12]
    by = f"run {change.run!r} ({commit})" if change.run else f"commit {commit}"
    return f"{conflict.path!r} by {by}"


def _note(records: RunRecords, record: RunRecord, published: Commit, revert: Commit) -> RunRecord:
    """Record the rollback on the run, unless the run was opened again since."""

    def change(record: RunRecord | None) -> RunRecord:
        record = record or records.get(key)
        rounds = tuple(head for head in record.rounds if head != published.parents[1])
        last = None
        if record.state is RunState.PUBLISHED:
            last = _last_publish(records.stores, record)
        if last is not None and last.id == published.id:
            reason = f"rolled back by commit {revert.id[:12]}"
            event = RunEvent.ROLLED_BACK
            return after(record, event, rounds=rounds, rollback=revert.id, reason=reason)
        return record if rounds == record.rounds else replace(record, rounds=rounds)

    key = record.key
    return records.update(key, change)


def _readers(records: RunRecords, record: RunRecord, published: Commit) -> tuple[RunRecord, ...]:
    paths = _PublishedPaths(records.stores, record.into, published)
    downstream = (
        other
        for other in records.list()
        if other.key != record.key and any(map(paths.is_read_by, other.inputs))
    )
    return tuple(sorted(downstream, key=lambda other: other.key))


class _PublishedPaths:
    """The paths that a commit changed, compared with the inputs of other runs."""

    def __init__(self, stores: Stores, into: str, published: Commit) -> None:
        self._stores = stores
        self._published = published
        self._known: dict[Input, bool] = {}
        self._below: dict[str, bool] = {}
        self._into = into

    def is_read_by(self, read: Input) -> bool:
        """Return whether an input includes a path as the commit left it."""
        if read not in self._known:
            self._known[read] = self._is_below(read.commit) and self._holds(read)
        return self._known[read]

    def _is_below(self, identifier: str) -> bool:
        """Return whether the published commit is in the history of another commit."""
        if identifier == self._published.id or identifier in self._since:
            return True
        if identifier not in self._below:
            commits = self._stores.refs.commits
            commit = commits.find(identifier)
            self._below[identifier] = (
                commit is not None
                and commit.generation > self._published.generation
                and is_ancestor(commits, self._published.id, identifier)
            )
        return self._below[identifier]

    def _holds(self, read: Input) -> bool:
        """Return whether a path below the prefix is as the published commit left it."""
        tree = self._stores.refs.commits.get(read.commit).metarange
        if read.commit == self._published.id:
            return any(self._changes_below(read.prefix))
        return any(
            value_identity(get(self._stores.ranges, tree, key)) == left
            for key, left in self._changes_below(read.prefix)
        )

    def _changes_below(self, prefix: str) -> Iterator[tuple[bytes, bytes | None]]:
        """Yield the changes below the prefix: keys, with the identities that the commit left."""
        start = prefix.encode()
        first = bisect_left(self._changed, start, key=lambda change: change[0])
        for at in range(first, len(self._changed)):
            if not self._changed[at][0].startswith(start):
                return
            yield self._changed[at]

    @cached_property
    def _changed(self) -> list[tuple[bytes, bytes | None]]:
        """The keys that the commit changed, in order, with the identities that it left."""
        before = self._stores.refs.commits.get(self._published.parents[0])
        return [
            (change.key, value_identity(change.right_value))
            for change in diff(self._stores.ranges, before.metarange, self._published.metarange)
        ]

    @cached_property
    def _since(self) -> frozenset[str]:
        """The commits of the target since the publish, which most runs have read."""
        commits = self._stores.refs.commits
        target = self._stores.refs.branches.find(self._into)
        if target is None:
            return frozenset()
        since: list[str] = []
        for commit in log(commits, target.commit_id, first_parent=True):
            if commit.generation < self._published.generation:
                return frozenset()  # the target was reset
            since.append(commit.id)
            if commit.id == self._published.id:
                return frozenset(since)
        return frozenset()
