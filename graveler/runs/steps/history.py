"""The history of a run's steps: those that joined since the fork or were published before.

An orchestrator treats a step that succeeded as done even if its work is lost, because the run's
branch was dropped or its publish was reverted. When a run resumes, the orchestrator may also leave
out a step that succeeded before. The integrations compare both with this history.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from graveler.committed import same_records
from graveler.model import Commit
from graveler.reads.stores import Stores
from graveler.refs import is_ancestor
from graveler.runs.record import RunRecord
from graveler.runs.rollback.revert_guard import reverts


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
    found: dict[str, JoinedStep] = {}
    starts = [(branch.commit_id, ""), *((head, head) for head in reversed(record.rounds))]
    for start, published in starts:
        for step, commit in own_steps(stores, start, key=record.key):
            if step not in found:
                found[step] = JoinedStep(commit, published, _changed(stores, commit))
    return found


def lost_steps(stores: Stores, record: RunRecord, made: Mapping[str, str]) -> tuple[str, ...]:
    """Return the steps whose work would not be on the target if the run published now.

    Empty if the run's branch is deleted: such a run cannot be published.

    Args:
        stores: The repository.
        record: The run.
        made: Steps that succeeded, each with the id of the commit by which it joined.
    """
    found = joined_steps(stores, record)
    if stores.refs.branches.find(record.branch) is None:
        return ()
    dest = stores.refs.commits.get(stores.refs.branches.get(record.into).commit_id)
    stands: dict[str, bool] = {"": True}
    lost = []
    for step, commit in made.items():
        there = found.get(step)
        if there is None or there.commit.id != commit:
            lost.append(step)
            continue
        if there.published not in stands:
            stands[there.published] = _stands(stores, record, there.published, dest)
        if not stands[there.published]:
            lost.append(step)
    return tuple(lost)


def own_steps(stores: Stores, start: str, *, key: str) -> Iterator[tuple[str, Commit]]:
    """Yield steps and the commits by which they joined, newest first.

    Reads back from `start` over the run's own commits only.
    """
    commit = stores.refs.commits.find(start)
    while commit is not None:
        metadata = commit.metadata
        if metadata.get("graveler.run") != key or "graveler.published" in metadata:
            return
        if "graveler.step" in metadata:
            yield metadata["graveler.step"], commit
        commit = stores.refs.commits.find(commit.parents[0]) if commit.parents else None


def _changed(stores: Stores, joined: Commit) -> bool:
    base, head = (
        stores.refs.commits.find(joined.metadata.get(f"graveler.step_{end}", ""))
        for end in ("base", "head")
    )
    return (
        base is None
        or head is None
        or not same_records(stores.ranges, base.metarange, head.metarange)
    )


def _stands(stores: Stores, record: RunRecord, head: str, dest: Commit) -> bool:
    """Return whether the publish of `head` is on the target and was not reverted since."""
    commits = stores.refs.commits
    if commits.find(head) is None or not is_ancestor(commits, head, dest.id):
        return False
    floor = commits.get(head).generation
    return all(
        is_ancestor(commits, revert.id, head)
        for revert, _ in reverts(stores, record.key, dest, after=floor)
    )
