"""What happened to a table between two trees: snapshots, operations, rows and files, by its metadata alone."""

from collections.abc import Iterable
from dataclasses import dataclass

from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.snapshots import Snapshot

from graveler.model import Change, Entry
from graveler.reads.stores import Stores
from graveler.tables.files import StoreFiles
from graveler.tables.layout import POINTERS

_ROWS = ("added-records", "deleted-records", "total-records")
_FILES = ("added-data-files", "deleted-data-files", "total-data-files")
_DELETES = ("added-delete-files", "removed-delete-files", "total-delete-files")


@dataclass(frozen=True, slots=True)
class TableDifference:
    """The difference of a table, as the summaries of its snapshots tell it.

    Attributes:
        operations: What the new snapshots did, each once, in their order.
        snapshots: How many snapshots the table got, and how many it lost.
        rows: How many rows were added and removed.
        files: How many data and delete files were added and removed.
    """

    operations: list[str]
    snapshots: tuple[int, int]
    rows: tuple[int, int]
    files: tuple[int, int]


def table_difference(stores: Stores, change: Change) -> TableDifference:
    """Return the difference of a table.

    Args:
        change: The change of the table's record.

    Raises:
        GravelerError: Metadata is missing or damaged.
    """
    before, after = (_metadata(stores, side) for side in (change.before, change.after))
    had, has = ([*each.snapshots] if each else [] for each in (before, after))
    known, stay = ({each.snapshot_id for each in side} for side in (had, has))
    new = [each for each in has if each.snapshot_id not in known]
    lost = sum(each.snapshot_id not in stay for each in had)
    if before is not None and after is not None:
        rows, files = _summed(new, [_ROWS]), _summed(new, [_FILES, _DELETES])
    else:
        rows, files = (
            (_total(after, kinds), _total(before, kinds)) for kinds in ([_ROWS], [_FILES, _DELETES])
        )
    operations = [str(each.summary.operation.value) for each in new if each.summary is not None]
    return TableDifference(list(dict.fromkeys(operations)), (len(new), lost), rows, files)


def _metadata(stores: Stores, record: Entry | None) -> TableMetadata | None:
    if record is None:
        return None
    store, key = stores.locate(record.address)
    return StoreFiles(stores).table(POINTERS.decode(store.get(key)))[0]


def _summed(snapshots: Iterable[Snapshot], kinds: list[tuple[str, str, str]]) -> tuple[int, int]:
    added, removed = (
        sum(_number(each, kind[side]) for each in snapshots for kind in kinds) for side in (0, 1)
    )
    return added, removed


def _total(metadata: TableMetadata | None, kinds: list[tuple[str, str, str]]) -> int:
    """Return how many rows or files a table has."""
    head = metadata.current_snapshot() if metadata else None
    return sum(_number(head, kind[2]) for kind in kinds) if head else 0


def _number(snapshot: Snapshot, name: str) -> int:
    text = str(snapshot.summary[name] or "") if snapshot.summary is not None else ""
    return int(text) if text.isdecimal() else 0
