"""``python -m tests.mutation SEED COUNT [FOLDER …]`` draws faults and runs tests on each.

Each fault is written into a file of this checkout, which is restored afterwards. So run it in a clone, not in
a checkout that you edit. ``--tests`` names the tests; a fault is found if pytest fails or exceeds ``--patience``.
"""

import argparse
import subprocess
import sys
from pathlib import Path

from tests.mutation.drawing import ROOTS, Fault, draw


def found(fault: Fault, tests: list[str], patience: float) -> bool:
    """Run the tests on a fault; return whether one of them fails."""
    path = Path(fault.path)
    source = path.read_text()
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", *tests]
    path.write_text(fault.applied(source))
    try:
        done = subprocess.run(command, capture_output=True, timeout=patience, check=False)
    except subprocess.TimeoutExpired:
        return True
    finally:
        path.write_text(source)
    return done.returncode != 0


def main() -> None:
    """Draw the faults and print each one, and whether the tests find it."""
    parser = argparse.ArgumentParser(prog="python -m tests.mutation", description=__doc__)
    parser.add_argument("seed", type=int)
    parser.add_argument("count", type=int)
    parser.add_argument("below", nargs="*", default=ROOTS, metavar="FOLDER")
    parser.add_argument("--tests", nargs="+", metavar="TESTS")
    parser.add_argument("--patience", type=float, default=900, metavar="SECONDS")
    given = parser.parse_args()
    missed = 0
    for fault in draw(given.seed, given.count, given.below):
        told = fault.described(Path(fault.path).read_text())
        if not given.tests:
            print(told)
            continue
        outcome = "found" if found(fault, given.tests, given.patience) else "NOT FOUND"
        missed += outcome != "found"
        print(f"{outcome:9} {told}", flush=True)
    if given.tests:
        print(f"{given.count - missed} of {given.count} found")


if __name__ == "__main__":
    main()
