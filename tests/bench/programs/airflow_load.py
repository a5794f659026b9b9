"""Loads Airflow's SDK, then a DAG file or the provider, and prints the seconds of both: ``[FILE]``."""

import json
import runpy
import sys
from importlib import import_module
from time import perf_counter

start = perf_counter()
sdk = import_module("airflow.sdk")
loaded = [sdk.DAG, sdk.dag, sdk.task, import_module("airflow.providers.standard.operators.python")]
middle = perf_counter()
if sys.argv[1:]:
    runpy.run_path(sys.argv[1])
else:
    provider = import_module("graveler_airflow")
    loaded += [provider.graveler_run, provider.graveler_task, provider.GravelerHook]
print(json.dumps([middle - start, perf_counter() - middle]))
