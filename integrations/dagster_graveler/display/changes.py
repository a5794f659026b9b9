"""What a commit changed, as Dagster shows it: counts, a table of paths, a plot by folder."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import dagster as dg

from dagster_graveler.display.plot import Bar, plot
from graveler.lake import Repository
from graveler.model import Change, ChangeKind, Commit

__all__ = ["Changes", "change_metadata", "changes_of"]

_COUNTED: Final = 20_000
_SHOWN: Final = 50


@dataclass(slots=True)
class Changes:
    """What differs from a commit's first parent.

    Attributes:
        first: The first paths that differ, in byte order.
        folders: Files added, changed and removed, by folder.
        size: Bytes of what was added or changed.
        more: Whether there was more than was counted.
    """

    first: list[Change] = field(default_factory=list)
    folders: dict[str, dict[ChangeKind, int]] = field(default_factory=dict)
    size: int = 0
    more: bool = False

    def count(self, kind: ChangeKind) -> int:
        """Return how many paths were added, changed or removed."""
        return sum(folder.get(kind, 0) for folder in self.folders.values())


def changes_of(repository: Repository, commit: Commit) -> Changes:
    """Return what the commit changed, seen from its first parent; bounded."""
    if not commit.parents:
        return Changes()
    return _counted(repository.diff(commit.parents[0], commit.id))


def _counted(changes: Iterable[Change]) -> Changes:
    found = Changes()
    for number, change in enumerate(changes):
        if number == _COUNTED:
            found.more = True
            break
        if number < _SHOWN:
            found.first.append(change)
        folder = found.folders.setdefault(change.path.rpartition("/")[0], {})
        folder[change.kind] = folder.get(change.kind, 0) + 1
        found.size += change.after.size if change.after else 0
    return found


def change_metadata(changes: Changes) -> Mapping[str, Any]:
    """Return the changes for Dagster's metadata, of bounded size however many they are."""
    counts = {kind: changes.count(kind) for kind in ChangeKind}
    said = ", ".join(f"{count} {kind}" for kind, count in counts.items())
    totals = {
        "graveler/changes": f"more than {said}" if changes.more else said,
        "graveler/files": sum(counts.values()),
        "graveler/bytes": changes.size,
    }
    if not changes.first:
        return totals
    bars = [
        Bar(folder, *(kinds.get(kind, 0) for kind in ChangeKind))
        for folder, kinds in sorted(changes.folders.items())
    ]
    return {
        "graveler/plot": dg.MetadataValue.md(plot(bars, more=changes.more)),
        "graveler/diff": _table(changes.first),
        **totals,
    }


def _table(changes: Iterable[Change]) -> dg.TableMetadataValue:
    return dg.MetadataValue.table(
        [
            dg.TableRecord(
                {
                    "path": change.path,
                    "what": str(change.kind),
                    "before": change.before.size if change.before else None,
                    "after": change.after.size if change.after else None,
                }
            )
            for change in changes
        ],
        schema=dg.TableSchema(
            [
                dg.TableColumn("path"),
                dg.TableColumn("what"),
                dg.TableColumn("before", "int", description="bytes"),
                dg.TableColumn("after", "int", description="bytes"),
            ]
        ),
    )
