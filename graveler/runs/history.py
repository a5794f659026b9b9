"""The history of a run: the steps that joined it, and whether its work still stands on its target.

An orchestrator treats a step that succeeded as done even if its work is lost, because the run's
branch was dropped or its publish was reverted. When a run resumes, the orchestrator may also leave
out a step that succeeded before. The integrations compare both with this history.

What stands on a branch is what its head claims (`graveler.committed.claims`).

An attempt that began while the run's earlier publish was on the target has that publish in its
history. If that publish is then reverted, equal writes of the attempt change nothing, and a merge would
leave the target without those files. If a reset or an undo removes the commit of the fork from the
target, a merge would restore the work of other runs that the target has dropped. Such attempts are not
published, and the next one does not resume them.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from graveler.base.names import step_branch
from graveler.committed.claims import claims_of, same_work, titles
from graveler.errors import MergeConflictError
from graveler.model import Commit
from graveler.reads.stores import Stores
from graveler.refs.history import is_ancestor
from graveler.runs.record import RunRecord
from graveler.runs.steps.step import WORK, own_steps, work_id


@dataclass(frozen=True, slots=True)
class JoinedStep:
    """The last join of a step.

    Attributes:
        published: The published head of the run's branch; "" before the publish.
        changed: Whether the step claims anything; a step that was undone does not.
    """

    commit: Commit
    published: str
    changed: bool


def joined_steps(stores: Stores, record: RunRecord) -> Mapping[str, JoinedStep]:
    """Return the joined steps of a run, by name; none after its branch is deleted."""
    branch = stores.refs.branches.find(record.branch)
    if branch is None:
        return {}
    head = stores.refs.commits.get(branch.commit_id)
    steps: dict[str, JoinedStep] = {}
    for step, commit in own_steps(stores, head.id, key=record.key):
        steps.setdefault(step, JoinedStep(commit, "", commit.metadata.get(WORK, "-") != ""))
    for published in reversed(record.heads):
        for step, commit in own_steps(stores, published, key=record.key):
            claims = commit.metadata.get(WORK, "-") != ""
            if step not in steps and claims and stands(stores, record, commit, step, head):
                steps[step] = JoinedStep(commit, published, changed=True)
    for writer, step in titles(stores.ranges, claims_of(head), record.branch):
        # a publish that the record does not know, as after a restored dump
        if step not in steps and step_branch(record.branch, step) == writer:
            steps[step] = JoinedStep(
                stores.refs.commits.get(record.base), record.base, changed=True
            )
    return steps


def lost_steps(stores: Stores, record: RunRecord, made: Mapping[str, str]) -> tuple[str, ...]:
    """Return the steps whose work would not be on the target if the run published now.

    Empty if the run's branch is deleted: such a run cannot be published.

    Args:
        made: Steps that succeeded, each with the id of its commit on the run's branch.
    """
    branch = stores.refs.branches.find(record.branch)
    if branch is None:
        return ()
    commits = stores.refs.commits
    dest = commits.get(stores.refs.branches.get(record.into).commit_id)
    if is_rewound(stores, record, dest):
        return tuple(made)
    own: dict[str, str] = {}
    for step, commit in own_steps(stores, branch.commit_id, key=record.key):
        own.setdefault(step, commit.id)
    lost = []
    for step, identifier in made.items():
        joined = commits.find(identifier)
        if step in own:
            kept = own[step] == identifier
        else:
            kept = joined is not None and stands(stores, record, joined, step, dest)
        if not kept:
            lost.append(step)
    return tuple(lost)


def stands(stores: Stores, record: RunRecord, joined: Commit, step: str, head: Commit) -> bool:
    """Return whether the work with which a step joined stands at a commit.

    A step that joined without claims stands. A join of a version without claims stands while the
    commit is in the history.
    """
    work = joined.metadata.get(WORK)
    if work is None:
        return is_ancestor(stores.refs.commits, joined.id, head.id)
    return not work or work == work_id(stores, head, step_branch(record.branch, step))


def is_rewound(stores: Stores, record: RunRecord, dest: Commit) -> bool:
    """Return whether the target was reset and lacks the commit from which the run was forked.

    The branch has work that the target has dropped since, and a merge of it would restore that work.
    """
    return not is_ancestor(stores.refs.commits, record.base, dest.id)


def is_displaced(stores: Stores, record: RunRecord, dest: Commit) -> bool:
    """Return whether the target has other work of the run than at the fork.

    A publish of the run was reverted or rolled back since, or a merge brought one.
    """
    base = stores.refs.commits.get(record.base)
    return not same_work(stores.ranges, claims_of(base), claims_of(dest), record.branch)


def check_fork(stores: Stores, record: RunRecord, dest: Commit) -> None:
    """Refuse to publish an attempt that was forked from work that its target no longer has."""
    fork = (
        f"run {record.key!r}: attempt {record.attempt} was forked from {record.into!r} at commit "
        f"{record.base[:12]}"
    )
    again = f"run all of it again, the next attempt starts from {record.into!r} as it is now"
    if is_rewound(stores, record, dest):
        raise MergeConflictError(
            f"{fork}, which a reset or an undo has removed since: a publish would restore what was "
            f"dropped: {again}"
        )
    if is_displaced(stores, record, dest):
        raise MergeConflictError(
            f"{fork}. Since then {record.into!r} has lost or gained a publish of this run, by a "
            f"rollback, a revert or a merge, so that it would bring only a part of its files: {again}"
        )
