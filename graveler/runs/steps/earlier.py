"""The earlier work of a step: the commits with which it joined, and how it is withdrawn.

The claims of a branch tell what a step wrote. ``docs/concepts/runs.md`` has the rules.
"""

import logging
from collections.abc import Collection, Iterable, Iterator

from graveler.committed.claims import Claims, Stack, claims_of, title_of
from graveler.committed.diff import record_diff
from graveler.committed.metarange import EMPTY_METARANGE, prefix_end, scan
from graveler.committed.units import log_of, name_of, units_of
from graveler.errors import MergeConflictError
from graveler.model import Commit
from graveler.reads.stores import Stores
from graveler.refs.history import is_ancestor
from graveler.repository.reconciliation import Trees, applied, keep_bytes, trees_of, values_at
from graveler.repository.strategies import conflict_of
from graveler.repository.tables import places_of, undone_tables
from graveler.repository.writes.borrowed import Hold
from graveler.runs.record import RunRecord

WORK = "graveler.step_work"
"""Metadata of a commit that joins a step: what identifies its work; "" if it wrote nothing."""
_ENDS = ("graveler.step_base", "graveler.step_head")
_log = logging.getLogger(__name__)


def own_steps(stores: Stores, start: str, *, key: str) -> Iterator[tuple[str, Commit]]:
    """Yield steps and the commits with which they joined, newest first.

    It reads only the run's own commits, from `start` backwards.
    """
    commit = stores.refs.commits.find(start)
    while commit is not None:
        metadata = commit.metadata
        if metadata.get("graveler.run") != key or "graveler.published" in metadata:
            return
        if "graveler.step" in metadata:
            yield metadata["graveler.step"], commit
        commit = stores.refs.commits.find(commit.parents[0]) if commit.parents else None


def find_step(stores: Stores, head: str, *, key: str, step: str) -> Commit | None:
    """Return the commit with which the step last joined the run, or None."""
    own = own_steps(stores, head, key=key)
    return next((commit for name, commit in own if name == step), None)


def work_id(stores: Stores, commit: Commit, writer: str) -> str:
    """Return what identifies the work of a step that stands at a commit; "" for none."""
    title = title_of(stores.ranges, claims_of(commit), writer)
    return "" if title is None else title.hex()


def earlier_join(
    stores: Stores, record: RunRecord, fork: Commit, writer: str, step: str
) -> Commit | None:
    """Return the commit with which the work of the step that stands at the fork joined.

    Only claims decide what is withdrawn. This commit is for readers. If the record no longer has
    the publish, the fork represents it.
    """
    joined = find_step(stores, fork.id, key=record.key, step=step)
    if joined is not None:
        return joined
    work = work_id(stores, fork, writer)
    for head in reversed(record.heads):
        joined = find_step(stores, head, key=record.key, step=step)
        if joined is not None and WORK not in joined.metadata:
            return joined if is_ancestor(stores.refs.commits, head, fork.id) else None
        if work and joined is not None and joined.metadata[WORK] == work:
            return joined
    return fork if work else None


def undone(
    stores: Stores,
    head: Commit,
    writer: str,
    earlier: Commit | None,
    hold: Hold,
    **how: bool,
) -> Trees:
    """Return the trees of a commit with the work of a step withdrawn; see `_without`."""
    trees = trees_of(head)
    if earlier is None or WORK in earlier.metadata or "graveler.step" not in earlier.metadata:
        joined = earlier if earlier and "graveler.step" in earlier.metadata else None
        left = joined.metarange if joined else EMPTY_METARANGE
        return _without(stores, trees, writer, hold, left, **how)
    # joined by a version without claims, which kept the trees before and after the work
    ends = (stores.refs.commits.find(earlier.metadata.get(end, "")) for end in _ENDS)
    base, done = (None if end is None else end.metarange for end in ends)
    if base is None or done is None:
        _log.warning("step %r: earlier work is no longer known", earlier.metadata["graveler.step"])
        return trees
    rows = list(record_diff(stores.ranges, base, done))
    now = values_at(stores, trees.files, [row.key for row in rows])
    files = {
        row.key: row.left_value
        for row, value in zip(rows, now, strict=True)
        if value == row.right_value
    }
    return Trees(applied(stores, trees.files, files), trees.claims)


def _without(
    stores: Stores,
    trees: Trees,
    writer: str,
    hold: Hold,
    done: str,
    *,
    fresh: bool = False,
    keeps_tables: bool = False,
) -> Trees:
    """Return the trees with the claims of a step withdrawn. A path that others changed stays."""
    claims = Claims(stores.ranges, stores.splitting, trees.claims)
    own = claims.of(writer)
    tables = units_of(log for path in own if (log := log_of(path)) is not None)
    if keeps_tables:
        kept = (*tables, *places_of(own))
        paths = [path for path in own if not path.startswith(kept)]
    else:
        paths = list(own)
        _check_tables(stores, trees.files, own, tables)
    claimed = {path: own[path] for path in paths}
    claims.look_up(paths)
    files: dict[bytes, bytes | None] = {}
    for path, now in zip(paths, values_at(stores, trees.files, paths), strict=True):
        stack = Stack(claims, path, now)
        stack.withdraw([writer])
        if stack.value is not now:
            files[path] = stack.value
    for place, values in undone_tables(stores, trees.files, writer, claimed, files, done):
        files = {path: value for path, value in files.items() if not path.startswith(place)}
        files |= values
    if len(paths) == len(own):
        claims.put_stored(writer, b"", None)
    if any(files.values()):
        keep_bytes(stores, files, hold, fresh=fresh)
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
                (conflict_of(name_of(table), None, None, None),),
                1,
            )
