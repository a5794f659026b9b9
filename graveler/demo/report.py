"""The report of the demo: one HTML file that needs only a browser, and a table for the terminal."""

import sys
from collections.abc import Sequence
from itertools import groupby
from pathlib import Path
from shlex import quote
from shutil import which
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from rich.console import Console
from rich.table import Table

from graveler.demo.history import History, Lane, RangeLife, read_history
from graveler.demo.story import SYSTEM, DemoResult, HourResult
from graveler.lake import Repository
from graveler.model import Commit


class Dot(NamedTuple):
    """A commit of a run."""

    kind: str
    title: str


class Track(NamedTuple):
    """A run above main, from its fork to its merge."""

    gap: int
    span: int
    kind: str
    dots: list[Dot]
    text: str


def write_report(repository: Repository, result: DemoResult, file: Path) -> Path:
    """Write the report of a demo to `file` and return the file."""
    file.write_text(render_report(repository, result), encoding="utf-8")
    return file


def render_report(repository: Repository, result: DemoResult) -> str:
    """Return the report's HTML, which has no scripts and loads no other files."""
    from jinja2 import PackageLoader

    from graveler.pages.rendering import extended

    history = read_history(repository)
    published = {run.commit: run for run in result.published}
    context: dict[str, Any] = {
        "result": result,
        "history": history,
        "days": _days(result),
        "totals": _totals(result, history),
        "again": {run.key for run in result.stopped},
        "stopped": [(run, _end(run, result)) for run in result.stopped],
        "main": [
            (_main_title(commit, run), run)
            for commit in history.main
            for run in [published.get(commit.id)]
        ],
        "tracks": _tracks(history, result),
        "shares": [*map(_share, history.sizes)],
        "folders": [
            (name, [(life, _range_title(life, history)) for life in lives])
            for name, lives in groupby(history.ranges, _folder)
        ],
    }
    pages = extended(PackageLoader("graveler.demo", "."))
    return pages.get_template("report.html").render(context) + "\n"


def _share(sizes: tuple[int, int]) -> str:
    """Return the picture of the bytes of a tree that were there before, and those that are new."""
    from graveler.pages.drawing import Square, bar

    new, whole = sizes
    reused = f"{whole - new} of {whole} bytes reused"
    parts = [Square("quiet", reused, size=whole - new), Square("new", f"{new} new", size=new)]
    return bar(parts, label=reused, width=36) if whole else ""


def _tracks(history: History, result: DemoResult) -> list[list[Track]]:
    """Return the runs in rows, the upper one first; short ones are low, and no two overlap."""
    rows: list[list[Lane]] = []
    for lane in sorted(history.lanes, key=lambda lane: lane.last - lane.first):
        free = (
            row
            for row in rows
            if all(lane.last < other.first or other.last < lane.first for other in row)
        )
        row = next(free, None)
        if row is None:
            rows.append(row := [])
        row.append(lane)
    stopped = {(run.key, str(run.attempt)): run for run in result.stopped}
    tracks = []
    for row in reversed(rows):
        row.sort(key=lambda lane: lane.first)
        ends = [-1, *(lane.last for lane in row)]
        tracks.append(
            [
                _track(lane, end, len(history.main), stopped)
                for lane, end in zip(row, ends, strict=False)
            ]
        )
    return tracks


def _track(lane: Lane, end: int, columns: int, stopped: dict[tuple[str, str], HourResult]) -> Track:
    dots, text = [], ""
    attempts = [_attempt(commit) for commit in lane.commits]
    for at, commit in enumerate(lane.commits):
        run = stopped.get(attempts[at]) if attempts[at] not in attempts[at + 1 :] else None
        if run is None:
            dots.append(Dot("run-dot", _title(commit)))
        else:
            refused = ", ".join(verdict.gate for verdict in run.verdicts if verdict.refuses)
            text = f"{run.hour:%H:%M} stopped by {refused}; main stays as it is"
            dots.append(Dot("stop-dot", f"{_title(commit)}\nstopped: {run.message}"))
    kind = "lane parked" if lane.last == columns else "lane again" if text else "lane"
    return Track(lane.first - end - 1, lane.last - lane.first + 1, kind, dots, text)


def _attempt(commit: Commit) -> tuple[str, str]:
    return commit.metadata.get("graveler.run", ""), commit.metadata.get("graveler.attempt", "")


def _title(commit: Commit) -> str:
    key, attempt = _attempt(commit)
    of = f" of {key}, attempt {attempt}" if key and key not in commit.message else ""
    return f"{commit.message}{of}\n{commit.id[:12]}, {commit.created:%H:%M:%S} UTC"


def _main_title(commit: Commit, run: HourResult | None) -> str:
    if run is None:
        return _title(commit)
    return (
        f"{_title(commit)}\n{run.rows} flights, attempt {run.attempt}\n"
        f"{run.ranges_written} ranges written, {run.ranges_reused} reused"
    )


def _folder(life: RangeLife) -> str:
    """Return the table that a range begins in: its first folders, up to the year."""
    parts = life.info.min_key.decode(errors="replace").split("/")[:-1]
    digits = (at for at, part in enumerate(parts) if part[:1].isdigit())
    return "/".join(parts[: next(digits, len(parts))]) or "/"


def _range_title(life: RangeLife, history: History) -> str:
    first, last = (key.decode(errors="replace") for key in (life.info.min_key, life.info.max_key))
    count = life.last - life.first + 1
    return (
        f"range {life.info.id.hex()[:12]}: {life.info.count} entries, {life.info.size} bytes\n"
        f"{first}\n… {last}\n"
        f"written for {history.main[life.first].message}, "
        f"in {count} commit{'s' * (count > 1)} of main"
    )


def _days(result: DemoResult) -> str:
    days = sorted({run.hour.date() for run in result.runs})
    texts = [f"{day:%B} {day.day}, {day.year}" for day in (days[0], days[-1])]
    return texts[0] if len(days) == 1 else " to ".join(texts)


def _totals(result: DemoResult, history: History) -> list[tuple[str, str]]:
    stopped = len(result.stopped)
    size = sum(whole for _, whole in history.sizes)
    brought = sum(new for new, _ in history.sizes)
    return [
        (f"{len(result.published):,}", "hours published"),
        (f"{result.flights:,}", f"flights in main, of {result.expected:,} that landed"),
        (f"{stopped:,}", "hour stopped by its gates" if stopped == 1 else "hours stopped"),
        (f"{result.ranges_written:,}", "ranges written"),
        (f"{result.ranges_reused:,}", "ranges reused"),
        (f"{1 - brought / size:.0%}" if size else "-", "of the ranges' bytes reused"),
        (f"{result.seconds:.1f} s", f"in all, {result.spark_seconds:.1f} s to start Spark"),
    ]


def _end(run: HourResult, result: DemoResult) -> str:
    """Return the later fate of an hour that a gate stopped."""
    later = [again for again in result.published if again.key == run.key]
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


def summarize(
    result: DemoResult, report: Path, servers: Sequence[str] = (), *, shown_as: str
) -> None:
    """Print the runs, the stopped hours with the reasons, and the next commands."""
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
    if servers:
        console.print(
            f"{'keep':9}the files were on {len(servers)} servers, which are stopped; start each one again:"
        )
    for address, disk in zip(servers, result.disks, strict=True):
        port, folder = urlsplit(address).port, quote(str(Path(shown_as, "disks", disk.name)))
        console.print(
            f"{'':9}{program} -C {lake} keep serve {SYSTEM} {folder} --port {port}", markup=False
        )
    console.print(f"{'look':9}{program} -C {lake} log main --first-parent", markup=False)
    console.print(f"{'page':9}{program} -C {lake} ui --open", markup=False)


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
    published = result.published
    lines = [
        f"{len(published)} {'hour' if len(published) == 1 else 'hours'} published, {result.flights} of {result.expected} flights in main, "
        f"{result.ranges_written} ranges written and {result.ranges_reused} reused, in {result.seconds:.1f} s "
        f"({result.spark_seconds:.1f} s of them to start Spark)"
    ]
    for run in result.stopped:
        later = [again for again in published if again.key == run.key]
        then = f"; attempt {later[-1].attempt} brought it whole and was published" if later else ""
        lines.append(f"{run.hour:%H:%M} was stopped, main did not move{then}")
        lines += [
            f"  {verdict.gate}: {verdict.reason}" for verdict in run.verdicts if not verdict.passed
        ]
    return lines
