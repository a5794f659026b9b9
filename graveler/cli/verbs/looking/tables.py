"""Changes of Iceberg's tables: one line for each table, instead of its files."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from graveler.base.names import path_key
from graveler.cli.output import SIGNS, Output
from graveler.committed.diff import same_content
from graveler.errors import GravelerError
from graveler.model import Change
from graveler.reads.changes import change_of
from graveler.reads.view import find_value
from graveler.tables.layout import ELSEWHERE, POINTER, POINTER_TYPE, check_library

if TYPE_CHECKING:
    from graveler.reads.stores import Stores
    from graveler.reads.view import View

_BESIDE = f"/{ELSEWHERE}/"  # of the folders of a table, the one that comes before its record


@dataclass(frozen=True, slots=True)
class TableChange:
    """A changed table: the change of its record, for all changes below its folder."""

    record: Change
    stores: "Stores"

    @property
    def folder(self) -> str:
        """The folder of the table."""
        return self.record.path.removesuffix(POINTER)


def change_at(views: "Sequence[View]", path: str) -> Change | None:
    """Return the change of a path between two views."""
    key = path_key(path)
    old, new = (find_value(view, key) for view in views)
    return None if same_content(old, new) else change_of(key, old, new)


def folded(
    changes: Iterable[Change], views: "Sequence[View]", wanted: Callable[[str], bool]
) -> Iterator[Change | TableChange]:
    """Yield changes, and one for each table whose record is wanted, too."""
    inside = "/"  # the start of no path
    for change in changes:
        path = change.path
        if path.startswith(inside):
            continue
        record: Change | None = change
        if _BESIDE in path:
            record_path = f"{path.partition(_BESIDE)[0]}/{POINTER}"
            record = change_at(views, record_path) if wanted(record_path) else None
        if record is not None and _is_record(record):
            table = TableChange(record, views[0].repository)
            inside = table.folder
            yield table
        else:
            yield change


def _is_record(change: Change) -> bool:
    sides = (change.before, change.after)
    return change.path.endswith(f"/{POINTER}") and POINTER_TYPE in {
        side.content_type for side in sides if side is not None
    }


def described(out: Output, table: TableChange) -> tuple[dict[str, Any], str]:
    """Return a changed table as JSON and as a line."""
    sign, color = SIGNS[table.record.kind]
    told, text = _told(table.stores, table.record)
    shape = {"path": table.folder, "kind": str(table.record.kind), "table": told}
    return shape, f"{out.style(f'{sign} {table.folder}', color)}  {text}"


def _told(stores: "Stores", record: Change) -> tuple[dict[str, Any], str]:
    """Return the difference of a table as JSON and as text, or why it is not known."""
    try:
        check_library()
        from graveler.tables.differences import table_difference

        found = table_difference(stores, record)
    except GravelerError as error:
        return {"unknown": str(error)}, f"table, whose metadata cannot be read: {error}"
    pairs = {"snapshots": found.snapshots, "rows": found.rows, "files": found.files}
    shape = {name: {"added": more, "removed": less} for name, (more, less) in pairs.items()}
    texts = [
        f"{name}{f' +{more:,}' if more else ''}{f' -{less:,}' if less else ''}"
        for name, (more, less) in pairs.items()
        if more or less
    ]
    operations = found.operations or ["table"]
    text = f"{', '.join(operations)}: {'; '.join(texts) or 'no other snapshots'}"
    return {"operations": found.operations, **shape}, text
