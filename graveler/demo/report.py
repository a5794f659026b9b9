"""The demo's report: one HTML file that needs nothing but a browser."""

from pathlib import Path

from graveler.demo.report_axis import Axis
from graveler.demo.report_graph import draw_graph
from graveler.demo.report_history import History, read_history
from graveler.demo.report_markup import Markup, tag
from graveler.demo.report_ranges import draw_ranges
from graveler.demo.report_runs import runs_table, stopped_hour
from graveler.demo.report_style import STYLE
from graveler.demo.story import DemoResult
from graveler.lake import Repository

__all__ = ["render_report", "write_report"]


def write_report(repository: Repository, result: DemoResult, file: Path) -> Path:
    """Write the report of a demo to `file` and return the file.

    Args:
        repository: The repository that the demo made.
        result: What the demo did.
        file: Where to; replaced if it is there.
    """
    file.write_text(render_report(repository, result), encoding="utf-8")
    return file


def render_report(repository: Repository, result: DemoResult) -> str:
    """Return the report's HTML: no scripts, nothing loaded from elsewhere."""
    history = read_history(repository)
    axis = Axis.of(history.main, result)
    stopped = [run for run in result.runs if run.state != "PUBLISHED"]
    page = tag(
        "html",
        tag(
            "head",
            tag("meta", charset="utf-8"),
            tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
            tag("title", "graveler: the demo's report"),
            tag("style", STYLE),
        ),
        tag(
            "body",
            tag(
                "header",
                tag("h1", "Hours of flights, one commit each"),
                tag("p", _lead(result), class_="lead"),
                tag("div", *_totals(result, history), class_="totals"),
            ),
            tag(
                "main",
                *(stopped_hour(run, result) for run in stopped),
                _graph_section(history, axis, result),
                _ranges_section(history, axis),
                tag(
                    "section",
                    tag("h2", "Runs"),
                    tag(
                        "p",
                        "In the order they were made; the pointer over a mark names its gate.",
                        class_="note",
                    ),
                    runs_table(result),
                ),
            ),
            _footer(result),
        ),
        lang="en",
    )
    return f"<!doctype html>\n{page}\n"


def _lead(result: DemoResult) -> str:
    first, last = (f"{run.hour:%Y-%m-%d}" for run in (result.runs[0], result.runs[-1]))
    days = sorted({f"{run.hour:%B} {run.hour.day}, {run.hour.year}" for run in result.runs})
    when = days[0] if first == last and len(days) == 1 else f"{days[0]} to {days[-1]}"
    return (
        f"Departures from New York, {when}. Each hour was ingested and transformed with Spark on "
        "a branch of its own; gates looked at what main would become; main moved in one step, "
        "or not at all."
    )


def _totals(result: DemoResult, history: History) -> list[Markup]:
    published = [run for run in result.runs if run.state == "PUBLISHED"]
    stopped = len(result.runs) - len(published)
    size = sum(whole for _, whole in history.sizes)
    brought = sum(new for new, _ in history.sizes)
    shown = [
        (f"{len(published):,}", "hours published"),
        (f"{result.flights:,}", f"flights in main, of {result.expected:,} that landed"),
        (f"{stopped:,}", "hour stopped by its gates" if stopped == 1 else "hours stopped"),
        (f"{sum(run.ranges_written for run in published):,}", "ranges written"),
        (f"{sum(run.ranges_reused for run in published):,}", "ranges reused"),
        (f"{1 - brought / size:.0%}" if size else "-", "of the ranges' bytes reused"),
        (f"{result.seconds:.1f} s", f"in all, {result.spark_seconds:.1f} s to start Spark"),
    ]
    return [tag("div", tag("b", value), tag("span", name), class_="total") for value, name in shown]


def _graph_section(history: History, axis: Axis, result: DemoResult) -> Markup:
    return tag(
        "section",
        tag("h2", "Commits"),
        tag(
            "p",
            "From left to right in the order of time. A run forks from main, commits its steps, "
            "and comes back in one merge. The pointer over a commit tells more.",
            class_="note",
        ),
        tag("div", draw_graph(history, axis, result), class_="wide"),
        _legend(
            ("l-main", "main"),
            ("l-run", "a step of a run"),
            ("l-stop", "stopped by a gate"),
            ("l-again", "published by a later attempt"),
        ),
    )


def _ranges_section(history: History, axis: Axis) -> Markup:
    return tag(
        "section",
        tag("h2", "Ranges"),
        tag(
            "p",
            "A tree is a list of ranges, files of sorted entries. Each line is a range, each "
            "column a commit of main. A range is written once and then shared by every commit "
            "that did not touch its paths.",
            class_="note",
        ),
        tag("div", draw_ranges(history, axis), class_="wide"),
        _legend(("l-new", "written for this commit"), ("l-reused", "taken over as it was")),
    )


def _legend(*items: tuple[str, str]) -> Markup:
    return tag(
        "div",
        *(tag("span", tag("i", class_=kind), text) for kind, text in items),
        class_="legend",
    )


def _footer(result: DemoResult) -> Markup:
    verbs = ("log main --first-parent", "show main", "diff main~1 main", "ls main --recursive")
    commands = "\n".join(f"graveler -C {result.lake} {verb}" for verb in verbs)
    return tag("footer", tag("p", "Look for yourself:"), tag("pre", tag("code", commands)))
