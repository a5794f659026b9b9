"""What differs: between two trees, and between a branch's head and its staged writes."""

from collections.abc import Iterator

from graveler.committed import diff, get
from graveler.committed.diff import same_content
from graveler.committed.metarange import read as read_metarange
from graveler.model import BranchRecord, Change, ChangeKind, Commit
from graveler.names import path_key
from graveler.records import decode_entry, is_replacement, staged_value
from graveler.repository.reads.staged import newest_first, settled
from graveler.repository.stores import Stores


def change_of(key: bytes, before: bytes | None, after: bytes | None) -> Change:
    """Return the change of a key from one value record to another; None: there is none."""
    return Change(
        path=key.decode(),
        kind=ChangeKind.of(before, after),
        before=None if before is None else decode_entry(key, before),
        after=None if after is None else decode_entry(key, after),
    )


def diff_commits(
    stores: Stores, left: Commit, right: Commit, *, prefix: str = ""
) -> Iterator[Change]:
    """Yield what differs from `left` to `right` below `prefix`, in byte order of the paths.

    Cost: both metaranges and the ranges that differ.
    """
    raw_prefix = path_key(prefix) if prefix else b""
    for change in diff(stores.ranges, left.metarange, right.metarange, prefix=raw_prefix):
        yield change_of(change.key, change.left_value, change.right_value)


def uncommitted(stores: Stores, name: str) -> Iterator[Change]:
    """Yield what a commit of the branch would change, in byte order of the paths."""

    def read(record: BranchRecord) -> list[Change]:
        tree = stores.refs.commits.get(record.commit_id).metarange
        changes = []
        for key, write in stores.staging.scan(newest_first(record)):
            before, after = get(stores.ranges, tree, key), staged_value(write)
            if before is None and after is None:
                continue
            if same_content(before, after) and not is_replacement(write):
                continue
            changes.append(change_of(key, before, after))
        return changes

    yield from settled(stores, name, read)


def range_reuse(stores: Stores, commit: Commit) -> tuple[int, int]:
    """Return how many of a commit's ranges its first parent does not have, and how many it has."""
    parents = {
        info.id
        for parent in commit.parents[:1]
        for info in read_metarange(stores.ranges, stores.refs.commits.get(parent).metarange)
    }
    ids = [info.id for info in read_metarange(stores.ranges, commit.metarange)]
    reused = sum(identifier in parents for identifier in ids)
    return len(ids) - reused, reused
