"""``python -m tests.bench [part …]``: measure, print the tables, write them to the documentation."""

import os
import platform
import sys
import tempfile
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

from tests.bench.calibration import calibration
from tests.bench.contention import contention
from tests.bench.growth import growth
from tests.bench.iceberg import iceberg
from tests.bench.interference import interference
from tests.bench.keep import keep
from tests.bench.latency import latency
from tests.bench.measure import Result
from tests.bench.network import network
from tests.bench.reads import reads
from tests.bench.runs import runs
from tests.bench.staged_writes import staged_writes
from tests.bench.standing import standing
from tests.bench.startup import startup
from tests.bench.tables import tables
from tests.bench.ui import ui

PARTS: dict[str, Callable[[Path], list[Result]]] = {
    "startup": startup,
    "latency": latency,
    "staged_writes": staged_writes,
    "reads": reads,
    "tables": tables,
    "interference": interference,
    "contention": contention,
    "runs": runs,
    "network": network,
    "growth": growth,
    "standing": standing,
    "keep": keep,
    "ui": ui,
    "iceberg": iceberg,
}
PAGE = Path(__file__).parents[2] / "docs" / "benchmarks.md"
IMAGES = PAGE.parent / "images"
SCALE = "<!-- at scale -->"
"""The mark before the part of the page that ``make bench-scale`` writes."""
INTRODUCTION = """\
# Benchmarks

`make bench` writes this page. `make bench ARGS=growth` runs one part.

The benchmarks use the settings that a user gets, the splitting of trees into ranges included. A
change writes the range that holds its path. This takes the same time in any tree of several ranges, and
less in a tree of one smaller range.
"""
JUDGED = """\
## Judged: counts, and ratios within one run

A ratio compares two things that the same run measures in turns, so that both meet the same noise.
It carries over from machine to machine. A limit leaves room for the spread between runs on an idle
machine; `make bench` fails where a limit does not hold.
"""
REPORTED = """\
## Reported: seconds and rates

They depend on the machine: compare them with the calibration, not with another machine's.
"""
CALIBRATION = """\
## Calibration: this machine without graveler
"""


def judged_table(results: list[Result]) -> str:
    """Return the judged results as a Markdown table."""
    rows = ["| measure | figure | limit | holds | details |", "|---|---|---|---|---|"]
    rows += [
        f"| {r.name} | {r.figure} | {r.limit} | {'yes' if r.holds else '**no**'} | {r.details} |"
        for r in results
        if r.limit
    ]
    return "\n".join(rows) + "\n"


def reported_table(results: list[Result]) -> str:
    """Return the results without a limit as a Markdown table."""
    rows = ["| measure | figure | details |", "|---|---|---|"]
    rows += [f"| {r.name} | {r.figure} | {r.details} |" for r in results if not r.limit]
    return "\n".join(rows) + "\n"


def page(machine: list[Result], results: list[Result]) -> str:
    """Return the page of the documentation."""
    run = (
        f"Last run: {datetime.now(UTC).date().isoformat()}, {os.cpu_count()} cores, "
        f"{platform.system()}, Python {platform.python_version()}, SQLite and local files.\n"
    )
    sections = (
        INTRODUCTION,
        run,
        JUDGED,
        judged_table(results),
        REPORTED,
        reported_table(results),
        CALIBRATION,
        reported_table(machine),
    )
    return "\n".join(sections)


def main(parts: list[str]) -> int:
    """Run the named parts, or all of them; only a run of all parts writes the page."""
    if unknown := sorted(set(parts) - set(PARTS)):
        print(f"no part {unknown}: the parts are {', '.join(PARTS)}", file=sys.stderr)
        return 2
    machine = _measured("calibration", calibration)
    results: list[Result] = []
    for name in parts or PARTS:
        results += _measured(name, PARTS[name])
    print("\n" + page(machine, results))
    if not parts:
        PAGE.write_text(page(machine, results) + _at_scale(), "utf-8")
        print(f"written to {PAGE.relative_to(Path.cwd())}")
    return 0 if all(result.holds for result in results) else 1


def _at_scale() -> str:
    """Return the part of the page that another command writes."""
    _, mark, text = PAGE.read_text("utf-8").partition(SCALE)
    return f"\n{mark}{text}" if mark else ""


def _measured(name: str, part: Callable[[Path], list[Result]]) -> list[Result]:
    print(f"== {name}", flush=True)
    with tempfile.TemporaryDirectory(prefix="graveler-bench-") as folder:
        return part(Path(folder))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
