"""``python -m tests.bench [part …]``: measure, print a table, write it to the documentation.

Ratios within one run carry over from machine to machine; seconds do not.
"""

import os
import platform
import sys
import tempfile
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

from tests.bench.beside import beside
from tests.bench.building import building
from tests.bench.changing import changing
from tests.bench.contending import contending
from tests.bench.distant import distant
from tests.bench.growing import growing
from tests.bench.hourly import hourly
from tests.bench.measure import Result
from tests.bench.reading import reading
from tests.bench.running import running
from tests.bench.small import small
from tests.bench.staging import staging
from tests.bench.starting import starting

PARTS: dict[str, Callable[[Path], list[Result]]] = {
    "starting": starting,
    "small": small,
    "staging": staging,
    "reading": reading,
    "beside": beside,
    "building": building,
    "changing": changing,
    "hourly": hourly,
    "contending": contending,
    "running": running,
    "distant": distant,
    "growing": growing,
}
PAGE = Path(__file__).parents[2] / "docs" / "benchmarks.md"


def table(results: list[Result]) -> str:
    """Return the results as a Markdown table."""
    rows = ["| measure | figure | asked for | holds | behind it |", "|---|---|---|---|---|"]
    rows += [
        f"| {r.name} | {r.figure} | {r.bound} | {'yes' if r.holds else '**no**'} | {r.how} |"
        for r in results
    ]
    return "\n".join(rows) + "\n"


def page(results: list[Result]) -> str:
    """Return the page of the documentation."""
    today = datetime.now(UTC).date().isoformat()
    return (
        "# Benchmarks\n\n"
        "Written by `make bench`, which anyone can run; `make bench ARGS=hourly` runs one part.\n"
        "Ratios within one run carry over from machine to machine; seconds do not.\n\n"
        "Settings are those that a user gets. Trees are split by the hashes of paths, into ranges of\n"
        "50,000 entries on average: a change writes the range that holds its path, which takes the same\n"
        "time in any tree of several ranges, and less in one that is a single smaller range.\n\n"
        f"Last run: {today}, {os.cpu_count()} cores, {platform.system()}, "
        f"Python {platform.python_version()}, SQLite and local files.\n\n{table(results)}"
    )


def main(parts: list[str]) -> int:
    """Run the parts named, or all; only a whole run writes the page."""
    if unknown := sorted(set(parts) - set(PARTS)):
        print(f"no part {unknown}: there are {', '.join(PARTS)}", file=sys.stderr)
        return 2
    results: list[Result] = []
    for name in parts or PARTS:
        print(f"== {name}", flush=True)
        with tempfile.TemporaryDirectory(prefix="graveler-bench-") as folder:
            results += PARTS[name](Path(folder))
    print("\n" + table(results))
    if not parts:
        PAGE.write_text(page(results), "utf-8")
        print(f"written to {PAGE.relative_to(Path.cwd())}")
    return 0 if all(result.holds for result in results) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
