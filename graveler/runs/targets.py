"""The targets of runs: the publishes that they have now, and those that are reverted there."""

from collections.abc import Iterator, Sequence
from dataclasses import replace

from graveler.committed.claims import claims_of, same_work
from graveler.errors import ExpiredError
from graveler.model import REVERT, Commit
from graveler.reads.stores import Stores
from graveler.refs.commits import Commits
from graveler.refs.history import is_ancestor, log
from graveler.runs.record import RunRecord
from graveler.runs.state import Publish, latest_change


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
