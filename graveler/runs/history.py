"""The history of a run: the steps that joined it, and its publishes that were reverted.

An orchestrator treats a step that succeeded as done even if its work is lost, because the run's
branch was dropped or its publish was reverted. When a run resumes, the orchestrator may also leave
out a step that succeeded before. The integrations compare both with this history.

An attempt that began while the run's earlier publish was on the target has that publish in its
history. If that publish is then reverted, equal writes of the attempt change nothing, and a merge would
leave the target without those files. If a reset or an undo removes the commit of the fork from the
target, a merge would restore the work of other runs that the target has dropped. Such attempts are not
published, and the next one does not resume them.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from graveler.committed import same_records
from graveler.errors import MergeConflictError
from graveler.model import Commit
from graveler.reads.stores import Stores
from graveler.refs import is_ancestor, log
from graveler.runs.record import RunRecord
from graveler.runs.steps.step import own_steps, work_of


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
    starts = [(branch.commit_id, ""), *((head, head) for head in reversed(record.heads))]
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
        made: Steps that succeeded, each with the id of its commit on the run's branch.
    """
    if stores.refs.branches.find(record.branch) is None:
        return ()
    dest = stores.refs.commits.get(stores.refs.branches.get(record.into).commit_id)
    if is_rewound(stores, record, dest):
        return tuple(made)
    steps = joined_steps(stores, record)
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


def reverted_below(stores: Stores, record: RunRecord, dest: Commit) -> tuple[Commit, Commit] | None:
    """Return a standing revert of a publish from which the run's branch was forked, and the publish.

    The branch has the reverted files from that publish. A merge of the branch would not restore them and
    would not report them missing. The result is None if there is none.

    Args:
        stores: The repository.
        record: The run.
        dest: Head of its target.
    """
    if not record.publishes:
        return None
    floor = stores.refs.commits.get(record.base).generation
    for revert, publish in reverted_publishes(stores, record.key, dest, floor=floor):
        if publish.generation <= floor:
            return revert, publish
    return None


def is_rewound(stores: Stores, record: RunRecord, dest: Commit) -> bool:
    """Return whether the target was reset and lacks the commit from which the run was forked.

    The branch has work that the target has dropped since, and a merge of it would restore that work.

    Args:
        stores: The repository.
        record: The run.
        dest: Head of its target.
    """
    return not is_ancestor(stores.refs.commits, record.base, dest.id)


def check_fork(stores: Stores, record: RunRecord, dest: Commit) -> None:
    """Refuse to publish an attempt that was forked from work that its target no longer has.

    Raises:
        MergeConflictError: The target was reset to before the fork, or a publish of the run before
            the fork is reverted.
    """
    if is_rewound(stores, record, dest):
        raise MergeConflictError(
            f"run {record.key!r}: attempt {record.attempt} was forked from {record.into!r} at commit "
            f"{record.base[:12]}, which a reset or an undo has taken from it since: it would bring back "
            f"what was dropped: run all of it again, the next attempt starts from {record.into!r} as "
            "it is now"
        )
    reverted = reverted_below(stores, record, dest)
    if reverted is not None:
        revert, publish = reverted
        raise MergeConflictError(
            f"run {record.key!r}: attempt {record.attempt} began with publish {publish.id[:12]} on "
            f"{record.into!r}, which commit {revert.id[:12]} reverted since, so that it would bring "
            "only a part of its files: run all of it again, the next attempt starts from "
            f"{record.into!r} as it is now"
        )
