# mypy: ignore-errors
"""Prints what a new process loads for the provider, the plugin and DAG files, and what Airflow finds.

The arguments are DAG files.
"""

import json
import sys
import warnings

warnings.filterwarnings("error", module="graveler")  # Airflow's own warnings are no errors
HEAVY = {
    "boto3",
    "dagster",
    "pandas",
    "polars",
    "pyarrow",
    "pyiceberg",
    "pyspark",
    "rocksdict",
    "typer",
}


def loaded(since):
    return sorted({*sys.modules} - since)


before = set(sys.modules)
from graveler_airflow.get_provider_info import get_provider_info

described = [name for name in loaded(before) if name.startswith(("airflow", "graveler"))]
from importlib import import_module

import_module("airflow.sdk.plugins_manager")
before = set(sys.modules)
import_module("graveler_airflow.plugin")
plugin = loaded(before)

import_module("airflow.sdk")
HEAVY -= {*sys.modules}
from airflow.dag_processing.dagbag import DagBag

dags = {}
for file in sys.argv[1:]:
    bag = DagBag(file, collect_dags=False)
    bag.process_file(bag.dag_folder)
    (dag,) = bag.dags.values() or [None]
    dags[file] = {
        "errors": list(bag.import_errors.values()),
        "edges": sorted([up, task.task_id] for task in dag.tasks for up in task.upstream_task_ids),
        "setups": [task.task_id for task in dag.tasks if task.is_setup],
        "teardowns": [task.task_id for task in dag.tasks if task.is_teardown],
    }
heavy = sorted(HEAVY & {*sys.modules})

from airflow._shared.module_loading import import_string
from airflow.providers_manager import ProvidersManager


def named(value):
    if isinstance(value, dict | list):
        for item in value.values() if isinstance(value, dict) else value:
            yield from named(item)
    elif isinstance(value, str) and value.startswith("graveler_airflow."):
        yield value


paths = [*named(get_provider_info())]
for path in paths:
    try:
        import_module(path)
    except ModuleNotFoundError:
        import_string(path)
manager = ProvidersManager()
fields = manager.provider_configs, manager.hooks
provider = {
    "paths": len(paths) >= 15,
    "known as": manager.providers["graveler"].version,
    "hook": manager.hooks["graveler"].hook_name,
    "links": sorted(link for link in manager.extra_links_class_names if "graveler" in link),
}
results = {"described": described, "plugin": plugin, "dags": dags, "heavy": heavy}
print(json.dumps({**results, "provider": provider}))
