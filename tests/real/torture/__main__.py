"""Kills of processes, and what was lost: ``python -m tests.real.torture KILLS [DRIVER]``.

``make torture KILLS=1000 DRIVER=sqlite SEED=7`` replays the decisions of a seed, except for the
moments at which a clock kills.
"""

import sys
import tempfile
from argparse import ArgumentParser
from datetime import UTC, datetime
from pathlib import Path

import pytest

from tests.real.torture.databases import DRIVERS, rack
from tests.real.torture.loop import Tally, Torture

HEADS = (
    "driver",
    "cycles",
    "killed",
    "stops",
    "sweeps",
    "begun",
    "acknowledged",
    "found",
    "landed",
    "lost",
)


def table(tallies: dict[str, Tally]) -> str:
    """Return a table of the results for each driver."""
    rows = ["".join(f"{head:>13}" for head in (*HEADS, "seconds"))]
    for driver, t in tallies.items():
        cells = [driver, t.cycles, t.killed, t.disturbed, t.swept, t.operations, t.acknowledged]
        cells += [t.found, t.landed, t.lost, round(t.seconds)]
        rows.append("".join(f"{cell:>13}" for cell in cells))
    return "\n".join(rows)


def main(arguments: list[str]) -> int:
    """Run the torture; return 1 if anything was lost."""
    parser = ArgumentParser(prog="python -m tests.real.torture", description=__doc__)
    parser.add_argument("kills", type=int, nargs="?", default=100, help="of each driver")
    parser.add_argument("driver", nargs="?", choices=DRIVERS, help="this one only")
    parser.add_argument("--seed", default=datetime.now(UTC).strftime("%Y%m%d%H%M%S"))
    given = parser.parse_args(arguments)
    tallies = {}
    for driver in [given.driver] if given.driver else DRIVERS:
        print(f"== {driver}: {given.kills} kills, seed {given.seed}", flush=True)
        with tempfile.TemporaryDirectory(prefix="graveler-torture-") as folder:
            try:
                with rack(driver, Path(folder)) as on:
                    victims = Torture(on.place, given.seed, settle=on.settle, disturb=on.disturb)
                    tallies[driver] = victims.run(given.kills)
            except pytest.skip.Exception as reason:
                print(f"left out: {reason}")
                continue
        if tallies[driver].lost:
            print(tallies[driver].story)
            print(f"replay: make torture KILLS={given.kills} DRIVER={driver} SEED={given.seed}")
    print(table(tallies))
    print(
        "acknowledged: changes that returned to the victims; found: of those, present after the kill;\n"
        "landed: happened without an acknowledgement; lost: cycles after which anything was missing,\n"
        "or present though never written, or the repository not sound"
    )
    return 1 if any(tally.lost for tally in tallies.values()) else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
