"""The steps whose work a run would publish now: joined since it was forked, or published before.

An orchestrator takes a step that has succeeded for done, also where what it did is gone: its
branch was dropped, its publish was taken back. And it may decide, when a run goes on, that a
step which has succeeded before takes no part this time. Here it learns what is there of which.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from graveler.committed import same_records
from graveler.model import Commit
from graveler.refs import is_ancestor
from graveler.repository.stores import Stores
from graveler.runs.record import RunRecord
from graveler.runs.rollback.revert_guard import reverts

__all__ = ["JoinedStep", "joined_steps", "lost_steps", "own_steps"]


@dataclass(frozen=True, slots=True)
class JoinedStep:
    """How a step last joined its run.

    Attributes:
        commit: The commit on the run's branch.
        published: Head of the run's branch when that was published; "" before it is.
        changed: Whether the step changed anything; one that was taken back has not.
    """

    commit: Commit
    published: str
    changed: bool


def joined_steps(stores: Stores, record: RunRecord) -> Mapping[str, JoinedStep]:
    """Return the steps of the run, by name; none once its branch is gone."""
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
    """Return those of the steps whose work would not be on the target if the run published now.

    None where the run's branch is gone: that cannot be published at all.

    Args:
        stores: The repository.
        record: The run.
        made: Steps that have succeeded, each with the commit by which it joined the run.
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

    Looks back from `start` over the run's own commits only.
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
    """Return whether the target has what was published with `head`, and nobody took it back since."""
    commits = stores.refs.commits
    if commits.find(head) is None or not is_ancestor(commits, head, dest.id):
        return False
    floor = commits.get(head).generation
    return all(
        is_ancestor(commits, revert.id, head)
        for revert, _ in reverts(stores, record.key, dest, after=floor)
    )
