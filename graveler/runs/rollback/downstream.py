"""Downstream runs: those that have read the output of a run, by their recorded inputs.

Runs read few commits and few prefixes. So the result for each input is cached, the changes of the
published commit are read once, and history is walked once.
"""

from bisect import bisect_left
from functools import cached_property

from graveler.committed import diff, get
from graveler.model import Commit
from graveler.reads.stores import Stores
from graveler.records import value_identity
from graveler.refs import is_ancestor, log
from graveler.runs.record import Input


class PublishedPaths:
    """The paths that a commit changed, compared with the inputs of other runs."""

    def __init__(self, stores: Stores, into: str, published: Commit) -> None:
        self._stores = stores
        self._published = published
        self._known: dict[Input, bool] = {}
        self._below: dict[str, bool] = {}
        self._into = into

    def is_read_by(self, read: Input) -> bool:
        """Return whether an input includes a path as the commit left it."""
        if read not in self._known:
            self._known[read] = self._is_below(read.commit) and self._holds(read)
        return self._known[read]

    def _is_below(self, identifier: str) -> bool:
        """Return whether the published commit is in the history of another commit."""
        if identifier == self._published.id or identifier in self._since:
            return True
        if identifier not in self._below:
            commits = self._stores.refs.commits
            commit = commits.find(identifier)
            self._below[identifier] = (
                commit is not None
                and commit.generation > self._published.generation
                and is_ancestor(commits, self._published.id, identifier)
            )
        return self._below[identifier]

    def _holds(self, read: Input) -> bool:
        """Return whether a path below the prefix is as the published commit left it."""
        tree = self._stores.refs.commits.get(read.commit).metarange
        if read.commit == self._published.id:
            return self._first(read.prefix) is not None
        prefix = read.prefix.encode()
        at = self._first(read.prefix)
        while (
            at is not None and at < len(self._changed) and self._changed[at][0].startswith(prefix)
        ):
            key, left = self._changed[at]
            if value_identity(get(self._stores.ranges, tree, key)) == left:
                return True
            at += 1
        return False

    def _first(self, prefix: str) -> int | None:
        """Return the index of the first change below the prefix, or None."""
        key = prefix.encode()
        at = bisect_left(self._changed, key, key=lambda change: change[0])
        there = at < len(self._changed) and self._changed[at][0].startswith(key)
        return at if there else None

    @cached_property
    def _changed(self) -> list[tuple[bytes, bytes | None]]:
        """The keys that the commit changed, in order, with the identities that it left."""
        before = self._stores.refs.commits.get(self._published.parents[0])
        return [
            (change.key, value_identity(change.right_value))
            for change in diff(self._stores.ranges, before.metarange, self._published.metarange)
        ]

    @cached_property
    def _since(self) -> frozenset[str]:
        """The commits of the target since the publish, which most runs have read."""
        commits = self._stores.refs.commits
        target = self._stores.refs.branches.find(self._into)
        if target is None:
            return frozenset()
        since: list[str] = []
        for commit in log(commits, target.commit_id, first_parent=True):
            if commit.generation < self._published.generation:
                return frozenset()  # the target was reset
            since.append(commit.id)
            if commit.id == self._published.id:
                return frozenset(since)
        return frozenset()
