"""Expiry: the snapshots that a table no longer needs leave its metadata; no byte is deleted.

The entries of the files that no kept snapshot names leave the branch with them. Other branches and
earlier commits keep theirs, and garbage collection deletes the files that nothing keeps.
"""

from collections.abc import Sequence
from datetime import timedelta

from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.refs import SnapshotRefType
from pyiceberg.table.update import RemoveSnapshotsUpdate, TableUpdate
from pyiceberg.utils.properties import property_as_int

from graveler.errors import InvalidInputError
from graveler.repository.branch import Branch
from graveler.tables.layout import Identifier, shown
from graveler.tables.merging.histories import ancestry
from graveler.tables.namespaces import Tables

_AGE = "history.expire.max-snapshot-age-ms"
_COUNT = "history.expire.min-snapshots-to-keep"
_USUAL_AGE = 5 * 24 * 60 * 60 * 1000  # both are Iceberg's
_USUAL_COUNT = 1
_MS = timedelta(milliseconds=1)


def expire(
    branch: Branch,
    tables: Sequence[Identifier] = (),
    *,
    older_than: timedelta | None = None,
    keep: int | None = None,
) -> dict[Identifier, int]:
    """Expire snapshots of tables in one commit.

    A snapshot stays if it is younger than a time, or among the newest of a branch of its table. What a
    branch or a tag of the table names always stays. What is not given is as the table says it, by
    the settings of its branches and its properties, ``history.expire.max-snapshot-age-ms`` (5 days)
    and ``history.expire.min-snapshots-to-keep`` (1).

    Args:
        tables: The tables; all of the branch by default.
        older_than: Keep younger snapshots.
        keep: Keep so many snapshots of each branch of a table. Given alone, their age does not count.

    Returns:
        The number of expired snapshots of each table that had some.

    Raises:
        InvalidInputError: `keep` is less than one.
    """
    if keep is not None and keep < 1:
        raise InvalidInputError(f"keep={keep}: a table keeps one snapshot at least")
    catalog = Tables(branch)
    now = int(branch.repository.clock.now().timestamp() * 1000)
    counts: dict[Identifier, int] = {}

    def updates(table: Identifier, metadata: TableMetadata) -> list[TableUpdate]:
        gone = _expired(metadata, now, older_than, keep)
        counts[table] = len(gone)
        return [RemoveSnapshotsUpdate.model_validate({"snapshot-ids": gone})] if gone else []

    chosen = list(dict.fromkeys(tables)) or catalog.every()
    catalog.revise(chosen, updates, f"expire snapshots of {', '.join(map(shown, chosen))}")
    return {table: count for table, count in counts.items() if count}


def _expired(
    metadata: TableMetadata, now: int, older_than: timedelta | None, keep: int | None
) -> list[int]:
    """Return the ids of the snapshots that expire, oldest first."""
    properties, given = metadata.properties, older_than
    usual = property_as_int(properties, _AGE, _USUAL_AGE) or 0
    age = usual if given is None else given // _MS
    count = property_as_int(properties, _COUNT, _USUAL_COUNT) or _USUAL_COUNT
    kept = {ref.snapshot_id for ref in metadata.refs.values()}
    held: set[int] = set()
    for ref in metadata.refs.values():
        if ref.snapshot_ref_type is not SnapshotRefType.BRANCH:
            continue
        newest = keep or ref.min_snapshots_to_keep or count
        life = (0 if keep else ref.max_snapshot_age_ms or age) if given is None else age
        line = ancestry(metadata, ref.snapshot_id)
        held |= line.keys()
        kept |= {
            each
            for place, (each, snapshot) in enumerate(line.items())
            if place < newest or snapshot.timestamp_ms > now - life
        }
    return [
        each.snapshot_id
        for each in metadata.snapshots
        if each.snapshot_id not in kept
        and (each.snapshot_id in held or each.timestamp_ms <= now - age)
    ]
