# mypy: ignore-errors
"""Loads the plugin without its pages; prints the CPU seconds and the loaded modules."""

import json
import sys
from importlib import import_module
from time import process_time

import_module("airflow.sdk.plugins_manager")
known, begun = set(sys.modules), process_time()
import_module("graveler_airflow.plugin")
seconds = process_time() - begun
print(json.dumps([seconds, sorted({*sys.modules} - known)]))
