"""The report of the demo: one HTML file that needs only a browser, and a table for the terminal."""

import sys
from pathlib import Path
from shlex import quote
from shutil import which
from typing import Any

from rich.console import Console
from rich.table import Table

from graveler.demo.history import History, read_history
from graveler.demo.pictures import Axis, draw_graph, draw_ranges, number
from graveler.demo.story import DemoResult, HourResult
from graveler.lake import Repository


def write_report(repository: Repository, result: DemoResult, file: Path) -> Path:
    """Write the report of a demo to `file` and return the file.

    Args:
        file: Path of the report; an existing file is replaced.
    """
    file.write_text(render_report(repository, result), encoding="utf-8")
    return file


def render_report(repository: Repository, result: DemoResult) -> str:
    """Return the report's HTML, which has no scripts and loads no other files."""
    from jinja2 import Environment, PackageLoader, StrictUndefined

    pages = Environment(
        loader=PackageLoader("graveler.demo", "."), autoescape=True, undefined=StrictUndefined
    )
    pages.filters["number"] = number
    history = read_history(repository)
    axis = Axis.of(history.main, result)
    context: dict[str, Any] = {
        "result": result,
        "history": history,
        "axis": axis,
        "days": _days(result),
        "totals": _totals(result, history),
        "stopped": [(run, _end(run, result)) for run in result.runs if run.state != "PUBLISHED"],
        "graph": draw_graph(history, axis, result),
        "ranges": draw_ranges(history, axis),
    }
    return pages.get_template("report.html").render(context) + "\n"


def _days(result: DemoResult) -> str:
    days = sorted({run.hour.date() for run in result.runs})
    texts = [f"{day:%B} {day.day}, {day.year}" for day in (days[0], days[-1])]
    return texts[0] if len(days) == 1 else " to ".join(texts)


def _totals(result: DemoResult, history: History) -> list[tuple[str, str]]:
    published = [run for run in result.runs if run.state == "PUBLISHED"]
    stopped = len(result.runs) - len(published)
    size = sum(whole for _, whole in history.sizes)
    brought = sum(new for new, _ in history.sizes)
    return [
        (f"{len(published):,}", "hours published"),
        (f"{result.flights:,}", f"flights in main, of {result.expected:,} that landed"),
        (f"{stopped:,}", "hour stopped by its gates" if stopped == 1 else "hours stopped"),
        (f"{sum(run.ranges_written for run in published):,}", "ranges written"),
        (f"{sum(run.ranges_reused for run in published):,}", "ranges reused"),
        (f"{1 - brought / size:.0%}" if size else "-", "of the ranges' bytes reused"),
        (f"{result.seconds:.1f} s", f"in all, {result.spark_seconds:.1f} s to start Spark"),
    ]


def _end(run: HourResult, result: DemoResult) -> str:
    """Return the later fate of an hour that a gate stopped."""
    later = [again for again in result.runs if again.key == run.key and again.state == "PUBLISHED"]
    if not later:
        return "It waits on its branch for a newer attempt."
    after = result.runs[result.runs.index(run) + 1 :]
    meanwhile = sum(other.state == "PUBLISHED" and other.key != run.key for other in after)
    others = f"{meanwhile} later {'hour was' if meanwhile == 1 else 'hours were'}"
    return (
        (f"{others} published meanwhile. " if meanwhile else "")
        + f"Then the hour arrived undamaged: attempt {later[-1].attempt} replaced the files of the "
        f"first one and published {later[-1].rows:,} flights to main."
    )


def summarize(result: DemoResult, report: Path, *, shown_as: str) -> None:
    """Print the runs, the stopped hours with the reasons, and the next commands.

    Args:
        shown_as: The demo's folder as the caller wrote it.
    """
    console = Console(highlight=False, soft_wrap=True)
    lake = quote(str(Path(shown_as) / result.lake.name))
    console.print(_table(result.runs))
    console.print()
    for line in _story(result):
        console.print(line, markup=False)
    console.print()
    console.print(f"{'report':9}{report}", markup=False)
    # the program is not on the PATH if the environment is not activated
    program = "graveler" if which("graveler") else quote(sys.argv[0])
    console.print(f"{'look':9}{program} -C {lake} log main --first-parent", markup=False)


def _table(runs: tuple[HourResult, ...]) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("hour (UTC)")
    table.add_column("state")
    for title in ("attempt", "flights", "ranges new", "reused", "seconds"):
        table.add_column(title, justify="right")
    for run in runs:
        stopped = run.state != "PUBLISHED"
        table.add_row(
            f"{run.hour:%Y-%m-%d %H:%M}",
            "stopped" if stopped else "published",
            str(run.attempt),
            "-" if stopped else str(run.rows),
            "-" if stopped else str(run.ranges_written),
            "-" if stopped else str(run.ranges_reused),
            f"{run.seconds:.1f}",
            style="red" if stopped else "green" if run.attempt > 1 else "",
        )
    return table


def _story(result: DemoResult) -> list[str]:
    published = [run for run in result.runs if run.state == "PUBLISHED"]
    stopped = [run for run in result.runs if run.state != "PUBLISHED"]
    written = sum(run.ranges_written for run in published)
    reused = sum(run.ranges_reused for run in published)
    lines = [
        f"{len(published)} {'hour' if len(published) == 1 else 'hours'} published, {result.flights} of {result.expected} flights in main, "
        f"{written} ranges written and {reused} reused, in {result.seconds:.1f} s "
        f"({result.spark_seconds:.1f} s of them to start Spark)"
    ]
    for run in stopped:
        later = [again for again in published if again.key == run.key]
        then = f"; attempt {later[-1].attempt} brought it whole and was published" if later else ""
        lines.append(f"{run.hour:%H:%M} was stopped, main did not move{then}")
        lines += [
            f"  {verdict.gate}: {verdict.reason}" for verdict in run.verdicts if not verdict.passed
        ]
    return lines
