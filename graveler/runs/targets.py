"""The targets of runs: the publishes that they have now, and those that are reverted there."""

from collections.abc import Iterator, Sequence
from dataclasses import replace

from graveler.model import Commit
from graveler.reads.stores import Stores
from graveler.refs import log
from graveler.refs.commits import Commits
from graveler.runs.record import RunRecord
from graveler.runs.state import Publish


class Targets:
    """The targets of a repository's runs at one moment; each is read once for all runs."""

    def __init__(self, stores: Stores) -> None:
        self._stores = stores
        self._lines: dict[str, Line | None] = {}

    def publishes(self, record: RunRecord) -> tuple[Publish, ...]:
        """Return the publishes of a run with their present state on the targets."""
        publishes: list[Publish] = []
        for publish in record.publishes:
            publishes.append(self._present(publish, publishes))
        return tuple(publishes)

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
            reverted = commit.metadata.get("graveler.revert")
            if reverted is not None and commit.id not in self._undone:
                self._undone.add(reverted)
                self.reverts.setdefault(reverted, commit)
            self._next = next(self._source, None)
        return self
