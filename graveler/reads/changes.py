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
from graveler.committed.metarange import EMPTY_METARANGE, prefix_end, read
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


def last_changes(
    stores: Stores,
    start: Commit,
    keys: Sequence[bytes],
    *,
    folders: bool = False,
    looks: int | None = None,
    far: int = _FAR,
) -> dict[bytes, Commit]:
    """Return, for each key, the last commit on the line of `start` that changed it.

    All keys are found in one walk along first parents. A key is missing if the commit is `far`
    commits away, or garbage collection has removed its tree.

    Args:
        keys: The keys, sorted.
        folders: A key that ends with a slash is a folder, and stands for all keys below it, of which
            none is given.
        looks: Compare at most so many times a key of two trees.
    """
    changes: dict[bytes, Commit] = {}
    left = list(keys)
    commits = stores.refs.commits
    for commit in islice(log(commits, start.id, first_parent=True), far):
        if not left or looks == 0:
            break
        touched = _touched(commit, left, folders=folders)[:looks]
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
            exact = not (folders and key.endswith(b"/"))
            if _differs(stores, key, commit.metarange, before, exact=exact):
                changes[key] = commit
        left = [key for key in left if key not in changes]
        looks = None if looks is None else looks - len(touched)
    return changes


def _touched(commit: Commit, keys: Sequence[bytes], *, folders: bool) -> Sequence[bytes]:
    """Return those of the sorted keys at which the commit can differ from its first parent."""
    if commit.spans is None:
        return keys
    touched: list[bytes] = []
    for first, last in commit.spans:
        start = bisect_left(keys, first)
        above = folders and start and keys[start - 1].endswith(b"/")
        start -= bool(above and first.startswith(keys[start - 1]))
        touched += keys[start : bisect_right(keys, last)]
    return list(dict.fromkeys(touched))


def _differs(stores: Stores, key: bytes, left: str, right: str, *, exact: bool) -> bool:
    """Return whether two trees differ at a key, or else at any key that starts with it."""
    ranges = stores.ranges
    if not exact:
        return next(diff(ranges, left, right, prefix=key), None) is not None
    infos = [read(ranges, tree).find(key) for tree in (left, right)]
    if infos[0] == infos[1]:
        return False
    values = (None if info is None else ranges.open_range(info).get(key) for info in infos)
    return not same_content(*values)


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
        return _differs(self.stores, self.key, left, right, exact=self.exact)
