"""``python -m tests.bench.scale [row …]``: measure, print the table, write it to the documentation."""

import argparse
import json
import os
import platform
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from datetime import UTC, datetime
from pathlib import Path

from tests.bench.__main__ import IMAGES, PAGE, SCALE, judged_table, reported_table
from tests.bench.calibration import bare_step, random_read
from tests.bench.measure import Result
from tests.bench.scale.place import Place
from tests.bench.scale.plots import Plot
from tests.bench.scale.rows import ON_SPARK, ROWS, measured

RESULTS = PAGE.with_name("benchmarks.json")
"""The file of the last results of each row."""

_INTRODUCTION = """\
## At scale

`make bench-scale` writes this part. `make bench-scale ARGS='stat hourly'` runs some rows, and takes the
others from the runs before, which are kept in [benchmarks.json](benchmarks.json); `ARGS='--folder DIR'` says
where lakes are kept from run to run, which by default is a folder below the system's temporary one.

The lake holds {entries:,} entries in the settings that a user gets. Its paths are those of an hourly Spark
job, 400 files an hour, and no two entries share an address, a checksum, a size or a time. Each row runs
in processes of its own. Rates of two processes are added by the wall clock.

lakeFS does not run here. Where a row names its rule, the same paths and records are cut into ranges by that
rule with lakeFS's defaults, as `graveler splitting simulate` does it.
"""


def tables(results: list[Result]) -> str:
    """Return the results in Markdown: a table of those that have a limit, and one of the others."""
    parts = []
    if any(result.limit for result in results):
        parts.append(judged_table(results))
    if not all(result.limit for result in results):
        parts.append(reported_table(results))
    return "\n".join(parts)


def section(
    entries: int,
    dates: Sequence[str],
    speeds: Mapping[str, Sequence[float]],
    results: list[Result],
    plots: Mapping[str, str],
) -> str:
    """Return the part of the page.

    Args:
        entries: Number of entries of the large lake.
        dates: Dates of the rows' runs, ISO 8601.
        speeds: Nanoseconds of a step of a bare loop, and of a read of memory, when each row ran.
        results: Results of all rows.
        plots: The titles of all plots by name.
    """
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / (1 << 30)
    run = (
        f"Run {' to '.join(sorted({min(dates), max(dates)}))}, {os.cpu_count()} cores, "
        f"{memory:.0f} GiB of memory, {platform.system()}, Python {platform.python_version()}, "
        "SQLite and local files unless the row says otherwise.\n"
    )
    machine = (
        "Rates and times are those of this machine, whose speed differs from hour to hour. A step of a bare loop "
        "in Python, and a read at a random place of 200 MB in a loop of numpy, took in nanoseconds: "
        f"{', '.join(f'{row} {step:.0f} and {read:.0f}' for row, (step, read) in speeds.items())}.\n"
    )
    images = [f"![{title}](images/bench-{name}.svg)\n" for name, title in plots.items()]
    return "\n".join(
        [
            SCALE,
            _INTRODUCTION.format(entries=entries),
            run,
            tables(results),
            *([machine] if speeds else []),
            *images,
        ]
    )


def _keep(row: str, speed: Sequence[float], results: list[Result], plots: list[Plot]) -> None:
    """Write the results of a row next to the page, and draw its plots."""
    for plot in plots:
        (IMAGES / f"bench-{plot.name}.svg").write_text(plot.svg(), "utf-8")
    kept = json.loads(RESULTS.read_text("utf-8")) if RESULTS.exists() else {}
    kept[row] = {
        "date": datetime.now(UTC).date().isoformat(),
        "bare_ns": [round(each, 1) for each in speed],
        "results": [asdict(result) for result in results],
        "plots": {plot.name: plot.title for plot in plots},
    }
    RESULTS.write_text(json.dumps(kept, indent=1) + "\n", "utf-8")


def _write(entries: int) -> list[str]:
    """Write the page with the results of all rows; return the rows that have not run."""
    kept = json.loads(RESULTS.read_text("utf-8"))
    missing = [name for name in ROWS if name not in kept]
    if not missing:
        rows = [kept[name] for name in ROWS]
        text = section(
            entries,
            [row["date"] for row in rows],
            {name: kept[name]["bare_ns"] for name in ROWS if "bare_ns" in kept[name]},
            [Result(**result) for row in rows for result in row["results"]],
            {name: title for row in rows for name, title in row["plots"].items()},
        )
        before = PAGE.read_text("utf-8").partition(SCALE)[0].rstrip("\n")
        PAGE.write_text(f"{before}\n\n{text}", "utf-8")
    return missing


def main(arguments: list[str]) -> int:
    """Run the named rows, or all of them; write the page when the folder has results of all."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench.scale")
    parser.add_argument(
        "rows", nargs="*", metavar="row", help=f"{', '.join(ROWS)}; or spark: those on Spark"
    )
    folder = Path(tempfile.gettempdir()) / "graveler-scale"
    parser.add_argument("--folder", type=Path, default=folder, help="keeps the lakes")
    defaults = Place(folder, folder)
    parser.add_argument("--entries", type=int, default=defaults.entries)
    parser.add_argument("--hours", type=int, default=defaults.hours)
    given = parser.parse_args(arguments)
    rows = [row for name in given.rows or ROWS for row in (ON_SPARK if name == "spark" else [name])]
    if unknown := sorted(set(rows) - set(ROWS)):
        parser.error(f"no row {unknown}: the rows are {', '.join(ROWS)}")
    place = replace(defaults, folder=given.folder, entries=given.entries, hours=given.hours)
    whole = (place.entries, place.hours) == (defaults.entries, defaults.hours)
    results: list[Result] = []
    for name in rows:
        before = bare_step(), random_read()
        began = time.perf_counter()
        found, drawn = measured(name, place)
        print(f"\n{tables(found)}\n   {time.perf_counter() - began:,.0f} s\n", flush=True)
        results += found
        if whole:
            after = bare_step(), random_read()
            _keep(name, list(map(max, before, after)), found, drawn)
    if not whole:
        print(f"{PAGE} stays as it is: it shows runs of {defaults.entries:,} entries only")
    elif missing := _write(given.entries):
        print(f"{PAGE} stays as it is until these rows have run, too: {', '.join(missing)}")
    else:
        print(f"written to {PAGE}")
    if failing := [result.name for result in results if not result.holds]:
        print(f"{len(failing)} of {len(results)} do not hold: {'; '.join(failing)}")
    return 1 if failing else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
