"""The history of a run: the steps that joined it, and its publishes that were reverted.

An orchestrator treats a step that succeeded as done even if its work is lost, because the run's
branch was dropped or its publish was reverted. When a run resumes, the orchestrator may also leave
out a step that succeeded before. The integrations compare both with this history.

An attempt that began while the run's earlier publish was on the target has that publish in its
history. If the attempt writes the same content again, it changes nothing, and a merge would keep
the target without the reverted files. Such a merge must not count as a publish.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from graveler.committed import diff, get, same_records
from graveler.committed.diff import same_content
from graveler.errors import MergeConflictError
from graveler.model import Commit, Conflict
from graveler.reads.stores import Stores
from graveler.refs import is_ancestor, log
from graveler.runs.record import RunRecord
from graveler.runs.step import own_steps, work_of
from graveler.values import decode_entry

_SHOWN: Final = 5


@dataclass(frozen=True, slots=True)
class JoinedStep:
    """The last join of a step.

    Attributes:
        commit: The commit on the run's branch.
        published: The published head of the run's branch; "" before the publish.
        changed: Whether the step changed anything; a step that was undone did not.
    """

    commit: Commit
    published: str
    changed: bool


def joined_steps(stores: Stores, record: RunRecord) -> Mapping[str, JoinedStep]:
    """Return the joined steps of a run, by name; none after its branch is deleted."""
    branch = stores.refs.branches.find(record.branch)
    if branch is None:
        return {}
    steps: dict[str, JoinedStep] = {}
    starts = [(branch.commit_id, ""), *((head, head) for head in reversed(record.rounds))]
    for start, published in starts:
        for step, commit in own_steps(stores, start, key=record.key):
            if step not in steps:
                work = work_of(stores, commit)
                changed = work is None or not same_records(stores.ranges, *work)
                steps[step] = JoinedStep(commit, published, changed)
    return steps


def lost_steps(stores: Stores, record: RunRecord, made: Mapping[str, str]) -> tuple[str, ...]:
    """Return the steps whose work would not be on the target if the run published now.

    Empty if the run's branch is deleted: such a run cannot be published.

    Args:
        stores: The repository.
        record: The run.
        made: Steps that succeeded, each with the id of the commit by which it joined.
    """
    if stores.refs.branches.find(record.branch) is None:
        return ()
    steps = joined_steps(stores, record)
    dest = stores.refs.commits.get(stores.refs.branches.get(record.into).commit_id)
    stands: dict[str, bool] = {"": True}
    lost = []
    for name, commit in made.items():
        step = steps.get(name)
        if step is None or step.commit.id != commit:
            lost.append(name)
            continue
        if step.published not in stands:
            stands[step.published] = _stands(stores, record, step.published, dest)
        if not stands[step.published]:
            lost.append(name)
    return tuple(lost)


def _stands(stores: Stores, record: RunRecord, head: str, dest: Commit) -> bool:
    """Return whether the publish of `head` is on the target and was not reverted since."""
    commits = stores.refs.commits
    if commits.find(head) is None or not is_ancestor(commits, head, dest.id):
        return False
    floor = commits.get(head).generation
    return all(
        is_ancestor(commits, revert.id, head)
        for revert, _ in reverted_publishes(stores, record.key, dest, floor=floor)
    )


def standing_reverts(stores: Stores, dest: Commit, *, floor: int) -> Iterator[tuple[Commit, str]]:
    """Yield each standing revert on a branch and the id of the commit that it reverts; newest first.

    Args:
        stores: The repository.
        dest: Head of the branch.
        floor: Stop at this generation of the branch's history.
    """
    undone: set[str] = set()
    for commit in log(stores.refs.commits, dest.id, first_parent=True):
        if commit.generation <= floor:
            return
        reverted = commit.metadata.get("graveler.revert")
        if reverted is not None and commit.id not in undone:
            undone.add(reverted)
            yield commit, reverted


def reverted_publishes(
    stores: Stores, key: str, dest: Commit, *, floor: int
) -> Iterator[tuple[Commit, Commit]]:
    """Yield each standing revert of a publish of the run, and that publish; newest first."""
    for commit, reverted in standing_reverts(stores, dest, floor=floor):
        published = stores.refs.commits.find(reverted)
        if (
            published is not None
            and published.metadata.get("graveler.run") == key
            and "graveler.published" in published.metadata
        ):
            yield commit, published


def check_not_reverted(stores: Stores, record: RunRecord, head: Commit, dest: Commit) -> None:
    """Refuse to publish a run with a step that wrote the same content as a reverted publish.

    Args:
        stores: The repository.
        record: The run.
        head: The head to publish.
        dest: Head of the target.

    Raises:
        MergeConflictError: There are such paths; the error lists them.
    """
    floor = stores.refs.commits.get(record.base).generation
    for _, published in reverted_publishes(stores, record.key, dest, floor=floor):
        if published.generation > floor:
            continue  # of the present round
        conflicts = tuple(_lost(stores, record, published, head, dest))
        if conflicts:
            shown = ", ".join(repr(conflict.path) for conflict in conflicts[:_SHOWN])
            more = f" and {len(conflicts) - _SHOWN} more" if len(conflicts) > _SHOWN else ""
            raise MergeConflictError(
                f"run {record.key!r} began before its publish {published.id[:12]} was reverted, "
                f"and has written {shown}{more} as that one had: they would not be on "
                f"{record.into!r}; abandon the run, then run it again",
                conflicts,
            )


def _lost(
    stores: Stores, record: RunRecord, published: Commit, head: Commit, dest: Commit
) -> Iterator[Conflict]:
    """Yield the paths that a step wrote as the publish left them, and that the target lacks."""
    joins = _since_fork(stores, record, head)
    steps = list(filter(None, (work_of(stores, commit) for commit in joins)))
    before = stores.refs.commits.get(published.parents[0])
    for change in diff(stores.ranges, before.metarange, published.metarange) if steps else ():
        left = change.right_value

        def has(tree: str, key: bytes = change.key, left: bytes | None = left) -> bool:
            return same_content(get(stores.ranges, tree, key), left)

        if has(dest.metarange) or not has(head.metarange):
            continue
        if any(not has(start) and has(end) for start, end in steps):
            present = get(stores.ranges, dest.metarange, change.key)
            wrote, now = (
                None if value is None else decode_entry(change.key, value)
                for value in (left, present)
            )
            yield Conflict(change.key.decode(), wrote, wrote, now)


def _since_fork(stores: Stores, record: RunRecord, head: Commit) -> Iterator[Commit]:
    """Yield the run's own commits since the fork, newest first."""
    commit = head
    while commit.id != record.base and commit.metadata.get("graveler.run") == record.key:
        yield commit
        commit = stores.refs.commits.get(commit.parents[0])
