"""Hours under chaos: ``python -m tests.real.chaos airflow [HOURS] [--seed N]``.

A check of the lake follows. ``--matrix`` tries every kind of event instead, one hour each, and
writes the results to a page. ``make chaos-airflow SEED=7`` replays the decisions of a seed. The
exact moment of a process's death differs between runs.
"""

import os
import shutil
import sys
import tempfile
from argparse import ArgumentParser, Namespace
from datetime import UTC, datetime
from pathlib import Path

from tests.real.chaos.processes.reaper import end_with_reaper, keep, leash

ORCHESTRATORS = ("airflow", "dagster")


def _parse(arguments: list[str]) -> Namespace:
    parser = ArgumentParser(prog="python -m tests.real.chaos", description=__doc__)
    parser.add_argument("orchestrator", choices=ORCHESTRATORS)
    parser.add_argument("hours", type=int, nargs="?", default=200)
    parser.add_argument("--seed", default=datetime.now(UTC).strftime("%Y%m%d%H%M%S"))
    parser.add_argument("--executor", choices=("celery", "local"), default="celery")
    parser.add_argument("--kinds", default="", help="one hour each of these, by ';'")
    parser.add_argument("--matrix", action="store_true", help="one hour of each kind")
    parser.add_argument("--page", type=Path, help="with --matrix: the page to write it to")
    parser.add_argument("--patience", type=float, default=7200, help="seconds until rest")
    parser.add_argument(
        "--keep", action="store_true", help="leave the folder behind, however it ends"
    )
    parser.add_argument(
        "--leash", action="store_true", help="end when the process that started it ends"
    )
    parser.add_argument("--reaper", type=int, default=0, help="not for you")
    return parser.parse_intermixed_args(arguments)


def main(arguments: list[str]) -> int:
    """Start a reaper with the harness below it; below a reaper, run the harness."""
    given = _parse(arguments)
    if not given.reaper:
        if given.leash:
            leash()
        reaper = ["--reaper", str(os.getpid()), "--seed", given.seed]
        return keep([sys.executable, "-m", "tests.real.chaos", *arguments, *reaper])
    end_with_reaper()
    folder = Path(tempfile.mkdtemp(prefix="graveler-chaos-"))
    wrong = 1
    try:
        # the import takes seconds, and the reaper does not need it
        from tests.real.chaos.running import work

        wrong = work(given, folder)
        return wrong
    finally:
        if given.keep or wrong:
            print(f"left behind, with all its logs: {folder}")
        else:
            shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
