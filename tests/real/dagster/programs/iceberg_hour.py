"""Runs hours of the example with tables of Iceberg, one after the other: ``python -m … HOUR…``."""

import sys

import dagster as dg

from tests.real.dagster.programs.flights import ICEBERG, load

job = load(ICEBERG).defs.resolve_job_def("iceberg_job")
with dg.DagsterInstance.ephemeral() as instance:
    for hour in sys.argv[1:]:
        done = job.execute_in_process(instance=instance, partition_key=hour, raise_on_error=False)
        sys.stdout.write(f"{done.success}\n")
