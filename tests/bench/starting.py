"""How long it takes until something happens."""

import subprocess
import sys
from pathlib import Path

from graveler.committed import Splitting
from tests.bench.lakes import new_repository
from tests.bench.measure import Result, best, progress


def _run(*arguments: str) -> None:
    subprocess.run([sys.executable, *arguments], check=True, stdout=subprocess.DEVNULL)


def starting(folder: Path) -> list[Result]:
    """Measure the import and the quickest command, each in a process of its own."""
    progress("starting")
    lake, repo = new_repository(folder / "starting", "bench", Splitting())
    with lake:
        repo.branch("main").put("a", b"1")
        repo.branch("main").commit("one")
    bare = best(lambda: _run("-c", "pass"), 7)
    imported = best(lambda: _run("-c", "import graveler"), 7) - bare
    command = ("-m", "graveler.cli", "-C", str(folder / "starting"), "log", "-n", "1")
    logged = best(lambda: _run(*command), 7)
    return [
        Result(
            "import graveler",
            f"{imported * 1000:.0f} ms",
            "at most 150 ms",
            imported <= 0.150,
            f"on top of {bare * 1000:.0f} ms for Python itself",
        ),
        Result(
            "graveler log -n 1",
            f"{logged * 1000:.0f} ms",
            "at most 300 ms",
            logged <= 0.300,
            "in all",
        ),
    ]
