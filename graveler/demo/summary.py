"""What the demo did, as a table for the terminal."""

import sys
from pathlib import Path
from shlex import quote
from shutil import which

from rich.console import Console
from rich.table import Table

from graveler.demo.story import DemoResult, HourResult


def summarize(result: DemoResult, report: Path, *, shown_as: str) -> None:
    """Print the runs, what was stopped and why, and where to look next.

    Args:
        result: What the demo did.
        report: Where its report is.
        shown_as: The demo's folder as the caller called it.
    """
    console = Console(highlight=False, soft_wrap=True)
    lake = quote(str(Path(shown_as) / result.lake.name))
    console.print(_table(result.runs))
    console.print()
    for line in _story(result):
        console.print(line, markup=False)
    console.print()
    console.print(f"{'report':9}{report}", markup=False)
    # an environment that is not activated has the program off the PATH
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
