"""Changes of commits: differences of two trees, and the commits that changed a path.

A commit records the stretches of keys in which it differs from its first parent: if the path is in none
of them, its tree is not read. History is simplified like in git: if a commit has the same content at the
path as one of its parents, only that parent is followed, and a merge is shown if it differs from all.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice

from graveler.base.names import path_key
from graveler.committed.diff import diff, same_content
from graveler.committed.metarange import EMPTY_METARANGE, get, prefix_end, read
from graveler.errors import ExpiredError
from graveler.model import Change, ChangeKind, Commit
from graveler.reads.stores import Stores
from graveler.refs.history import log, walk
from graveler.values import deferred_entry

_FAR = 2_000


def change_of(
    key: bytes, before: bytes | None, after: bytes | None, origins: tuple[str, str] = ("", "")
) -> Change:
    """Return the change of a key from one value record to another. None means absent."""
    return Change(
        path=key.decode(),
        kind=ChangeKind.of(before, after),
        before=None if before is None else deferred_entry(key, before, origins[0]),
        after=None if after is None else deferred_entry(key, after, origins[1]),
    )


def diff_commits(
    stores: Stores, left: Commit, right: Commit, *, prefix: str = ""
) -> Iterator[Change]:
    """Yield the changes from `left` to `right` below `prefix`, in byte order of the paths.

    The cost is reading both metaranges and the ranges that differ.
    """
    raw_prefix = path_key(prefix) if prefix else b""
    for change in diff(stores.ranges, left.metarange, right.metarange, prefix=raw_prefix):
        yield change_of(change.key, change.left_value, change.right_value, (left.id, right.id))


def range_reuse(stores: Stores, commit: Commit) -> tuple[int, int]:
    """Return the number of a commit's ranges that its first parent lacks, and that it has."""
    parents = {
        info.id
        for parent in commit.parents[:1]
        for info in read(stores.ranges, stores.refs.commits.get(parent).metarange)
    }
    ids = [info.id for info in read(stores.ranges, commit.metarange)]
    reused = len(parents.intersection(ids))
    return len(ids) - reused, reused


def reached(heads: Iterable[str], parents: Callable[[str], Iterable[str]]) -> Iterator[str]:
    """Yield the heads and all that is before them, each once."""
    todo = list(dict.fromkeys(heads))
    seen = set(todo)
    while todo:
        identifier = todo.pop()
        yield identifier
        fresh = [parent for parent in parents(identifier) if parent not in seen]
        seen.update(fresh)
        todo += fresh


def trace(
    stores: Stores, start: Commit, *, path: str = "", prefix: str = "", first_parent: bool = False
) -> Iterator[Commit]:
    """Yield the commits, from `start` back, that changed a path or paths below a prefix."""
    key = path_key(path or prefix)
    tracer = _Tracer(stores, key, exact=bool(path), first_parent=first_parent)
    return walk(stores.refs.commits, [start.id], tracer.visit)


def last_changes(stores: Stores, start: Commit, keys: Sequence[bytes]) -> dict[bytes, Commit]:
    """Return, for each key, the last commit on the line of `start` that changed it.

    All keys are found in one walk along first parents. A key is missing if the commit is more than
    2,000 commits away, or garbage collection has removed its tree.
    """
    changes: dict[bytes, Commit] = {}
    left = list(keys)
    commits = stores.refs.commits
    for commit in islice(log(commits, start.id, first_parent=True), _FAR):
        if not left:
            break
        touched = _touched(commit, left)
        if not touched:
            continue
        parent = commits.get(commit.parents[0]) if commit.parents else None
        try:
            stores.refs.expired.check_readable(commit.id)
            if parent is not None:
                stores.refs.expired.check_readable(parent.id)
        except ExpiredError:
            break
        before = EMPTY_METARANGE if parent is None else parent.metarange
        for key in touched:
            values = (get(stores.ranges, tree, key) for tree in (commit.metarange, before))
            if not same_content(*values):
                changes[key] = commit
        left = [key for key in left if key not in changes]
    return changes


def _touched(commit: Commit, keys: Sequence[bytes]) -> Sequence[bytes]:
    """Return those of the sorted keys at which the commit can differ from its first parent."""
    if commit.spans is None:
        return keys
    return [
        key
        for first, last in commit.spans
        for key in keys[bisect_left(keys, first) : bisect_right(keys, last)]
    ]


@dataclass(frozen=True, slots=True)
class _Tracer:
    stores: Stores
    key: bytes
    exact: bool
    first_parent: bool

    def visit(self, commit: Commit) -> tuple[bool, Sequence[str]]:
        """Return whether the commit changed the path, and the parents to visit."""
        parents = commit.parents[:1] if self.first_parent else commit.parents
        if not parents:
            return self._differs(commit.metarange, EMPTY_METARANGE), ()
        for number, identifier in enumerate(parents):
            if number == 0 and not self._may_touch(commit):
                return False, (identifier,)
            parent = self.stores.refs.commits.get(identifier)
            self.stores.refs.expired.check_readable(commit.id)
            self.stores.refs.expired.check_readable(parent.id)
            if not self._differs(commit.metarange, parent.metarange):
                return False, (identifier,)
        return True, parents

    def _may_touch(self, commit: Commit) -> bool:
        if commit.spans is None:
            return True
        if self.exact:
            return any(first <= self.key <= last for first, last in commit.spans)
        stop = prefix_end(self.key)
        return any(
            last >= self.key and (stop is None or first < stop) for first, last in commit.spans
        )

    def _differs(self, left: str, right: str) -> bool:
        ranges = self.stores.ranges
        if not self.exact:
            return next(diff(ranges, left, right, prefix=self.key), None) is not None
        infos = [read(ranges, tree).find(self.key) for tree in (left, right)]
        if infos[0] == infos[1]:
            return False
        values = (None if info is None else ranges.open_range(info).get(self.key) for info in infos)
        return not same_content(*values)
