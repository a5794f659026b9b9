"""The failure matrix as a page: every event, what ran, and what became of main and the branch."""

from collections.abc import Iterable
from importlib.metadata import version
from pathlib import Path

from tests.chaos.driving import Row

__all__ = ["section", "write"]

_HEADS = ("event", "what ran", "main", "branch", "next attempt")
_PACKAGES = {"airflow": "apache-airflow", "dagster": "dagster"}


def write(page: Path, orchestrator: str, rows: Iterable[Row]) -> None:
    """Replace the section of an orchestrator in a page; the rest stays."""
    begin, end = f"<!-- {orchestrator} -->\n", f"<!-- /{orchestrator} -->\n"
    before, _, rest = page.read_text("utf-8").partition(begin)
    _, found, after = rest.partition(end)
    if not found:
        raise ValueError(f"{page} has no section {begin.strip()} … {end.strip()}")
    page.write_text(before + begin + section(orchestrator, rows) + end + after, "utf-8")


def section(orchestrator: str, rows: Iterable[Row]) -> str:
    """Return the table of an orchestrator."""
    package = _PACKAGES[orchestrator]
    lines = [
        "",
        f"Seen with {package} {version(package)}.",
        "",
        f"| {' | '.join(_HEADS)} |",
        f"|{' --- |' * len(_HEADS)}",
        *(_line(row) for row in sorted(rows, key=lambda row: row.fate.hour)),
        "",
    ]
    return "\n".join(lines) + "\n"


def _line(row: Row) -> str:
    last = len(row.ran) - 1
    again = f"{row.ran[last]}; main {row.main[last]}, {row.branch[last]}" if last else "—"
    return f"| {row.fate.kind} | {row.ran[0]} | {row.main[0]} | {row.branch[0]} | {again} |"
