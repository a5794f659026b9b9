"""The history of a path: which commits changed it, found without opening their trees.

A commit says in which stretches of keys it differs from its first parent. Where the path lies
in none of them, the commit has not changed it, and nothing of its tree is read. The others are
compared: by the ids of ranges first, then by the entries.

History is simplified as git does it: where a commit has at the path what one of its parents
has, only that parent is walked to, so that a side branch is entered only where something of it
came through the merge. A merge is shown where the path differs from each of its parents.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from graveler.committed import EMPTY_METARANGE, diff
from graveler.committed.diff import same_content
from graveler.committed.metarange import find, prefix_end, read
from graveler.model import Commit
from graveler.names import path_key
from graveler.refs import walk
from graveler.repository.stores import Stores

__all__ = ["trace"]


def trace(
    stores: Stores, start: Commit, *, path: str = "", prefix: str = "", first_parent: bool = False
) -> Iterator[Commit]:
    """Yield the commits from `start` back that changed what is at a path or below a prefix.

    Args:
        stores: The repository.
        start: Where to begin.
        path: An exact path; or else
        prefix: the start of paths.
        first_parent: Only first parents are looked at: a merge then is what it brought.

    Raises:
        ExpiredError: A tree that must be compared was removed by garbage collection.
    """
    key = path_key(path or prefix)
    tracer = _Tracer(stores, key, exact=bool(path), first_parent=first_parent)
    return walk(stores.refs.commits, start.id, tracer.visit)


@dataclass(frozen=True, slots=True)
class _Tracer:
    stores: Stores
    key: bytes
    exact: bool
    first_parent: bool

    def visit(self, commit: Commit) -> tuple[bool, Sequence[str]]:
        """Return whether the commit changed the path, and where to look further."""
        parents = commit.parents[:1] if self.first_parent else commit.parents
        if not parents:
            return self._differs(commit.metarange, EMPTY_METARANGE), ()
        for number, identifier in enumerate(parents):
            if number == 0 and not self._may_touch(commit):
                return False, (identifier,)
            parent = self.stores.refs.commits.get(identifier)
            for one in (commit, parent):
                self.stores.refs.expired.check_readable(one.id)
            if not self._differs(commit.metarange, parent.metarange):
                return False, (identifier,)
        return True, parents

    def _may_touch(self, commit: Commit) -> bool:
        """Return whether the commit can differ from its first parent at the path."""
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
        infos = [find(read(ranges, tree), self.key) for tree in (left, right)]
        ids = [None if info is None else info.id for info in infos]
        if ids[0] == ids[1]:
            return False
        one, other = (
            None if identifier is None else ranges.open(identifier).get(self.key)
            for identifier in ids
        )
        return not same_content(one, other)
