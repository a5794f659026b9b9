"""The claims of a step, and how they are withdrawn before it runs again.

``docs/concepts/runs.md`` has the rules.
"""

from collections.abc import Collection, Iterable

from graveler.committed.claims import Claims, Stack
from graveler.committed.metarange import prefix_end, scan
from graveler.committed.units import log_of, name_of, units_of
from graveler.errors import MergeConflictError
from graveler.reads.stores import Stores
from graveler.repository.borrowed import Hold
from graveler.repository.reconciliation import Trees, applied, keep_bytes, values_at
from graveler.repository.strategies import conflict_of


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
        hold: Keeps the bytes that return, until a branch names the trees.
        fresh: Delete a path whose earlier bytes are gone.
        keeps_tables: Leave the claims of Delta tables as they are.
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
        stack = Stack(claims, path, now)
        stack.withdraw([writer])
        if stack.value is not now:
            files[path] = stack.value
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
