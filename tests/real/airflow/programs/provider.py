# mypy: ignore-errors
"""Prints what Airflow reads from the provider."""

import json
import sys
import warnings

warnings.filterwarnings("error", module="graveler")
before = set(sys.modules)
from graveler_airflow.get_provider_info import get_provider_info

loaded = set(sys.modules) - before
from importlib import import_module

from airflow._shared.module_loading import import_string
from airflow.providers_manager import ProvidersManager
from airflow.sdk import task
from airflow.sdk.configuration import conf

import graveler_airflow
from graveler.gates import Gate


def named(value):
    if isinstance(value, dict):
        for item in value.values():
            yield from named(item)
    elif isinstance(value, list):
        for item in value:
            yield from named(item)
    elif isinstance(value, str) and value.startswith("graveler_airflow."):
        yield value


def loadable(path):
    try:
        import_module(path)
    except ModuleNotFoundError:
        import_string(path)
    return path


info = get_provider_info()
paths = [loadable(path) for path in named(info)]
hook = import_string(info["connection-types"][0]["hook-class-name"])
manager = ProvidersManager()
fields = manager.provider_configs, manager.hooks
print(
    json.dumps(
        {
            "loaded": sorted(name for name in loaded if name.startswith(("airflow", "graveler"))),
            "paths": len(paths) >= 15,
            "known as": manager.providers["graveler"].version,
            "hook": manager.hooks["graveler"].hook_name,
            "same": [hook.conn_type, hook.hook_name],
            "gate": isinstance(task.graveler_gate(lambda candidate: True), Gate),
            "exports": [
                name for name in graveler_airflow.__all__ if not hasattr(graveler_airflow, name)
            ],
            "config": [conf.get("graveler", "lease_minutes"), conf.get("graveler", "ttl_days")],
            "links": sorted(link for link in manager.extra_links_class_names if "graveler" in link),
        }
    )
)
