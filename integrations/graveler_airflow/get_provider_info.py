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
        "operators": [
            _modules(
                "graveler_airflow.operators",
                "graveler_airflow.operators.partitions",
                "graveler_airflow.ingesting",
            )
        ],
        "sensors": [_modules("graveler_airflow.sensors", "graveler_airflow.ingesting")],
        "triggers": [_modules("graveler_airflow.triggers", "graveler_airflow.ingest_trigger")],
        "filesystems": ["graveler_airflow.filesystem"],
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
                        "description": "Used where a DAG names none",
                        "schema": {"type": ["string", "null"]},
                    },
                    "lease_minutes": {
                        "label": "Lease (minutes)",
                        "description": "A run that is silent for longer counts as dead",
                        "schema": {"type": ["number", "null"], "exclusiveMinimum": 0},
                    },
                    "ttl_days": {
                        "label": "Time to live (days)",
                        "description": "A parked run is kept so long for a newer attempt",
                        "schema": {"type": ["number", "null"], "exclusiveMinimum": 0},
                    },
                },
            }
        ],
        "task-decorators": [
            {"name": "graveler", "class-name": "graveler_airflow.decorators.graveler_task"},
            {"name": "graveler_gate", "class-name": "graveler_airflow.gates.graveler_gate"},
        ],
        "extra-links": [
            "graveler_airflow.lineage.links.GravelerCommitLink",
            "graveler_airflow.lineage.links.GravelerDiffLink",
            "graveler_airflow.lineage.links.GravelerRunLink",
        ],
        "notifications": ["graveler_airflow.notifier.GravelerNotifier"],
        "cli": ["graveler_airflow.cli.commands"],
        "config": {
            "graveler": {
                "description": "Runs on branches of their own, by graveler.",
                "options": {
                    "lease_minutes": {
                        "description": (
                            "A run that gives no sign of life for so long counts as dead: the "
                            "next run that is opened, or ``airflow graveler reap``, sets it "
                            "aside. Working tasks give signs all the time, so this is the "
                            "longest that a DAG run may wait between two of its tasks, for a "
                            "slot or for a retry."
                        ),
                        "version_added": None,
                        "type": "float",
                        "example": "360",
                        "default": "1440",
                    },
                    "ttl_days": {
                        "description": (
                            "A run that failed is kept for so long, for a newer attempt to go "
                            "on from and for a look; then its branch is removed."
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
