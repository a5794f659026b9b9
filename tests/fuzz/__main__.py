"""Fuzzes every decoder in turn for a number of minutes: ``make fuzz``.

::

    python -m tests.fuzz [MINUTES] [SEED]

Exits with 1 if an input ended in an error that is not graveler's, or if a decoder accepted an
altered record that an id or a checksum covers.
"""

import sys
from random import Random
from time import monotonic, time_ns

from tests.fuzz.fuzzing import READING, Tally, fuzz, read_damaged, table
from tests.fuzz.targets import targets

CHUNK = 50


def main(minutes: float = 10, seed: int | None = None) -> int:
    """Fuzz, print the table, and return whether all was well."""
    seed = time_ns() % 1_000_000 if seed is None else seed
    print(f"seed {seed}, {minutes:g} minutes")
    random = Random(seed)
    tallies = [Tally(target.name, target.covered) for target in targets()]
    reading = Tally(READING)
    end = monotonic() + 60 * minutes
    while monotonic() < end:
        for target, tally in zip(targets(), tallies, strict=True):
            for _ in range(CHUNK):
                fuzz(target, tally, random)
        for _ in range(CHUNK):
            read_damaged(reading, random)
    tallies.append(reading)
    print("\n".join(table(tallies)))
    for tally in tallies:
        print("\n".join(tally.failures), end="\n" if tally.failures else "")
    return 0 if all(tally.good for tally in tallies) else 1


if __name__ == "__main__":
    arguments = sys.argv[1:]
    sys.exit(main(float(arguments[0]) if arguments else 10, *map(int, arguments[1:2])))
