"""What Airflow is told of this provider; it imports nothing of Airflow."""

from typing import Any

__all__ = ["get_provider_info"]

_INTEGRATION = "Graveler"


def get_provider_info() -> dict[str, Any]:
    """Return the provider's metadata, as the entry point ``apache_airflow_provider`` asks."""
    return {
        "package-name": "graveler",  # the distribution's name: with another one Airflow stops
        "name": "Graveler",
        "description": "Git for a data lake: each run on its own branch, main moves in one step",
        "integrations": [{"integration-name": _INTEGRATION, "tags": ["software"]}],
        "hooks": [_modules("graveler_airflow.hook")],
        "operators": [_modules("graveler_airflow.operators", "graveler_airflow.partitions")],
        "sensors": [_modules("graveler_airflow.sensors")],
        "triggers": [_modules("graveler_airflow.triggers")],
        "asset-uris": [
            {
                "schemes": ["grav"],
                "handler": "graveler_airflow.assets.sanitize_uri",
                "factory": "graveler_airflow.assets.create_asset",
                "to_openlineage_converter": "graveler_airflow.assets.convert_asset_to_openlineage",
            }
        ],
        "connection-types": [
            {
                "connection-type": "graveler",
                "hook-class-name": "graveler_airflow.hook.GravelerHook",
                "hook-name": "Graveler",
                "ui-field-behaviour": {
                    "hidden-fields": ["schema", "port", "login", "password"],
                    "relabeling": {"host": "Lake"},
                    "placeholders": {"host": "folder of the lake, or a graveler.toml"},
                },
                "conn-fields": {
                    "repo": {
                        "label": "Default repository",
                        "schema": {"type": ["string", "null"]},
                    },
                },
            }
        ],
        "task-decorators": [
            {"name": "graveler", "class-name": "graveler_airflow.decorators.graveler_task"},
            {"name": "graveler_gate", "class-name": "graveler_airflow.gates.graveler_gate"},
        ],
    }


def _modules(*names: str) -> dict[str, Any]:
    return {"integration-name": _INTEGRATION, "python-modules": list(names)}
