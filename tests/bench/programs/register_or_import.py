"""Register a table of Iceberg, or import a folder; print the seconds and the peak of memory in KiB.

The arguments are the lake, ``register`` or ``import``, the metadata or the folder, and the name of a new
branch.
"""

import sys
import time
from pathlib import Path

import graveler
from graveler.iceberg import GravelerCatalog


def main(lake: str, way: str, source: str, name: str) -> None:
    """Measure one way."""
    with graveler.open(lake) as opened:
        branch = opened.repository("bench").create_branch(name)
        catalog = GravelerCatalog.of(branch)
        catalog.create_namespace("to")
        start = time.perf_counter()
        if way == "register":
            catalog.register_table("to.flights", source)
        else:
            branch.import_(source, "to/flights/")
            branch.commit("an import")
        seconds = time.perf_counter() - start
        status = Path("/proc/self/status").read_text("utf-8")
        print(seconds, status.partition("VmHWM:")[2].split()[0])


if __name__ == "__main__":
    main(*sys.argv[1:])
