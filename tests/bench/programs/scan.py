"""Scan a table by a library's own scan or by graveler's; print the seconds, the peak of memory in KiB, the rows.

The arguments are the lake, the library, ``own`` or ``graveler``, and ``part`` or ``whole``.
"""

import sys
import time
from pathlib import Path

import duckdb
import polars as pl

import graveler
from graveler.frames import source  # noqa: F401 - both ways import the same
from graveler.lake import Ref

COLUMNS = ["id", "a"]
LEAST = 990
TIMES = 5


def own(view: Ref, library: str, part: bool) -> int:
    """Scan the files by the library alone."""
    paths = [uri.removeprefix("file://") for uri in view.uris("t/")]
    if library == "polars":
        lazy = pl.scan_parquet(paths)
        return (
            (lazy.filter(pl.col("c") >= LEAST).select(COLUMNS) if part else lazy).collect().height
        )
    found = duckdb.read_parquet(paths)
    found = found.filter(f"c >= {LEAST}").select(*COLUMNS) if part else found
    return int(found.to_arrow_table().num_rows)


def by_graveler(view: Ref, library: str, part: bool) -> int:
    """Scan the table by graveler."""
    frame = view.scan("t/", library)
    if library == "polars":
        frame = frame.filter(pl.col("c") >= LEAST).select(COLUMNS) if part else frame
        return int(frame.collect().height)
    frame = frame.filter(f"c >= {LEAST}").select(*COLUMNS) if part else frame
    return int(frame.to_arrow_table().num_rows)


def main(lake: str, library: str, way: str, what: str) -> None:
    """Measure one way, after a first call."""
    with graveler.open(lake) as opened:
        view = opened.repository("bench").ref("main")
        scan = own if way == "own" else by_graveler
        rows, seconds = scan(view, library, what == "part"), []
        for _ in range(TIMES):
            start = time.perf_counter()
            scan(view, library, what == "part")
            seconds.append(time.perf_counter() - start)
        status = Path("/proc/self/status").read_text("utf-8")
        peak = status.partition("VmHWM:")[2].split()[0]
        print(min(seconds), peak, rows)


if __name__ == "__main__":
    main(*sys.argv[1:])
