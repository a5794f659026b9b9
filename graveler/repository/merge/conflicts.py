"""Conflicts of a merge as data: the entries of each path, and what changed it on each side."""

from collections.abc import Sequence
from typing import Final

from graveler.committed import CONFLICT, RawConflict, Unresolved
from graveler.errors import MergeConflictError
from graveler.model import ChangedBy, Commit, Conflict, Entry
from graveler.records import decode_entry
from graveler.repository.path_history import last_changes
from graveler.repository.stores import Stores

_SHOWN: Final = 5


def describe(
    stores: Stores,
    found: Sequence[RawConflict],
    *,
    source: Commit | None,
    dest: Commit | None,
) -> tuple[Conflict, ...]:
    """Return the conflicts with what is known of them.

    Args:
        stores: The repository.
        found: In key order.
        source: Where the history of the source's side begins; None: it is not looked at.
        dest: The same of the destination's side.
    """
    keys = [conflict.key for conflict in found]
    changes = [{} if side is None else last_changes(stores, side, keys) for side in (source, dest)]
    return tuple(
        Conflict(
            path=conflict.key.decode("utf-8", "backslashreplace"),
            base=_entry(conflict.key, conflict.base),
            source=_entry(conflict.key, conflict.source),
            dest=_entry(conflict.key, conflict.dest),
            bases_disagree=conflict.base is CONFLICT,
            source_change=_changed_by(changes[0].get(conflict.key)),
            dest_change=_changed_by(changes[1].get(conflict.key)),
        )
        for conflict in found
    )


def conflict_error(what: str, conflicts: tuple[Conflict, ...], count: int) -> MergeConflictError:
    """Return the error that names the conflicts; `count` is how many there are."""
    shown = ", ".join(repr(conflict.path) for conflict in conflicts[:_SHOWN])
    more = f" and {count - _SHOWN} more" if count > _SHOWN else ""
    paths = "path was" if count == 1 else "paths were"
    return MergeConflictError(
        f"{what}: {count} {paths} changed differently on both sides ({shown}{more}): "
        "change one side, or merge with strategy source-wins or dest-wins",
        conflicts,
        count,
    )


def _entry(key: bytes, value: bytes | Unresolved | None) -> Entry | None:
    return decode_entry(key, value) if isinstance(value, bytes) else None


def _changed_by(commit: Commit | None) -> ChangedBy | None:
    if commit is None:
        return None
    return ChangedBy(commit.id, commit.metadata.get("graveler.run", ""))
