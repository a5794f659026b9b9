"""The machine without graveler: the base for the reported seconds."""

import os
import sqlite3
from contextlib import closing
from functools import partial
from hashlib import sha256
from pathlib import Path
from statistics import median

import numpy

from tests.bench.measure import Result, clocked, ms, percentile, progress, reported, timed
from tests.bench.startup import python

SIZE = 64 << 20
ROWS = 1_000_000
SYNCS = 200
TIMES = 5
STEPS = 1_000_000


def calibration(folder: Path) -> list[Result]:
    """Measure a bare interpreter start, a bare SHA-256, a bare fsync and a bare scan."""
    progress("the machine without graveler")
    start = median(clocked(lambda: python(folder / "compiled", "-c", "pass")) for _ in range(TIMES))
    body = os.urandom(SIZE)
    digest = median(timed(lambda: sha256(body).digest()) for _ in range(TIMES))
    syncs = _syncs(folder / "synced")
    scan = _scan(folder / "scanned.sqlite3")
    return [
        reported("start of a bare interpreter", ms(start), "`python -c pass`"),
        reported("SHA-256", f"{SIZE / digest / 1e6:,.0f} MB/s", "64 MiB in memory"),
        reported(
            "fsync",
            f"median {ms(median(syncs))}, p99 {ms(percentile(syncs, 0.99))}",
            f"{SYNCS} new files of 4 KiB",
        ),
        reported("scan", f"{ROWS / scan:,.0f} rows/s", f"{ROWS:,} rows of 200 bytes in SQLite"),
    ]


def random_read() -> float:
    """Return the nanoseconds of a read at a random place of 200 MB, the present speed of the memory."""
    numbers = numpy.arange(25_000_000)
    places = numpy.random.default_rng(1).integers(0, len(numbers), 1_000_000)
    seconds = median(clocked(partial(numbers.take, places)) for _ in range(5))
    return seconds / len(places) * 1e9


def bare_step() -> float:
    """Return the nanoseconds of one step of a bare loop, the present speed of this machine."""

    def loop() -> None:
        total = 0
        for number in range(STEPS):
            total += number

    return median(clocked(loop) for _ in range(TIMES)) / STEPS * 1e9


def _syncs(folder: Path) -> list[float]:
    folder.mkdir()
    block = os.urandom(4096)

    def write(number: int) -> None:
        with (folder / f"{number}").open("wb") as file:
            file.write(block)
            file.flush()
            os.fsync(file.fileno())

    return [clocked(lambda: write(number)) for number in range(SYNCS)]  # noqa: B023 - called now


def _scan(file: Path) -> float:
    value = b"v" * 160
    with closing(sqlite3.connect(file)) as database:
        database.execute("CREATE TABLE kv (key BLOB PRIMARY KEY, value BLOB) WITHOUT ROWID")
        rows = ((b"%040d" % number, value) for number in range(ROWS))
        database.executemany("INSERT INTO kv VALUES (?, ?)", rows)
        database.commit()

        def scan() -> None:
            for _ in database.execute("SELECT key, value FROM kv ORDER BY key"):
                pass

        return median(timed(scan) for _ in range(TIMES))
