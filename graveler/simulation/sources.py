"""Real histories: of a bucket by the times of its files, and of a branch by its commits."""

from collections.abc import Iterator, Sequence
from datetime import timedelta
from itertools import islice, pairwise
from operator import eq
from pathlib import Path

from graveler.base.arguments import duration
from graveler.committed import metarange
from graveler.committed.apply import StagedChange
from graveler.committed.diff import diff_ranges
from graveler.errors import ExpiredError, InvalidInputError
from graveler.model import Commit, Entry
from graveler.reads.stores import Stores
from graveler.refs.history import log
from graveler.simulation.history import History, sorted_changes, written
from graveler.simulation.listing import Listed, read_listings
from graveler.values import encode_entry, record_id

HOUR = timedelta(hours=1)
MOST_COMMITS = 720
"""Default number of replayed commits: 30 days, hour by hour."""


def listed_history(
    files: Sequence[Path],
    *,
    columns: str = "",
    sort: bool = False,
    every: timedelta = HOUR,
    commits: int = MOST_COMMITS,
) -> History:
    """Return the history of a bucket: each span of time in which files were written is a commit.

    Files that are no longer in the bucket are not in the history. A file that was written again
    counts only at its last time.

    Args:
        sort: Whether to sort them.
        every: Length of the span of a commit.
        commits: Number of commits to replay, the latest; older files are in the initial tree.
    """
    span = duration(every, "every", zero=False).total_seconds()
    listed = list(read_listings(files, columns=columns, sort=sort))
    name = ", ".join(file.name for file in files)
    if not listed:
        raise InvalidInputError(f"listing {name} has no files: give one that has")
    spans: dict[float, list[StagedChange]] = {}
    for each in listed:
        if each.modified is None:
            raise InvalidInputError(
                f"listing {name}: path {each.key.decode()!r} has no time: give a listing with the "
                "column LastModifiedDate, or change the listed tree by a pattern (--pattern updates)"
            )
        spans.setdefault(each.modified.timestamp() // span, []).append(_change(each))
    times = sorted(spans)
    old, new = times[:-commits], times[-commits:]
    base = sorted_changes(change for time in old for change in spans[time])
    return History(
        name,
        f"{len(listed):,} files, {len(new):,} commits, from {len(base):,} files",
        lambda: iter(base),
        lambda: (spans[time] for time in new),
    )


def listed_tree(files: Sequence[Path], *, columns: str = "", sort: bool = False) -> History:
    """Return the tree of a bucket, without commits; arguments and errors as for `listed_history`."""
    tree = [_change(each) for each in read_listings(files, columns=columns, sort=sort)]
    name = ", ".join(file.name for file in files)
    return History(name, f"{len(tree):,} files", lambda: iter(tree), lambda: iter(()))


def _change(listed: Listed) -> StagedChange:
    """Return the link to a file, with a value record as large as the product's."""
    path = listed.key.decode()
    entry = Entry(
        path,
        f"s3://{listed.bucket}/{path}",
        listed.size,
        mtime=listed.modified,
        version=f"etag:{listed.etag}",
    )
    return written(listed.key, size=len(encode_entry(entry)[1]))


def branch_history(stores: Stores, head: Commit, name: str, commits: int = MOST_COMMITS) -> History:
    """Return the history of a branch, along first parents.

    Args:
        name: Name of the branch, for the report.
        commits: Number of commits to replay, the latest; the tree before them is the initial tree.
            Commits whose trees are collected as garbage are left out.
    """
    line = list(islice(_kept(stores, head), commits + 1))[::-1]
    trees = [commit.metarange for commit in line]
    if len(line) <= commits and not line[0].parents:
        trees.insert(0, metarange.EMPTY_METARANGE)
    store = stores.ranges

    def base() -> Iterator[StagedChange]:
        for key, value in metarange.scan(store, trees[0]):
            yield key, record_id(key, value), value

    def changes() -> Iterator[list[StagedChange]]:
        for before, after in pairwise(trees):
            sides = metarange.read(store, before), metarange.read(store, after)
            yield [
                (key, None if value is None else record_id(key, value), value)
                for key, _, value in diff_ranges(store, *sides, same=eq)
            ]

    count = sum(info.count for info in metarange.read(store, trees[-1]))
    return History(name, f"{count:,} files, {len(trees) - 1:,} commits", base, changes)


def _kept(stores: Stores, head: Commit) -> Iterator[Commit]:
    """Yield a commit and its first parents while their trees exist."""
    for commit in log(stores.refs.commits, head.id, first_parent=True):
        try:
            stores.refs.expired.check_readable(commit.id)
        except ExpiredError:
            return
        yield commit
