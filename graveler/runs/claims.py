"""What a run or a step has claimed on a branch, and how it is withdrawn.

A retry withdraws the claims of its step. A rollback withdraws the claims that a publish brought,
and puts back those of its run that the publish replaced. ``docs/concepts/runs.md`` has the rules.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from graveler.committed.apply import apply
from graveler.committed.claims import Claims, claims_of, differing_claims, record_diff
from graveler.committed.diff import diff, same_content
from graveler.committed.lookup import find_many
from graveler.committed.merge import RawConflict
from graveler.committed.units import log_of, name_of, units_of
from graveler.errors import ExpiredError, ObjectNotFoundError
from graveler.model import Commit
from graveler.objects.address import is_own
from graveler.reads.stores import Stores
from graveler.repository.borrowed import Hold, rows_of
from graveler.values import decode_entry, record_id


class Trees(NamedTuple):
    """The trees of a commit: metarange ids of its files and of its claims."""

    files: str
    claims: str


def trees_of(commit: Commit) -> Trees:
    """Return the trees of a commit."""
    return Trees(commit.metarange, claims_of(commit))


def values_at(stores: Stores, tree: str, paths: Sequence[bytes]) -> Iterator[bytes | None]:
    """Yield the value record of each path in a tree, or None."""
    rows = find_many(stores.ranges, tree, paths)
    return (
        None if row is None else row[len(path) :] for path, row in zip(paths, rows, strict=True)
    )


def without(stores: Stores, trees: Trees, writer: str, hold: Hold, *, fresh: bool = False) -> Trees:
    """Return the trees with the claims of a step withdrawn. A path that others changed stays.

    Args:
        stores: The repository.
        trees: The trees of a commit.
        writer: The branch of the step.
        hold: Keeps the bytes that return, until a branch names the trees.
        fresh: Delete a path whose earlier bytes are gone.

    Raises:
        ExpiredError: The earlier bytes of a path must return and are gone.
    """
    claims = Claims(stores.ranges, stores.splitting, trees.claims)
    own = claims.of(writer)
    paths = list(own)
    claims.look_up(paths)
    files: dict[bytes, bytes | None] = {}
    for path, now in zip(paths, values_at(stores, trees.files, paths), strict=True):
        value, _ = claims.withdraw(writer, path, now, own[path].before)
        if value is not now:
            files[path] = value
    claims.put_stored(writer, b"", None)
    if any(files.values()):
        _keep_bytes(stores, files, hold, fresh=fresh)
    return Trees(applied(stores, trees.files, files), claims.tree())


def applied(stores: Stores, tree: str, files: dict[bytes, bytes | None]) -> str:
    """Return the tree with other value records at some paths; None removes a path."""
    changes = (
        (path, None if value is None else record_id(path, value), value)
        for path, value in sorted(files.items())
    )
    return apply(stores.ranges, tree, changes, stores.splitting).metarange


def _keep_bytes(
    stores: Stores, files: dict[bytes, bytes | None], hold: Hold, *, fresh: bool = False
) -> None:
    """Check that the bytes of returning files exist, and keep them; see `without`."""
    epoch = stores.refs.epochs.read()
    entries = []
    for path, value in files.items():
        entry = None if value is None else decode_entry(path, value)
        if entry is None or not is_own(entry.address):
            continue
        try:
            stores.objects.head(entry.address)
        except ObjectNotFoundError as error:
            if not fresh:
                raise ExpiredError(
                    f"{entry.path!r} must return to an earlier file, whose bytes at "
                    f"{entry.address} are expired: `graveler run open --fresh` opens an attempt "
                    "that deletes such files instead"
                ) from error
            files[path] = None
        else:
            entries.append(entry)
    hold.keep(rows_of(entries, epoch))


class RolledBack(NamedTuple):
    """The result of withdrawing a publish.

    Attributes:
        trees: The trees of the target; the present ones if there are conflicts.
        conflicts: The paths and tables that others changed since.
    """

    trees: Trees
    conflicts: tuple[RawConflict, ...]


def rolled_back(
    stores: Stores, hold: Hold, *, run: str, published: Commit, before: Commit, head: Commit
) -> RolledBack:
    """Withdraw on a branch what a publish brought to it.

    Args:
        stores: The repository.
        hold: Keeps the bytes that return, until the branch names the trees.
        run: The branch of the run, which has the same claims at `published` and at `head`.
        published: The commit of the publish.
        before: Its first parent.
        head: Head of the branch.
    """
    ranges = stores.ranges
    claims = Claims(ranges, stores.splitting, claims_of(head))
    was, brought = trees_of(before), trees_of(published)
    rows = list(differing_claims(ranges, was.claims, brought.claims, run))
    changed = {row.key for row in record_diff(ranges, was.files, brought.files)}
    claimed = {path for _, path, _, right in rows if path and right is not None}
    paths = sorted(claimed | changed)
    sides = (values_at(stores, tree, paths) for tree in (was.files, brought.files, head.metarange))
    earlier, wrote, now = (dict(zip(paths, side, strict=True)) for side in sides)
    after = dict(now)
    overwritten = set()
    claims.look_up(sorted(claimed))
    for writer, path, left, right in rows:
        present = claims.get(writer, path) if path and right is not None else None
        if present is not None:
            to = present.before if left is None else earlier[path]
            after[path], others = claims.withdraw(writer, path, after[path], to)
            overwritten |= {path} if others else set()
        claims.put_stored(writer, path, left)
    for path in changed - claimed:
        if same_content(now[path], wrote[path]):
            after[path] = earlier[path]
        elif not same_content(now[path], earlier[path]):
            overwritten.add(path)
    files = {path: value for path, value in after.items() if value is not now[path]}
    conflicts = [RawConflict(path, wrote[path], earlier[path], now[path]) for path in overwritten]
    units = _moved_tables(stores, brought.files, head.metarange, files)
    conflicts += [RawConflict(unit, None, None, None) for unit in units]
    if conflicts:
        return RolledBack(trees_of(head), tuple(sorted(conflicts, key=lambda each: each.key)))
    if any(value not in (None, earlier[path]) for path, value in files.items()):
        _keep_bytes(stores, files, hold)
    return RolledBack(Trees(applied(stores, head.metarange, files), claims.tree()), ())


def _moved_tables(stores: Stores, left: str, right: str, paths: Iterable[bytes]) -> Iterator[bytes]:
    """Yield the names of the Delta tables of these paths whose logs differ between two trees."""
    for log in sorted({log for path in paths if (log := log_of(path)) is not None}):
        if next(diff(stores.ranges, left, right, prefix=log), None) is not None:
            yield name_of(units_of([log])[0])
