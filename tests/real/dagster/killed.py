"""Materializes an hour of the flights in a process that is killed during a write.

By then the first table of the step is staged, the files of the second table are in the storage,
and nothing is committed.
"""

import os
import signal
import sys
from pathlib import Path

import dagster as dg

from graveler.frames.spark import writer
from graveler.frames.spark.writer import settle
from tests.real.dagster.flights import DAG, load

calls = 0


def killing(store, files):
    global calls  # noqa: PLW0603 - counts across calls
    calls += 1
    if calls == 2:
        os.kill(os.getpid(), signal.SIGKILL)
    return settle(store, files)


if __name__ == "__main__":
    home, hour = sys.argv[1:]
    writer.settle = killing  # the module in which `write` looks it up
    defs = load(DAG).defs
    with dg.DagsterInstance.local_temp(home) as instance:
        defs.resolve_job_def("flights_job").execute_in_process(
            instance=instance, partition_key=hour
        )
    Path(home, "survived").touch()
