"""The demo's report: one HTML file that needs nothing but a browser."""

from pathlib import Path
from typing import Any

from graveler.demo.history import History, read_history
from graveler.demo.pictures import Axis, draw_graph, draw_ranges, number
from graveler.demo.story import DemoResult, HourResult
from graveler.lake import Repository


def write_report(repository: Repository, result: DemoResult, file: Path) -> Path:
    """Write the report of a demo to `file` and return the file.

    Args:
        repository: The repository that the demo made.
        result: What the demo did.
        file: Path of the report; an existing file is replaced.
    """
    file.write_text(render_report(repository, result), encoding="utf-8")
    return file


def render_report(repository: Repository, result: DemoResult) -> str:
    """Return the report's HTML: no scripts, nothing loaded from elsewhere."""
    from jinja2 import Environment, PackageLoader, StrictUndefined  # noqa: PLC0415 - an extra

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
    """Return what became of an hour that a gate stopped."""
    later = [again for again in result.runs if again.key == run.key and again.state == "PUBLISHED"]
    if not later:
        return "It waits on its branch for a newer attempt."
    after = result.runs[result.runs.index(run) + 1 :]
    meanwhile = sum(other.state == "PUBLISHED" and other.key != run.key for other in after)
    others = f"{meanwhile} later {'hour was' if meanwhile == 1 else 'hours were'}"
    return (
        (f"{others} published meanwhile. " if meanwhile else "")
        + f"Then the hour arrived whole: attempt {later[-1].attempt} replaced what the first "
        f"one had made and brought {later[-1].rows:,} flights into main."
    )
