"""The rollback of a published run by one revert commit on its target."""

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache
from itertools import islice, takewhile

from graveler.base.names import check_caller_pairs
from graveler.committed.claims import claims_of, same_work
from graveler.committed.diff import diff
from graveler.committed.metarange import get
from graveler.committed.units import names_unit
from graveler.errors import (
    MergeConflictError,
    NoChangesError,
    NotFoundError,
    RunNotFoundError,
    RunStateError,
)
from graveler.model import Commit, Conflict
from graveler.publishing.landing import CommitSpec
from graveler.reads.stores import Stores
from graveler.refs.history import is_ancestor, log
from graveler.repository import reverts
from graveler.repository.tables import places_of
from graveler.runs.history import Line, Targets, has_work
from graveler.runs.lifecycle import observe_publish, settle_publish
from graveler.runs.record import Input, RunRecord, after
from graveler.runs.records import RunRecords
from graveler.runs.state import (
    Publish,
    RunEvent,
    RunState,
    last_change,
    latest_change,
    with_rollback,
)

_NAMED = 5
_RACES = 5
_Settled = Callable[[RunRecords, RunRecord], RunRecord]
"""Returns the record of a run; an interrupted publish is included if it landed."""

_HOURS = ("hour", "hours", "late")
"""Metadata of a commit that names the hours of its files."""


@dataclass(frozen=True, slots=True)
class RollbackPlan:
    """The effect that a rollback would have.

    Attributes:
        record: The run.
        publish: The publish that would be reverted: its commit, target, attempt and time.
        reverted: The commit that has already reverted it; "" if none has.
        rests: Whether the run's present attempt was forked from it and is not over. That attempt can
            then no longer be published, and the next one starts from the target.
        readers: Runs that have read the run's output, by key; they may have to run again.
    """

    record: RunRecord
    publish: Publish
    reverted: str = ""
    rests: bool = False
    readers: tuple[RunRecord, ...] = ()

    def __str__(self) -> str:
        """Return the plan as one line."""
        publish, record = self.publish, self.record
        text = (
            f"what attempt {publish.attempt} of run {record.key!r} published into "
            f"{publish.into!r} at {publish.at:%Y-%m-%d %H:%M:%S} UTC, commit {publish.commit[:12]}"
        )
        if self.reverted:
            return f"{text}: rolled back before by commit {self.reverted[:12]}"
        if self.rests:
            text += (
                f"; attempt {record.attempt}, {record.state}, was forked from it and can no longer be "
                "published"
            )
        return text


@dataclass(frozen=True, slots=True)
class Rollback:
    """The result of a rollback.

    Attributes:
        commit: The revert commit on the target.
        record: The run.
        publish: The publish that was reverted.
        readers: Runs that have read the run's output, by key; they may have to run again.
        already: Whether it was rolled back before this call.
    """

    commit: Commit
    record: RunRecord
    publish: Publish
    readers: tuple[RunRecord, ...] = ()
    already: bool = False


def rollback(
    records: RunRecords,
    key_or_commit: str,
    *,
    into: str | None,
    message: str | None,
    metadata: Mapping[str, str],
) -> Rollback:
    """Revert what a run published, on its target; see `Runs.rollback`."""
    check_caller_pairs("rollback", metadata)
    for _ in range(_RACES):
        try:
            return _rollback(records, key_or_commit, into, message, metadata)
        except _NotLatest:
            if records.find(key_or_commit) is None:
                raise  # the caller has chosen this commit
            # a newer publish landed since the lookup, so roll back that one
    return _rollback(records, key_or_commit, into, message, metadata)


def _rollback(
    records: RunRecords,
    key_or_commit: str,
    into: str | None,
    message: str | None,
    metadata: Mapping[str, str],
) -> Rollback:
    record, publish = _published(records, key_or_commit, into, settle_publish)
    published = records.stores.refs.commits.get(publish.commit)
    commit = _reverting(records.stores, record, publish)
    already = commit is not None
    if commit is None:
        try:
            commit = _revert(records.stores, record, publish, message, metadata)
        except (NoChangesError, RunStateError):
            # another process may have reverted it at the same moment
            commit = _reverting(records.stores, record, publish)
            if commit is None:
                raise
            already = True
    record = _note(records, record, publish, commit)
    publish = replace(publish, rollback=commit.id)
    return Rollback(commit, record, publish, _readers(records, record, published), already)


def plan(records: RunRecords, key_or_commit: str, *, into: str | None) -> RollbackPlan:
    """Return the plan of `rollback`; nothing changes."""
    record, publish = _published(records, key_or_commit, into, observe_publish)
    revert = _reverting(records.stores, record, publish)
    return RollbackPlan(
        record,
        publish,
        reverted="" if revert is None else revert.id,
        rests=record.live and is_ancestor(records.stores.refs.commits, publish.commit, record.base),
        readers=readers(records, publish.commit),
    )


def readers(records: RunRecords, key_or_commit: str) -> tuple[RunRecord, ...]:
    """Return the runs that have read the output of a published run, by key."""
    record, publish = _published(records, key_or_commit, None, observe_publish)
    return _readers(records, record, records.stores.refs.commits.get(publish.commit))


def on_targets(records: RunRecords, runs: Iterable[RunRecord]) -> Iterator[RunRecord]:
    """Yield the runs with the present state of their publishes; see `Runs.on_targets`."""
    targets = Targets(records.stores)
    for record in runs:
        seen = observe_publish(records, record)
        yield replace(record, publishes=targets.publishes(seen))


def _published(
    records: RunRecords, key_or_commit: str, into: str | None, settled: _Settled
) -> tuple[RunRecord, Publish]:
    """Return the run of a key or commit, and the publish that a rollback would revert."""
    record = records.find(key_or_commit)
    if record is None:
        return _published_by(records, key_or_commit, settled)
    record = settled(records, record)
    key = record.key
    mine = [publish for publish in record.publishes if into in (None, publish.into)]
    if not mine:
        where = "" if into is None else f" to {into!r}"
        raise RunStateError(
            f"run {key!r} is {record.state} and has published nothing{where}: there is nothing to "
            "roll back"
        )
    into = mine[-1].into
    latest = latest_change(mine)
    if latest is not None and has_work(records.stores, record, latest):
        return record, latest
    if mine[-1].changed:
        return record, mine[-1]
    present = Targets(records.stores).publishes(record)
    mine = [publish for publish in present if publish.into == into]
    # a round that changed nothing and was undone says nothing about the earlier ones
    publish = last_change([publish for publish in mine if publish.changed or not publish.lost])
    if publish is None:
        raise NoChangesError(f"run {key!r} changed nothing: there is nothing to roll back")
    return record, publish


def _published_by(records: RunRecords, text: str, settled: _Settled) -> tuple[RunRecord, Publish]:
    commit = _find_commit(records.stores, text)
    key = None if commit is None else commit.metadata.get("graveler.run")
    if commit is None or key is None or "graveler.published" not in commit.metadata:
        raise RunNotFoundError(
            f"{text!r} is neither a run nor the commit that published one: "
            "`graveler run list` shows the runs; `graveler revert` reverts other commits"
        )
    record = settled(records, records.get(key))
    for publish in record.publishes:
        if publish.commit == commit.id and publish.changed:
            return record, publish
        if publish.commit == commit.id:
            raise NoChangesError(
                f"run {key!r}: commit {text} changed nothing: there is nothing to roll back"
            )
    # the publish is older than those that the record keeps
    return record, Publish(
        commit=commit.id,
        head=commit.parents[1],
        into=record.into,
        attempt=int(commit.metadata["graveler.attempt"]),
        at=commit.created,
    )


def _find_commit(stores: Stores, text: str) -> Commit | None:
    try:
        return stores.refs.commits.find(text) or stores.refs.commits.by_prefix(text)
    except NotFoundError:
        return None


def _reverting(stores: Stores, record: RunRecord, publish: Publish) -> Commit | None:
    """Return the commit on the target that withdrew a publish; None if the publish stands.

    The claims of the target's head decide for the latest publish. The history is read for others, and
    to find the commit that withdrew one.
    """
    mine = [item for item in record.publishes if item.into == publish.into]
    latest = latest_change(mine) if mine else None
    known = latest is None or latest.commit == publish.commit
    if known and has_work(stores, record, publish):
        return None
    line = Line(stores.refs.commits, stores.refs.branches.get(publish.into).commit_id)
    if line.has(publish.commit):
        return line.revert_of(publish.commit)
    error = (
        f"run {record.key!r}: commit {publish.commit[:12]}, which published it, is not in "
        f"{publish.into!r} any more: "
    )
    present = replace(record, publishes=Targets(stores).publishes(record)).published
    raise RunStateError(
        f"{error}there is nothing to roll back"
        if present is None
        else f"{error}to roll back what attempt {present.attempt} published into {present.into!r}, "
        f"give its commit: graveler run rollback {present.commit[:12]}"
    )


def _revert(
    stores: Stores,
    record: RunRecord,
    publish: Publish,
    message: str | None,
    metadata: Mapping[str, str],
) -> Commit:
    published = stores.refs.commits.get(publish.commit)
    before = stores.refs.commits.get(published.parents[0])
    spec = CommitSpec(
        message or f"roll back run {record.key}\n\nReverts commit {published.id}.",
        {
            # a consumer that follows commits by hour must see that these hours changed
            **{key: published.metadata[key] for key in _HOURS if key in published.metadata},
            **metadata,
            "graveler.rollback": record.key,
        },
    )

    def accepts(head: Commit) -> None:
        for commit in (before, published):
            stores.refs.expired.check_nameable(commit.id)
        _check_latest(stores, record, published, before, head)

    pick = reverts.Pick(published, parent=1, accepts=accepts)
    try:
        return reverts.revert(stores, publish.into, pick, spec)
    except _NotLatest:
        raise
    except MergeConflictError as error:
        raise _overlap(record, published, error) from error


def _overlap(record: RunRecord, published: Commit, error: MergeConflictError) -> MergeConflictError:
    shown = ", ".join(map(_changed_by, error.conflicts[:_NAMED]))
    more = error.count - _NAMED
    hint = ": roll those back first, the latest before the others"
    if any(names_unit(conflict.path) for conflict in error.conflicts):
        hint += (
            "; the log of a table has later versions, and a table is rolled back as a whole: undo those "
            "first, or write a version without these rows by RESTORE or DELETE"
        )
    if any(places_of(conflict.path.encode() for conflict in error.conflicts)):
        hint += f"; {error}"
    return MergeConflictError(
        f"run {record.key!r} cannot be rolled back: later changes overlap with commit "
        f"{published.id[:12]}: {shown}" + (f" and {more} more" if more > 0 else "") + hint,
        error.conflicts,
        error.count,
    )


class _NotLatest(MergeConflictError):
    """A later publish of the run stands on the one that is to be rolled back."""


def _check_latest(
    stores: Stores, record: RunRecord, published: Commit, before: Commit, head: Commit
) -> None:
    """Refuse if the target no longer has the work of a publish, or a later publish of the run."""
    brought, now = claims_of(published), claims_of(head)
    if brought == claims_of(before) or same_work(stores.ranges, brought, now, record.branch):
        return
    if same_work(stores.ranges, claims_of(before), now, record.branch):
        raise RunStateError(
            f"run {record.key!r}: a revert has withdrawn commit {published.id[:12]}: there is "
            "nothing to roll back"
        )
    later = next(
        (
            commit
            for commit in log(stores.refs.commits, head.id, first_parent=True)
            if commit.metadata.get("graveler.run") == record.key
            and "graveler.published" in commit.metadata
        ),
        head,
    )
    raise _NotLatest(
        f"run {record.key!r} cannot be rolled back to before {published.id[:12]}: its attempt "
        f"{later.metadata.get('graveler.attempt', '?')} was published on top of that, as "
        f"{later.id[:12]}: roll that back first"
    )


def _changed_by(conflict: Conflict) -> str:
    change = conflict.dest_change
    if change is None:
        return repr(conflict.path)
    commit = change.commit[:12]
    by = f"run {change.run!r} ({commit})" if change.run else f"commit {commit}"
    return f"{conflict.path!r} by {by}"


def _note(records: RunRecords, record: RunRecord, publish: Publish, revert: Commit) -> RunRecord:
    """Record the rollback on the run.

    The run is ROLLED_BACK if its present attempt is published, and that publish is the reverted one, or
    changed nothing and is not on top of the revert. It does not matter whether the target still has it.
    """

    def rests(later: Publish) -> bool:
        # in this direction no history is walked: a round that rests on it is rarely above its revert
        return not is_ancestor(records.stores.refs.commits, revert.id, later.commit)

    def change(record: RunRecord) -> RunRecord:
        marked = with_rollback(record.publishes, publish.commit, revert.id, rests)
        if marked == record.publishes:
            return record
        record = replace(record, publishes=marked)
        if record.state is not RunState.PUBLISHED or record.rollback != revert.id:
            return record
        reason = f"rolled back by commit {revert.id[:12]}"
        return after(record, RunEvent.ROLLED_BACK, reason=reason)

    return records.update(record.key, change)


def _readers(records: RunRecords, record: RunRecord, published: Commit) -> tuple[RunRecord, ...]:
    ranges, commits = records.stores.ranges, records.stores.refs.commits

    @cache
    def changed() -> list[tuple[bytes, bytes | None]]:
        before = commits.get(published.parents[0])
        changes = diff(ranges, before.metarange, published.metarange)
        return [(change.key, change.right_value) for change in changes]

    @cache
    def holds(read: Input) -> bool:
        """Return whether an input includes a path as the commit wrote it."""
        commit, start = commits.find(read.commit), read.prefix.encode()
        if commit is None or commit.generation < published.generation:
            return False
        first = bisect_left(changed(), start, key=lambda change: change[0])
        below = takewhile(
            lambda change: change[0].startswith(start), islice(changed(), first, None)
        )
        return any(get(ranges, commit.metarange, key) == value for key, value in below)

    others = (other for other in records.list() if other.key != record.key)
    readers = (other for other in others if any(map(holds, other.inputs)))
    return tuple(sorted(readers, key=lambda other: other.key))
