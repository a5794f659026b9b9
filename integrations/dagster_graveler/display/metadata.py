"""Commits, verdicts, conflicts and runs as Dagster's metadata, of bounded size."""

from collections.abc import Iterable, Mapping
from typing import Any, Final

import dagster as dg

from dagster_graveler.display.plot import plot
from graveler.errors import GateFailedError, MergeConflictError
from graveler.gates import Verdict
from graveler.lake import RunRecord
from graveler_common.changes import Changes, Path
from graveler_common.rows import verdict_row

_LISTED: Final = 50


def change_metadata(changes: Changes | None) -> Mapping[str, Any]:
    """Return counts, a plot by folder and a table of the first paths; None is no change."""
    changes = changes or Changes("", "")
    total = changes.total
    counts = f"{total.added} added, {total.changed} changed, {total.removed} removed"
    totals = {
        "graveler/changes": counts if changes.complete else f"more than {counts}",
        "graveler/files": total.files,
        "graveler/bytes": total.gained,
    }
    if not changes.paths:
        return totals
    folders = sorted(changes.folders, key=lambda folder: folder.path)
    return {
        "graveler/plot": dg.MetadataValue.md(plot(folders, more=not changes.complete)),
        "graveler/diff": _path_table(changes.paths[:_LISTED]),
        **totals,
    }


def _path_table(paths: Iterable[Path]) -> dg.TableMetadataValue:
    return dg.MetadataValue.table(
        [
            dg.TableRecord(
                {"path": each.path, "what": each.kind, "before": each.before, "after": each.after}
            )
            for each in paths
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


def verdict_table(verdicts: Iterable[Verdict]) -> dg.TableMetadataValue:
    """Return verdicts as a table."""
    return dg.MetadataValue.table(
        [dg.TableRecord(verdict_row(verdict)) for verdict in verdicts],
        schema=dg.TableSchema(
            [
                dg.TableColumn("gate"),
                dg.TableColumn("passed", "bool"),
                dg.TableColumn("severity"),
                dg.TableColumn("reason"),
                dg.TableColumn("died", "bool", description="the gate gave no answer"),
                dg.TableColumn("seconds", "float"),
            ]
        ),
    )


def reader_table(readers: Iterable[RunRecord]) -> dg.TableMetadataValue:
    """Return the runs that have read something as a table."""
    return dg.MetadataValue.table(
        [dg.TableRecord({"run": reader.key, "state": str(reader.state)}) for reader in readers],
        schema=dg.TableSchema([dg.TableColumn("run"), dg.TableColumn("state")]),
    )


def error_metadata(error: Exception) -> Mapping[str, Any]:
    """Return the verdicts of a refusal or the paths of a conflict."""
    if isinstance(error, GateFailedError):
        return {"graveler/verdicts": verdict_table(error.verdicts)}
    if isinstance(error, MergeConflictError):
        paths = [conflict.path for conflict in error.conflicts[:_LISTED]]
        return {"graveler/conflicts": dg.MetadataValue.json(paths)}
    return {}


def final_failure(description: str, metadata: Mapping[str, Any] | None = None) -> dg.Failure:
    """Return a failure that Dagster does not retry: a retry would fail again."""
    return dg.Failure(description=description, metadata=metadata, allow_retries=False)
