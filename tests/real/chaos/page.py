"""The failure matrix as a page: each event, the states of the run, and those of main and branch."""

from collections.abc import Iterable
from importlib.metadata import version
from pathlib import Path

from tests.real.chaos.driving import Row

_HEADS = ("event", "what ran", "main", "branch", "next attempt")
_PACKAGES = {"airflow": "apache-airflow", "dagster": "dagster"}


def write(page: Path, orchestrator: str, rows: Iterable[Row]) -> None:
    """Replace the section of an orchestrator in a page, and keep the rest."""
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
    first, *_, last = [*map(_short, row.ran), _short(row.ran[-1])]
    again = f"{last}; main {row.main[-1]}, {row.branch[-1]}" if len(row.ran) > 1 else "—"
    return f"| {row.fate.kind} | {first} | {row.main[0]} | {row.branch[0]} | {again} |"


def _short(ran: str) -> str:
    """Return the tasks that did not succeed at the first try, and whether the run was closed."""
    state, _, tasks = ran.partition(": ")
    told = [task for task in tasks.split(", ") if not task.endswith(" success")]
    closed = [task for task in tasks.split(", ") if task == "close_run success"]
    if told:
        return f"**{state}**: {', '.join(told + closed)}"
    return f"**{state}**: every task that ran: success" if tasks else f"**{state}**: no task"
