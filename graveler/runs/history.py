"""The history of a run: the steps that joined it, and what still stands on its targets.

What stands on a branch is what its head claims (`graveler.committed.claims`). An attempt that was forked
from work that its target no longer has is not published, and the next one does not resume it: a merge
would leave out files, or restore the work of other runs.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from graveler.base.names import step_branch
from graveler.committed.claims import claims_of, same_work, titles
from graveler.errors import ExpiredError, MergeConflictError
from graveler.model import REVERT, Commit
from graveler.reads.stores import Stores
from graveler.refs.commits import Commits
from graveler.refs.history import is_ancestor, log
from graveler.runs.record import RunRecord
from graveler.runs.state import Publish, latest_change
from graveler.runs.steps.earlier import WORK, own_steps, work_id


@dataclass(frozen=True, slots=True)
class JoinedStep:
    """The last join of a step."""

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


class Targets:
    """The targets of a repository's runs at one moment; each is read once for all runs."""

    def __init__(self, stores: Stores) -> None:
        self._stores = stores
        self._lines: dict[str, Line | None] = {}

    def publishes(self, record: RunRecord) -> tuple[Publish, ...]:
        """Return the publishes of a run with their present state on the targets."""
        publishes: list[Publish] = []
        for publish in record.publishes:
            present = self._present(publish, publishes)
            mine = [item for item in record.publishes if item.into == publish.into]
            if publish is latest_change(mine):
                present = self._by_claims(record, present)
            publishes.append(present)
        return tuple(publishes)

    def _by_claims(self, record: RunRecord, publish: Publish) -> Publish:
        """Return the latest publish to a target, as the claims of the target's head have it."""
        line = self._line(publish.into)
        if line is None or publish.lost or comparable(self._stores, publish.commit) is None:
            return publish
        if has_work(self._stores, record, publish):
            return replace(publish, rollback="")
        revert = None if publish.rollback else line.deep_revert_of(publish.commit)
        return publish if revert is None else replace(publish, rollback=revert.id)

    def _present(self, publish: Publish, earlier: Sequence[Publish]) -> Publish:
        line = self._line(publish.into)
        if line is None or not line.has(publish.commit):
            return replace(publish, lost=True)
        reverted = publish if publish.changed else _rests_on(publish, earlier, line)
        revert = None if reverted is None else line.revert_of(reverted.commit)
        return replace(publish, rollback="" if revert is None else revert.id)

    def _line(self, name: str) -> "Line | None":
        if name not in self._lines:
            branch = self._stores.refs.branches.find(name)
            commits = self._stores.refs.commits
            self._lines[name] = None if branch is None else Line(commits, branch.commit_id)
        return self._lines[name]


def _rests_on(publish: Publish, earlier: Sequence[Publish], line: "Line") -> Publish | None:
    """Return the publish whose files on the target made a later publish change nothing."""
    for other in reversed(earlier):
        if other.into == publish.into and other.changed and not other.lost:
            revert = line.revert_of(other.commit)
            if revert is None or not line.is_older(revert.id, publish.commit):
                return other
    return None


def has_work(stores: Stores, record: RunRecord, publish: Publish) -> bool:
    """Return whether the head of the target claims what a publish brought.

    This decides for a retry, a rollback and for what is shown, without reading the history.
    """
    target = stores.refs.branches.find(publish.into)
    published = comparable(stores, publish.commit)
    if target is None or published is None:
        return False
    head = stores.refs.commits.get(target.commit_id)
    return same_work(stores.ranges, claims_of(published), claims_of(head), record.branch)


def comparable(stores: Stores, identifier: str) -> Commit | None:
    """Return a publish whose claims can be compared; None if they are expired or it brought none."""
    published = stores.refs.commits.get(identifier)
    before = stores.refs.commits.get(published.parents[0])
    if claims_of(published) == claims_of(before):
        return None
    try:
        for commit in (before, published):
            stores.refs.expired.check_readable(commit.id)
    except ExpiredError:
        return None
    return published


class Line:
    """The history of a branch, read only as far as requested."""

    def __init__(self, commits: Commits, head: str) -> None:
        self._commits = commits
        self._first_parents = _Read(log(commits, head, first_parent=True))
        self._ancestors = _Read(log(commits, head))

    def has(self, identifier: str) -> bool:
        """Return whether a commit is in the history."""
        commit = self._commits.find(identifier)
        return commit is not None and (
            identifier in self._first_parents.down_to(commit.generation).ids
            or identifier in self._ancestors.down_to(commit.generation).ids
        )

    def revert_of(self, identifier: str) -> Commit | None:
        """Return the commit that reverts a commit of the history and was not reverted itself."""
        floor = self._commits.get(identifier).generation
        return self._first_parents.down_to(floor).reverts.get(identifier)

    def deep_revert_of(self, identifier: str) -> Commit | None:
        """Return the commit that reverts a commit, on any line, or a merge that brought it."""
        commits = self._commits
        floor = commits.get(identifier).generation
        for name, revert in self._ancestors.down_to(floor).reverts.items():
            parents = commits.get(name).parents
            if name == identifier or (
                len(parents) > 1
                and is_ancestor(commits, identifier, parents[1])
                and not is_ancestor(commits, identifier, parents[0])
            ):
                return revert
        return None

    def is_older(self, left: str, right: str) -> bool:
        """Return whether one commit of the history is older than another one."""
        return self._commits.get(left).generation <= self._commits.get(right).generation


class _Read:
    """The part of a log that has been read."""

    def __init__(self, source: Iterator[Commit]) -> None:
        self._source = source
        self._next = next(source, None)
        self._undone: set[str] = set()
        self.ids: set[str] = set()
        self.reverts: dict[str, Commit] = {}

    def down_to(self, generation: int) -> "_Read":
        """Read the commits of this generation and above."""
        while self._next is not None and self._next.generation >= generation:
            commit = self._next
            self.ids.add(commit.id)
            reverted = commit.metadata.get(REVERT)
            if reverted is not None and commit.id not in self._undone:
                self._undone.add(reverted)
                self.reverts.setdefault(reverted, commit)
            self._next = next(self._source, None)
        return self
