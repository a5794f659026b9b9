# mypy: ignore-errors
"""Loads a DAG file and prints the shape of its DAG: ``FILE``."""

import json
import sys
import warnings
from importlib import import_module
from time import process_time

from airflow.dag_processing.dagbag import DagBag

HEAVY = {"boto3", "dagster", "pandas", "polars", "pyarrow", "pyspark", "rocksdict", "typer"}

# a warning of graveler is an error; Airflow's own warnings are not
warnings.filterwarnings("error", module="graveler")
import_module("airflow.sdk")
HEAVY -= {*sys.modules}
begun = process_time()
import_module("graveler_airflow.run")
import_module("graveler.demo")
seconds = process_time() - begun
bag = DagBag(sys.argv[1], collect_dags=False)
begun = process_time()
bag.process_file(bag.dag_folder)
seconds += process_time() - begun
(dag,) = bag.dags.values()
print(
    json.dumps(
        {
            "errors": list(bag.import_errors.values()),
            "seconds": seconds,
            "edges": sorted(
                [up, task.task_id] for task in dag.tasks for up in task.upstream_task_ids
            ),
            "setups": [task.task_id for task in dag.tasks if task.is_setup],
            "teardowns": [task.task_id for task in dag.tasks if task.is_teardown],
            "heavy": sorted(HEAVY & {*sys.modules}),
        }
    )
)
