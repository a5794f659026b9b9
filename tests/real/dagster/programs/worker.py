"""A run worker of Dagster that the test kills. Its steps are separate processes."""

import sys

import dagster as dg

from tests.real.dagster.programs.pipelines import plain

if __name__ == "__main__":
    with dg.DagsterInstance.local_temp(sys.argv[1]) as instance:
        dg.execute_job(
            dg.reconstructable(plain),
            instance=instance,
            run_config={"execution": {"config": {"multiprocess": {"max_concurrent": 1}}}},
            tags={"dagster/partition": "x"},
        )
