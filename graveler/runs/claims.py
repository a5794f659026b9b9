"""What a run or a step has claimed on a branch, and how it is withdrawn.

A retry withdraws the claims of its step. A rollback withdraws the claims that a publish brought,
and puts back those of its run that the publish replaced. ``docs/concepts/runs.md`` has the rules.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import NamedTuple

from graveler.committed import get
from graveler.committed.apply import apply
from graveler.committed.claims import Claim, Claims, claims_of, differing_claims, record_diff
from graveler.committed.diff import diff, same_content
from graveler.committed.lookup import find_many
from graveler.committed.merge import SHOWN, RawConflict
from graveler.committed.metarange import prefix_end, scan
from graveler.committed.units import log_of, name_of, units_of
from graveler.errors import ExpiredError, MergeConflictError, ObjectNotFoundError
from graveler.model import Commit
from graveler.objects.address import is_own
from graveler.reads.stores import Stores
from graveler.repository.borrowed import Hold, rows_of
from graveler.repository.merges import conflict_error, describe
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


def without(
    stores: Stores,
    trees: Trees,
    writer: str,
    hold: Hold,
    *,
    fresh: bool = False,
    keeps_tables: bool = False,
) -> Trees:
    """Return the trees with the claims of a step withdrawn. A path that others changed stays.

    A Delta table is withdrawn as a whole.

    Args:
        stores: The repository.
        trees: The trees of a commit.
        writer: The branch of the step.
        hold: Keeps the bytes that return, until a branch names the trees.
        fresh: Delete a path whose earlier bytes are gone.
        keeps_tables: Leave the claims of Delta tables as they are.

    Raises:
        MergeConflictError: A Delta table has later versions of others.
        ExpiredError: The earlier bytes of a path must return and are gone.
    """
    claims = Claims(stores.ranges, stores.splitting, trees.claims)
    own = claims.of(writer)
    tables = units_of(log for path in own if (log := log_of(path)) is not None)
    if keeps_tables:
        paths = [path for path in own if not path.startswith(tables)]
    else:
        paths = list(own)
        _check_tables(stores, trees.files, own, tables)
    claims.look_up(paths)
    files: dict[bytes, bytes | None] = {}
    for path, now in zip(paths, values_at(stores, trees.files, paths), strict=True):
        value, _ = claims.withdraw(writer, path, now, own[path].before)
        if value is not now:
            files[path] = value
    if len(paths) == len(own):
        claims.put_stored(writer, b"", None)
    if any(files.values()):
        _keep_bytes(stores, files, hold, fresh=fresh)
    return Trees(applied(stores, trees.files, files), claims.tree())


def _check_tables(
    stores: Stores, files: str, own: Collection[bytes], tables: Iterable[bytes]
) -> None:
    """Refuse if the log of a table has versions of others after those of a step."""
    for table in tables:
        log = name_of(table) + b"/"
        mine = [path for path in own if log_of(path) == log]
        later = [
            path[len(log) :].decode()
            for path, _ in scan(stores.ranges, files, max(mine), prefix_end(log))
            if path not in own and path.endswith(b".json")
        ]
        if later:
            raise MergeConflictError(
                f"table {table.decode() or '.'!r}: others wrote {len(later)} versions of it, from "
                f"{later[0]!r} on, after the version of this step. A step that runs again would leave "
                'a gap in its log: open the step with tables="keep" and let it replace its own rows '
                "(replaceWhere), or roll back what wrote the later versions first",
                describe(stores, [_unit(table)], source=None, dest=None),
                1,
            )


def _unit(table: bytes) -> RawConflict:
    return RawConflict(name_of(table), None, None, None)


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
    writers: defaultdict[bytes, set[str]] = defaultdict(set)
    for writer, path, _, right in rows:
        if path and right is not None:
            writers[path].add(writer)
    replaces = {path for _, path, left, _ in rows if left is not None}
    paths = sorted(writers.keys() | changed)
    sides = (values_at(stores, tree, paths) for tree in (was.files, brought.files, head.metarange))
    earlier, wrote, now = (dict(zip(paths, side, strict=True)) for side in sides)
    after = dict(now)
    overwritten = set()
    claims.look_up(paths)
    for path in paths:
        if writers[path]:
            to = (earlier[path],) if path in replaces else None
            after[path], others = claims.withdraw_all(writers[path], path, now[path], to)
        elif claims.pass_on(
            path, now[path], earlier[path], Claims(ranges, stores.splitting, brought.claims)
        ):
            others = False  # others have claimed it since
        else:
            same = same_content(now[path], wrote[path])
            after[path] = earlier[path] if same else now[path]
            others = not (same or same_content(now[path], earlier[path]))
        overwritten |= {path} if others else set()
    for writer, path, left, _ in rows:
        claims.put_stored(writer, path, left)
    files = {path: value for path, value in after.items() if value is not now[path]}
    conflicts = [RawConflict(path, wrote[path], earlier[path], now[path]) for path in overwritten]
    conflicts += map(_unit, _moved_tables(stores, brought.files, head.metarange, files))
    if conflicts:
        return RolledBack(trees_of(head), tuple(sorted(conflicts, key=lambda each: each.key)))
    if any(value not in (None, earlier[path]) for path, value in files.items()):
        _keep_bytes(stores, files, hold)
    return RolledBack(Trees(applied(stores, head.metarange, files), claims.tree()), ())


def joined(  # noqa: PLR0913 - a try, and where it joins
    stores: Stores,
    *,
    writer: str,
    start: Commit,
    done: Commit,
    head: Trees,
    what: str,
    lines: tuple[Commit, Commit],
) -> Trees:
    """Return the trees of a run with what a step has claimed.

    Args:
        stores: The repository.
        writer: The branch of the step.
        start: The commit from which the step started.
        done: The commit at which it ended.
        head: The trees of the run, without the earlier claims of the step.
        what: The step, for the error.
        lines: The heads of the step and of the run, for the error.

    Raises:
        MergeConflictError: Another step has claimed a path with other content since.
    """
    own = Claims(stores.ranges, stores.splitting, claims_of(done)).of(writer)
    claims = Claims(stores.ranges, stores.splitting, head.claims)
    paths = list(own)
    claims.look_up(paths)
    files: dict[bytes, bytes | None] = {}
    conflicts = []
    sides = (
        values_at(stores, tree, paths) for tree in (start.metarange, done.metarange, head.files)
    )
    for path, base, mine, theirs in zip(paths, *sides, strict=True):
        if same_content(mine, theirs):
            mine = theirs  # noqa: PLW2901 - both claim it
        elif not same_content(base, theirs) and claims.is_claimed(path, theirs):
            conflicts.append(RawConflict(path, base, mine, theirs))
        if mine is not theirs:
            files[path] = mine
        if mine is not None or theirs is not None:
            claims.put(writer, path, Claim.of(path, mine, theirs))
    conflicts += map(_unit, _moved_tables(stores, start.metarange, head.files, own))
    if conflicts:
        shown = describe(stores, conflicts[:SHOWN], source=lines[0], dest=lines[1])
        raise conflict_error(what, shown, len(conflicts))
    title = get(stores.ranges, claims_of(done), writer.encode() + b"/")
    claims.put_stored(writer, b"", title)
    return Trees(applied(stores, head.files, files), claims.tree())


def _moved_tables(stores: Stores, left: str, right: str, paths: Iterable[bytes]) -> Iterator[bytes]:
    """Yield the folders of the Delta tables of these paths whose logs differ between two trees."""
    for log in sorted({log for path in paths if (log := log_of(path)) is not None}):
        if next(diff(stores.ranges, left, right, prefix=log), None) is not None:
            yield log.removesuffix(name_of(b"") + b"/")
