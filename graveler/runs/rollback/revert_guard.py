"""The guard against publishing work that rests on a publish which was reverted since.

An attempt that began while the run's earlier publish was on the target has that publish in its
history. If the attempt writes the same content again, it changes nothing, and a merge would keep
the target without the reverted files. Such a merge must not count as a publish.
"""

from collections.abc import Iterator
from typing import Final

from graveler.committed import diff, get
from graveler.committed.diff import same_content
from graveler.errors import MergeConflictError
from graveler.model import Commit, Conflict
from graveler.reads.stores import Stores
from graveler.records import decode_entry
from graveler.refs import log
from graveler.runs.record import RunRecord

_SHOWN: Final = 5


def check_not_reverted(stores: Stores, record: RunRecord, head: Commit, dest: Commit) -> None:
    """Refuse to publish a run with a step that wrote the same content as a reverted publish.

    Args:
        stores: The repository.
        record: The run.
        head: The head to publish.
        dest: Head of the target.

    Raises:
        MergeConflictError: There are such paths; the error lists them.
    """
    if record.forked == 1:
        return  # the run had published nothing before it began
    for published in _reverted(stores, record, dest):
        conflicts = tuple(_lost(stores, record, published, head, dest))
        if conflicts:
            shown = ", ".join(repr(conflict.path) for conflict in conflicts[:_SHOWN])
            more = f" and {len(conflicts) - _SHOWN} more" if len(conflicts) > _SHOWN else ""
            raise MergeConflictError(
                f"run {record.key!r} began before its publish {published.id[:12]} was taken back, "
                f"and has written {shown}{more} as that one had: they would not be on "
                f"{record.into!r}; abandon the run, then run it again",
                conflicts,
            )


def reverts(
    stores: Stores, key: str, dest: Commit, *, after: int
) -> Iterator[tuple[Commit, Commit]]:
    """Yield each standing revert of a publish of the run, and that publish; newest first.

    Args:
        stores: The repository.
        key: The run.
        dest: Head of the target.
        after: Stop at this generation of the target's history.
    """
    commits = stores.refs.commits
    undone: set[str] = set()
    for commit in log(commits, dest.id, first_parent=True):
        if commit.generation <= after:
            return
        reverted = commit.metadata.get("graveler.revert")
        if reverted is None or commit.id in undone:
            continue
        undone.add(reverted)
        published = commits.find(reverted)
        if (
            published is not None
            and published.metadata.get("graveler.run") == key
            and "graveler.published" in published.metadata
        ):
            yield commit, published


def _reverted(stores: Stores, record: RunRecord, dest: Commit) -> list[Commit]:
    """Return the publishes from before the present round that were reverted since."""
    floor = stores.refs.commits.get(record.base).generation
    return [
        published
        for _, published in reverts(stores, record.key, dest, after=floor)
        if published.generation <= floor
    ]


def _lost(
    stores: Stores, record: RunRecord, published: Commit, head: Commit, dest: Commit
) -> Iterator[Conflict]:
    """Yield the paths that a step wrote as the publish left them, and that the target lacks."""
    steps = list(_steps(stores, record, head))
    before = stores.refs.commits.get(published.parents[0])
    for change in diff(stores.ranges, before.metarange, published.metarange) if steps else ():
        left = change.right_value

        def has(tree: str, key: bytes = change.key, left: bytes | None = left) -> bool:
            return same_content(get(stores.ranges, tree, key), left)

        if has(dest.metarange) or not has(head.metarange):
            continue
        if any(not has(start) and has(end) for start, end in steps):
            there = get(stores.ranges, dest.metarange, change.key)
            wrote, now = (
                None if value is None else decode_entry(change.key, value)
                for value in (left, there)
            )
            yield Conflict(change.key.decode(), wrote, wrote, now)


def _steps(stores: Stores, record: RunRecord, head: Commit) -> Iterator[tuple[str, str]]:
    """Yield the trees before and after each step that joined the run since the fork."""
    commits = stores.refs.commits
    commit = head
    while commit.id != record.base and commit.metadata.get("graveler.run") == record.key:
        ends = [
            commits.find(commit.metadata.get(f"graveler.step_{end}", ""))
            for end in ("base", "head")
        ]
        if ends[0] is not None and ends[1] is not None:
            yield ends[0].metarange, ends[1].metarange
        commit = commits.get(commit.parents[0])
