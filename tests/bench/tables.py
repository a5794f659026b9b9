"""Lazy frames of a table beside the libraries' own scans of the same files."""

import subprocess
import sys
from itertools import product
from pathlib import Path

import numpy as np
import pyarrow as pa

import graveler
from tests.bench.measure import Result, at_most, ms, progress

FILES = 50
ROWS = 125_000
TURNS = 5
LIMIT = 1.2
PROGRAM = Path(__file__).with_name("programs") / "scan.py"


def tables(folder: Path) -> list[Result]:
    """Compare scans of a table of 50 Parquet files, 200 MB, by polars and DuckDB with and without graveler."""
    lake = folder / "tables"
    with graveler.init(lake) as opened:
        branch = opened.create_repository("bench").branch("main")
        for number in range(FILES):
            branch.write(_rows(number), f"t/{number:02}.parquet")
        branch.commit("a table")
    results = []
    for library, what in product(("polars", "duckdb"), ("part", "whole")):
        results += _compared(str(lake), library, what)
    return results


def _rows(number: int) -> pa.Table:
    random = np.random.default_rng(number)
    columns = {
        "id": np.arange(number * ROWS, (number + 1) * ROWS),
        "a": random.random(ROWS),
        "b": random.random(ROWS),
        "c": random.integers(0, 1000, ROWS),
        "s": random.choice(["UA", "AA", "DL"], ROWS),
        "t": pa.array(random.integers(0, 10**15, ROWS), pa.timestamp("us")),
    }
    return pa.table(columns)


def _compared(lake: str, library: str, what: str) -> list[Result]:
    progress(f"{library}, {what}")
    found: dict[str, list[tuple[float, ...]]] = {"own": [], "graveler": []}
    for _ in range(TURNS):
        for way, measured in found.items():
            command = [sys.executable, str(PROGRAM), lake, library, way, what]
            done = subprocess.run(command, check=True, capture_output=True, text=True)
            measured.append(tuple(map(float, done.stdout.split())))
    (own, own_peak, rows), (seconds, peak, same) = (
        [min(column) for column in zip(*measured, strict=True)] for measured in found.values()
    )
    assert rows == same
    query = {"part": "two columns and a filter", "whole": "all rows"}[what]
    name, reference = f"scan of 200 MB with {library}, {query}", f"{library}'s own scan"
    memory = f"{peak / 1024:.0f} and {own_peak / 1024:.0f} MiB"
    return [
        at_most(
            f"{name}: time",
            seconds / own,
            LIMIT,
            reference,
            f"{ms(seconds)} and {ms(own)}, the least of {TURNS} processes",
        ),
        at_most(f"{name}: peak of memory", peak / own_peak, LIMIT, reference, memory),
    ]
