"""Commits, verdicts, conflicts and runs as Dagster's metadata, of bounded size."""

import inspect
from base64 import b64encode
from collections.abc import Iterable, Iterator, Mapping, Sequence
from html import escape
from typing import Any

import dagster as dg
from dagster._utils.warnings import disable_dagster_warnings

from graveler.errors import GateFailedError, GravelerError, MergeConflictError
from graveler.gates import Verdict
from graveler.gates.gate import Gate
from graveler.lake import RunRecord
from graveler_common.failures import is_final
from graveler_common.history import Changes, Folder, verdict_row

_LISTED = 50

_ROWS = 12
_NAME = 44
_LEFT, _WIDE, _ROW, _TOP = 330, 300, 22, 30
_COLORS = {"added": "#2e9e5b", "changed": "#d9a514", "removed": "#cf4b3f"}
_FONT = "font-family='ui-monospace,Menlo,monospace' font-size='12'"


def change_metadata(changes: Changes | None) -> Mapping[str, Any]:
    """Return counts, a plot by folder and a table of the first paths; None means no change."""
    changes = changes or Changes("", "")
    total = changes.total
    if not total.files and changes.complete:
        return {"graveler/changes": "none: the target had all of it", "graveler/files": 0}
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
        "graveler/diff": _table(
            (
                {"path": path.path, "what": path.kind, "before": path.before, "after": path.after}
                for path in changes.paths[:_LISTED]
            ),
            dg.TableColumn("path"),
            dg.TableColumn("what"),
            dg.TableColumn("before", "int", description="bytes"),
            dg.TableColumn("after", "int", description="bytes"),
        ),
        **totals,
    }


def code_references(gates: Iterable[Gate]) -> Mapping[str, Any]:
    """Return Dagster's references to the functions of gates."""
    with disable_dagster_warnings():
        references = [reference for gate in gates for reference in _code_of(gate)]
        if not references:
            return {}
        return {
            "dagster/code_references": dg.CodeReferencesMetadataValue(code_references=[*references])
        }


def _code_of(gate: Gate) -> Iterator[dg.LocalFileCodeReference]:
    check = inspect.unwrap(gate.check)
    try:
        file, (_, line) = inspect.getsourcefile(check), inspect.getsourcelines(check)
    except (TypeError, OSError):  # not a function, or a function without a file
        return
    if file:
        yield dg.LocalFileCodeReference(file_path=file, line_number=line, label=f"gate {gate.name}")


def as_value(value: Any) -> Any:
    """Return a value of a record as Dagster's metadata."""
    return value if isinstance(value, int | float | str) else dg.MetadataValue.json(value)


def verdict_table(verdicts: Iterable[Verdict]) -> dg.TableMetadataValue:
    """Return verdicts as a table."""
    return _table(
        map(verdict_row, verdicts),
        dg.TableColumn("gate"),
        dg.TableColumn("passed", "bool"),
        dg.TableColumn("severity"),
        dg.TableColumn("reason"),
        dg.TableColumn("died", "bool", description="the gate gave no answer"),
        dg.TableColumn("seconds", "float"),
    )


def reader_table(readers: Iterable[RunRecord]) -> dg.TableMetadataValue:
    """Return a table of runs that have read the files of a run."""
    return _table(
        ({"run": reader.key, "state": str(reader.state)} for reader in readers),
        dg.TableColumn("run"),
        dg.TableColumn("state"),
    )


def _table(rows: Iterable[Mapping[str, Any]], *columns: dg.TableColumn) -> dg.TableMetadataValue:
    records = [dg.TableRecord(dict(row)) for row in rows]
    return dg.MetadataValue.table(records, schema=dg.TableSchema(list(columns)))


def failure_of(
    error: GravelerError, metadata: Mapping[str, Any] | None = None, *, run: str = ""
) -> dg.Failure:
    """Return an error as a failure, which allows a retry only if a retry may help.

    It shows the verdicts of a refusal or the paths of a conflict.
    """
    shown, hint = dict(metadata or {}), ""
    if isinstance(error, GateFailedError):
        shown["graveler/verdicts"] = verdict_table(error.verdicts)
    if isinstance(error, MergeConflictError):
        paths = [conflict.path for conflict in error.conflicts[:_LISTED]]
        shown["graveler/conflicts"] = dg.MetadataValue.json(paths)
        hint = (
            "; launch all steps again, which starts from the target as it is, or give up the run's "
            f"work: `graveler run abandon {run!r}`"
        )
    return dg.Failure(f"{error}{hint}", metadata=shown, allow_retries=not is_final(error))


def final_failure(description: str, metadata: Mapping[str, Any] | None = None) -> dg.Failure:
    """Return a failure that Dagster does not retry, because a retry would fail again."""
    return dg.Failure(description=description, metadata=metadata, allow_retries=False)


def plot(folders: Sequence[Folder], *, more: bool = False) -> str:
    """Return Markdown with an image: one bar for each of the largest folders, coloured by kind."""
    bars = _largest(folders)
    longest = max((folder.files for folder in bars), default=1) or 1
    width, height = _LEFT + _WIDE + 60, _TOP + _ROW * len(bars) + (20 if more else 6)
    shapes = [_rect(0, 0, width, height, "#ffffff")]
    for number, (kind, color) in enumerate(_COLORS.items()):
        left = _LEFT + number * 96
        shapes += [_rect(left, 8, 10, 10, color), _text(left + 15, 17, kind)]
    for number, folder in enumerate(bars):
        top, end, name = _TOP + number * _ROW, float(_LEFT), folder.path or "/"
        short = name if len(name) <= _NAME else f"…{name[1 - _NAME :]}"
        shapes.append(_text(_LEFT - 8, top + 13, short, anchor="end"))
        for kind, color in _COLORS.items():
            if wide := _WIDE * getattr(folder, kind) / longest:
                shapes.append(_rect(end, top + 2, max(wide, 1.5), _ROW - 7, color))
                end += wide
        shapes.append(_text(round(end) + 6, top + 13, str(folder.files)))
    if more:
        shapes.append(_text(8, height - 6, "… and more that were not counted"))
    size = f"width='{width}' height='{height}'"
    drawing = f"<svg xmlns='http://www.w3.org/2000/svg' {size}>{''.join(shapes)}</svg>"
    encoded = b64encode(drawing.encode()).decode()
    return f"![files changed, by folder](data:image/svg+xml;base64,{encoded})"


def _largest(folders: Sequence[Folder]) -> Sequence[Folder]:
    if len(folders) <= _ROWS:
        return folders
    largest = sorted(folders, key=lambda folder: -folder.files)[: _ROWS - 1]
    rest = [folder for folder in folders if folder not in largest]
    counts = (sum(getattr(folder, kind) for folder in rest) for kind in _COLORS)
    kept = [folder for folder in folders if folder in largest]
    return [*kept, Folder(f"{len(rest)} other folders", *counts)]


def _rect(left: float, top: float, width: float, height: float, color: str) -> str:
    size = f"width='{width:.1f}' height='{height}'"
    return f"<rect x='{left:.1f}' y='{top}' {size} fill='{color}'/>"


def _text(x: int, y: int, text: str, *, anchor: str = "start") -> str:
    # XML has no control characters, not even escaped
    shown = escape("".join(letter if letter.isprintable() else "\ufffd" for letter in text))
    return f"<text x='{x}' y='{y}' text-anchor='{anchor}' fill='#333333' {_FONT}>{shown}</text>"
