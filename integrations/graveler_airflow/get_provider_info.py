"""The metadata of this provider for Airflow; it imports nothing of Airflow."""

from typing import Any

_INTEGRATION = "Graveler"
_OPERATORS = ("branches", "commits", "files", "gates", "ingestion", "partitions", "runs")


def get_provider_info() -> dict[str, Any]:
    """Return the provider's metadata, for the entry point ``apache_airflow_provider``."""
    return {
        "package-name": "graveler",  # must be the distribution's name
        "name": "Graveler",
        "description": "Git for a data lake: each run on its own branch, main moves in one step",
        "integrations": [{"integration-name": _INTEGRATION, "tags": ["software"]}],
        "hooks": [_modules("graveler_airflow.hook")],
        "operators": [_modules(*(f"graveler_airflow.operators.{name}" for name in _OPERATORS))],
        "sensors": [_modules("graveler_airflow.sensors")],
        "triggers": [_modules("graveler_airflow.triggers")],
        "filesystems": ["graveler_airflow.assets"],
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
                        "description": "Used if a DAG names none",
                        "schema": {"type": ["string", "null"]},
                    },
                    "lease_minutes": {
                        "label": "Lease (minutes)",
                        "description": "A run that is silent for longer counts as dead",
                        "schema": {"type": ["number", "null"], "exclusiveMinimum": 0},
                    },
                    "ttl_days": {
                        "label": "Time to live (days)",
                        "description": "How long a parked run is kept for a newer attempt",
                        "schema": {"type": ["number", "null"], "exclusiveMinimum": 0},
                    },
                },
            }
        ],
        "task-decorators": [
            {"name": "graveler", "class-name": "graveler_airflow.decorators.graveler_task"},
            {
                "name": "graveler_gate",
                "class-name": "graveler_airflow.operators.gates.graveler_gate",
            },
        ],
        "extra-links": [
            "graveler_airflow.links.GravelerCommitLink",
            "graveler_airflow.links.GravelerDiffLink",
            "graveler_airflow.links.GravelerRunLink",
        ],
        "notifications": ["graveler_airflow.notifier.GravelerNotifier"],
        "cli": ["graveler_airflow.cli.commands"],
        "config": {
            "graveler": {
                "description": "Runs of graveler, each on a branch of its own.",
                "options": {
                    "lease_minutes": {
                        "description": (
                            "A run that is silent for longer counts as dead: the next run that "
                            "is opened, or ``airflow graveler reap``, parks it. Running tasks "
                            "renew the lease, so this is the longest time that a DAG run may "
                            "wait between two of its tasks, for a slot or for a retry."
                        ),
                        "version_added": None,
                        "type": "float",
                        "example": "360",
                        "default": "1440",
                    },
                    "ttl_days": {
                        "description": (
                            "How long a failed run is kept, for a newer attempt and for "
                            "inspection; then its branch is removed."
                        ),
                        "version_added": None,
                        "type": "float",
                        "example": "3",
                        "default": "14",
                    },
                },
            }
        },
    }


def _modules(*names: str) -> dict[str, Any]:
    return {"integration-name": _INTEGRATION, "python-modules": list(names)}
