"""What a merge would do, without doing it: nothing moves, and nothing is written."""

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from graveler.committed import RawChange, RawConflict, merge_changes
from graveler.committed.merge import SHOWN
from graveler.model import Change, ChangeKind, Commit, Conflict
from graveler.publishing.landing import look
from graveler.reads.changes import change_of
from graveler.reads.stores import Stores
from graveler.repository.merges import describe, merge_start, refuse_unpublished


@dataclass(frozen=True, slots=True)
class MergePreview:
    """What a merge would do.

    Attributes:
        source: The commit that would be merged.
        dest: The head it would be merged into.
        already: The destination holds the source: nothing would happen.
        added: Paths that would be new on the destination.
        changed: Paths that would change.
        removed: Paths that would go.
        conflicts: The first 1,000, in path order. With any, the merge would change nothing.
        conflict_count: How many there are.
    """

    source: Commit
    dest: Commit
    already: bool = False
    added: int = 0
    changed: int = 0
    removed: int = 0
    conflicts: tuple[Conflict, ...] = ()
    conflict_count: int = 0
    _read: Callable[[], Iterator[RawChange | RawConflict]] = field(
        default=lambda: iter(()), repr=False, compare=False
    )

    def changes(self) -> Iterator[Change]:
        """Yield what would change on the destination, conflicts left out, in byte order of paths.

        The trees are read again with each call.
        """
        return (change_of(*one) for one in self._read() if isinstance(one, RawChange))


def preview_merge(
    stores: Stores, source: Commit, into: str, *, strategy: str | None
) -> MergePreview:
    """Return what merging a commit into a branch would do; gates are not asked.

    Raises:
        ConflictError: The two have no history in common.
        FencedError: The branch belongs to a run.
        RunStateError: The commit is work of a run that was not published.
        ProtectedBranchError: The branch takes no merges.
        ExpiredError: The tree of a merge base was removed by garbage collection.
    """
    dest = look(stores, into).head
    stores.refs.protection.check(into, "merge")
    refuse_unpublished(stores, source, dest)
    bases = merge_start(stores, source, dest)
    if bases is None:
        return MergePreview(source, dest, already=True)

    def read() -> Iterator[RawChange | RawConflict]:
        trees = (bases, source.metarange, dest.metarange)
        return merge_changes(stores.ranges, *trees, strategy=strategy)

    tally: Counter[ChangeKind] = Counter()
    found: list[RawConflict] = []
    count = 0
    for one in read():
        if isinstance(one, RawConflict):
            count += 1
            found += [one] if count <= SHOWN else []
        else:
            tally[ChangeKind.of(one.left_value, one.right_value)] += 1
    return MergePreview(
        source,
        dest,
        added=tally[ChangeKind.ADDED],
        changed=tally[ChangeKind.CHANGED],
        removed=tally[ChangeKind.REMOVED],
        conflicts=describe(stores, found, source=source, dest=dest),
        conflict_count=count,
        _read=read,
    )
