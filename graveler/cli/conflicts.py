"""Conflicts of a merge, one line each."""

from graveler.cli.output import printable, size_text
from graveler.model import ChangedBy, Conflict, Entry

__all__ = ["conflict_line"]


def conflict_line(conflict: Conflict) -> str:
    """Return the path, what each side has there, and what changed it last."""
    base = "(the bases disagree)" if conflict.bases_disagree else _entry(conflict.base)
    return (
        f"  {printable(conflict.path)}  base {base}  "
        f"source {_entry(conflict.source)}{_change(conflict.source_change)}  "
        f"dest {_entry(conflict.dest)}{_change(conflict.dest_change)}"
    )


def _entry(entry: Entry | None) -> str:
    return "(missing)" if entry is None else size_text(entry.size)


def _change(change: ChangedBy | None) -> str:
    if change is None:
        return ""
    by = f" by {change.commit[:12]}"
    return f"{by} of run {printable(change.run)}" if change.run else by
