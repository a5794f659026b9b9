"""The rollback of a published run by one revert commit on its target."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

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
from graveler.runs.lifecycle import settle_publish
from graveler.runs.record import RunRecord
from graveler.runs.records import RunRecords
from graveler.runs.rollback.downstream import PublishedPaths
from graveler.runs.state import RunEvent, RunState, next_state

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
    stores: Stores,
    records: RunRecords,
    key_or_commit: str,
    *,
    message: str | None,
    metadata: Mapping[str, str],
) -> Rollback:
    """Revert what a run published, on its target; see `Runs.rollback`."""
    check_caller_pairs("rollback", metadata)
    record, published = _published(stores, records, key_or_commit)
    made = _reverted(stores, record, published)
    already = made is not None
    if made is None:
        _check_nothing_rests_on(stores, record, published)
        try:
            made = _revert(stores, record, published, message, metadata)
        except NoChangesError:
            made = _reverted(stores, record, published)  # by another process at the same moment
            if made is None:
                raise
            already = True
    record = _note(stores, records, record, published, made)
    return Rollback(made, record, _readers(stores, records, record, published), already)


def readers(stores: Stores, records: RunRecords, key_or_commit: str) -> tuple[RunRecord, ...]:
    """Return the runs that have read the output of a published run, by key."""
    return _readers(stores, records, *_published(stores, records, key_or_commit))


def _published(stores: Stores, records: RunRecords, key_or_commit: str) -> tuple[RunRecord, Commit]:
    """Return the run of a key or commit, and the commit that published it."""
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
    record = settle_publish(stores, records, record)
    next_state(record.key, record.state, RunEvent.ROLLED_BACK)
    if record.state is RunState.ROLLED_BACK:
        made = stores.refs.commits.get(record.rollback)
        return record, stores.refs.commits.get(made.metadata["graveler.revert"])
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


def _reverted(stores: Stores, record: RunRecord, published: Commit) -> Commit | None:
    """Return the commit on the target that reverts the publish and was not reverted itself."""
    commits = stores.refs.commits
    head = stores.refs.branches.get(record.into).commit_id
    if not is_ancestor(commits, published.id, head):
        raise RunStateError(
            f"run {record.key!r}: commit {published.id[:12]}, which published it, is not in "
            f"{record.into!r} any more: there is nothing to roll back"
        )
    undone: set[str] = set()
    for commit in log(commits, head, first_parent=True):
        if commit.generation <= published.generation:
            break
        reverted = commit.metadata.get("graveler.revert")
        if reverted is not None and commit.id not in undone:
            if reverted == published.id:
                return commit
            undone.add(reverted)
    return None


def _check_nothing_rests_on(stores: Stores, record: RunRecord, published: Commit) -> None:
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


def _note(
    stores: Stores, records: RunRecords, record: RunRecord, published: Commit, made: Commit
) -> RunRecord:
    """Record the rollback on the run, unless the run was opened again since."""

    def change(there: RunRecord | None) -> RunRecord:
        there = there or records.get(record.key)
        kept = tuple(head for head in there.rounds if head != published.parents[1])
        left = replace(there, rounds=kept)
        last = _last_publish(stores, there) if there.state is RunState.PUBLISHED else None
        if last is None or last.id != published.id:
            return there if kept == there.rounds else left
        return replace(
            left,
            state=next_state(there.key, there.state, RunEvent.ROLLED_BACK),
            rollback=made.id,
            reason=f"rolled back by commit {made.id[:12]}",
        )

    return records.update(record.key, change)


def _readers(
    stores: Stores, records: RunRecords, record: RunRecord, published: Commit
) -> tuple[RunRecord, ...]:
    wrote = PublishedPaths(stores, record.into, published)
    found = (
        other
        for other in records.list()
        if other.key != record.key and any(wrote.is_read_by(read) for read in other.inputs)
    )
    return tuple(sorted(found, key=lambda other: other.key))
