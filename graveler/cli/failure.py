"""Errors on the command line: one line, an exit code, and JSON for programs."""

import sys
import traceback
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from graveler.cli.output import complain, styled, to_json
from graveler.config import environment
from graveler.display import size_text
from graveler.errors import (
    GateFailedError,
    GravelerError,
    InvalidInputError,
    MergeConflictError,
)
from graveler.lake.shapes import shape_of_error
from graveler.model import ChangedBy, Conflict, Entry

if TYPE_CHECKING:
    from graveler.gates import Verdict

DONE = 0
ERROR = 1
USAGE = 2
CONFLICT = 3
GATE = 4
INTERRUPTED = 130
_ICEBERG = "pyiceberg.exceptions"  # what its catalogs raise, by name: it may be missing
_REFUSED = " was refused: "


class UsageError(InvalidInputError):
    """The arguments of the command are not valid for any lake."""


def report(error: Exception, *, as_json: bool, debug: bool) -> int:
    """Write the error to the standard error stream; return the exit code."""
    if debug:
        complain(*"".join(traceback.format_exception(error)).splitlines())
    if as_json:
        complain(to_json({"error": shape_of_error(error, _message(error))}))
    else:
        complain(*_lines(error))
    return _exit_code(error)


def report_interrupt(error: KeyboardInterrupt, *, as_json: bool) -> int:
    """Write the work done before Ctrl-C to the standard error stream; return the exit code."""
    message = "; ".join(["interrupted", *getattr(error, "__notes__", ())])
    shape = {"error": {"code": "interrupted", "message": message}}
    complain(to_json(shape) if as_json else f"error: {message}")
    return INTERRUPTED


def _exit_code(error: Exception) -> int:
    if isinstance(error, UsageError):
        return USAGE
    if isinstance(error, MergeConflictError):
        return CONFLICT
    if isinstance(error, GateFailedError):
        return GATE
    return ERROR


def _message(error: Exception) -> str:
    if isinstance(error, GravelerError) or type(error).__module__ == _ICEBERG:
        return str(error)
    # the text of other errors, especially Spark's, may be a stack trace
    first = next(iter(str(error).splitlines()), "")
    return f"{type(error).__name__}: {first} (--debug shows where)"


def _lines(error: Exception) -> list[str]:
    color = sys.stderr.isatty() and not environment("NO_COLOR")
    message = _message(error)
    if isinstance(error, GateFailedError) and error.verdicts and _REFUSED in message:
        message = message.partition(_REFUSED)[0] + " was refused"  # the reasons follow by gate
    line = "error: " + " ".join(message.splitlines())
    lines = [styled(line, "red") if color else line]
    if isinstance(error, MergeConflictError):
        lines += map(conflict_line, error.conflicts)
    if isinstance(error, GateFailedError):
        lines += [line for verdict in error.verdicts for line in verdict_lines(verdict)]
    return lines


def verdict_lines(verdict: "Verdict") -> list[str]:
    """Return a gate and whether the candidate passed, or why and where it did not."""
    place = f" ({verdict.facts['at']})" if "at" in verdict.facts else ""
    said = "passed" if verdict.passed else f"{verdict.reason or 'refused'}{place}"
    first, *more = said.splitlines()
    trace = verdict.facts.get("traceback", ())
    return [f"  {verdict.gate}: {first}", *(f"    {line}" for line in (*more, *trace))]


def fact_rows(verdict: "Verdict") -> Iterator[str]:
    """Yield the facts that are mappings: the name of each, then its rows."""
    for fact, rows in verdict.facts.items():
        if isinstance(rows, Mapping):
            yield f"{fact}:"
            yield from (f"  {f'{name}: {value}'}" for name, value in rows.items())


def conflict_line(conflict: Conflict) -> str:
    """Return the path, its version on each side, and the commits that changed it last."""
    sides = (conflict.base, conflict.source, conflict.dest)
    if not conflict.bases_disagree and all(entry is None for entry in sides):
        return f"  {conflict.path}  a table that both sides changed: take one side of it"
    base = "(the bases disagree)" if conflict.bases_disagree else _entry(conflict.base)
    return (
        f"  {conflict.path}  base {base}  "
        f"source {_entry(conflict.source)}{_change(conflict.source_change)}  "
        f"dest {_entry(conflict.dest)}{_change(conflict.dest_change)}"
    )


def _entry(entry: Entry | None) -> str:
    return "(missing)" if entry is None else size_text(entry.size)


def _change(change: ChangedBy | None) -> str:
    if change is None:
        return ""
    by = f" by {change.commit[:12]}"
    return f"{by} of run {change.run}" if change.run else by
