"""Changes of others on the target, and the staged writes that conflict with them."""

from collections.abc import Iterator
from functools import cached_property

from graveler.committed.apply import StagedChange
from graveler.committed.bases import CONFLICT, Bases, BaseValues
from graveler.committed.diff import diff, same_content
from graveler.committed.metarange import get
from graveler.committed.units import log_of, units_of
from graveler.errors import ExpiredError
from graveler.ingest.shelves import Shelves
from graveler.ingest.unpublished import FAR, INGEST, IngestBranch, last_seen
from graveler.model import REVERT, Commit
from graveler.refs.history import line_outside
from graveler.repository.merges import find_bases


class Theirs:
    """What others changed on the target, since a commit of the branch had everything on it.

    Attributes:
        exist: Whether the target has a commit of others.
    """

    def __init__(self, branch: IngestBranch, since: Commit, target: Commit) -> None:
        self._stores, self._name = branch.stores, branch.name
        self._since, self._target = since, target
        commits = self._stores.refs.commits
        seen = last_seen(commits, since)
        far = target.generation - commits.get(seen).generation > FAR
        line = [] if far else list(line_outside(commits, target.id, seen))
        mine = [commit for commit in line if commit.metadata.get(INGEST) == branch.name]
        self.exist = far or len(mine) < len(line)
        self._others = None if far else [one for one in line if not self._is_mine(one)]

    @cached_property
    def _line(self) -> list[Commit] | None:
        """The commits of the target that the branch does not have, newest first, if they are few."""
        if self._target.generation - self._since.generation > FAR:
            return None
        return list(line_outside(self._stores.refs.commits, self._target.id, self._since.id))

    def is_own(self, key: bytes) -> bool:
        """Return whether only publishes of the branch, or reverts of them, changed a path lately."""
        if self._line is None:
            return False
        try:
            last = next((one for one in self._line if self._changes(one, key)), None)
        except ExpiredError:
            return False
        return last is None or self._is_mine(last)

    def sift(
        self, shelves: Shelves, hour: str, changes: Iterator[StagedChange]
    ) -> Iterator[StagedChange]:
        """Yield the staged changes that may be committed, and set aside those that conflict.

        A path that equals the branch is a write if others changed it on the target.
        """
        shelved = shelves.open()
        ranges, left, right = self._stores.ranges, self._since.metarange, self._target.metarange
        if not (shelved or self.exist):
            yield from changes
            return
        bases = find_bases(self._stores, self._since, self._target) or Bases.one(left)
        values = BaseValues(ranges, bases)
        moved = (log_of(change.key) for change in diff(ranges, left, right))
        units = units_of(log for log in set(moved) if log is not None and self._is_new(values, log))
        aside: dict[str, list[StagedChange]] = {}
        theirs = diff(ranges, left, right)
        there = next(theirs, None)
        for change in changes:
            key, _, value = change
            while there is not None and there.key < key:
                there = next(theirs, None)
            shelf = next((one for one in shelved if one.takes(key)), None)
            name = None if shelf is None else shelf.name
            if name is None and key.startswith(units):
                name = ""
            elif name is None and there is not None and there.key == key:
                now = there.right_value
                if not same_content(now, value) and self._changed(values, key, now):
                    name = ""
            if name is None:
                yield change
                continue
            aside.setdefault(name, []).append(change)
            single = shelf is not None and not key.startswith(shelf.units)
            if single and same_content(get(ranges, right, key), value):
                yield change  # it ends the conflict: the branch has written it, too
        for name, writes in aside.items():
            keys = [key for key, _, _ in writes]
            new = [unit for unit in units if any(key.startswith(unit) for key in keys)]
            shelves.put(writes, {hour: keys}, name, (left, () if name else tuple(new)))

    def _changed(self, values: BaseValues, key: bytes, now: bytes | None) -> bool:
        if self._others is not None and not any(_covers(one, key) for one in self._others):
            return False
        base = values.at(key)
        same = base is not CONFLICT and same_content(base, now)
        return not same and not self.is_own(key)

    def _is_new(self, values: BaseValues, log: bytes) -> bool:
        """Return whether others changed the log of a table."""
        ranges, target = self._stores.ranges, self._target.metarange
        changes = diff(ranges, self._since.metarange, target, prefix=log)
        return any(self._changed(values, change.key, change.right_value) for change in changes)

    def _is_mine(self, commit: Commit) -> bool:
        reverted = commit.metadata.get(REVERT)
        made = self._stores.refs.commits.find(reverted) if reverted else None
        return self._name in (one.metadata.get(INGEST) for one in (commit, made) if one)

    def _changes(self, commit: Commit, key: bytes) -> bool:
        refs, ranges = self._stores.refs, self._stores.ranges
        if not (_covers(commit, key) and commit.parents):
            return False
        before = refs.commits.get(commit.parents[0])
        for one in (before, commit):
            refs.expired.check_readable(one.id)
        return not same_content(*(get(ranges, tree.metarange, key) for tree in (before, commit)))


def _covers(commit: Commit, key: bytes) -> bool:
    """Return whether the commit can differ from its first parent at a key."""
    return commit.spans is None or any(first <= key <= last for first, last in commit.spans)
