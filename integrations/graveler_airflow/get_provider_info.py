"""The metadata of this provider for Airflow; it imports nothing of Airflow."""

from typing import Any

_INTEGRATION = "Graveler"
_OPERATORS = ("branches", "commits", "files", "gates", "ingestion", "partitions", "runs")


def _field(label: str, description: str, kind: str = "string", **schema: Any) -> dict[str, Any]:
    return {
        "label": label,
        "description": description,
        "schema": {"type": [kind, "null"], **schema},
    }


_STORAGE_FIELDS: dict[str, Any] = {
    "storage": _field(
        "Storage",
        "With the URI of a database as lake: s3://bucket/prefix or file:///folder, where new "
        "repositories keep their objects",
    ),
    "aws_conn_id": _field("AWS connection", "Has the keys, the region and the endpoint of S3"),
    "endpoint_url": _field("S3 endpoint", "Of a store other than AWS: https://minio:9000"),
    "region": _field("S3 region", "The worker's, if empty"),
    "access_key": _field("S3 access key", "The worker's AWS settings, if empty"),
    "secret_key": _field("S3 secret key", "Of the access key", format="password"),
    "session_token": _field("S3 session token", "Of temporary keys", format="password"),
    "role_arn": _field("S3 role", "To assume, with these keys or the worker's AWS settings"),
    "external_id": _field("S3 external id", "What the role asks for, if it does"),
    "path_style": _field(
        "S3 bucket in the path", "Not in the host name; set if there is an endpoint", "boolean"
    ),
    "cache": _field("Cache folder", "On each worker; in its user's cache folder, if empty"),
    "cache_max_bytes": _field(
        "Cache size (bytes)", "1 GiB, if empty", "integer", exclusiveMinimum=0
    ),
    "no_progress_seconds": _field(
        "Patience (seconds)",
        "A call on a store that makes no progress ends after it; 30, if empty",
        "number",
        exclusiveMinimum=0,
    ),
}


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
                    "hidden-fields": ["schema", "port"],
                    "relabeling": {"host": "Lake"},
                    "placeholders": {
                        "host": "/folder, /path/graveler.toml, or postgresql://host/database",
                        "login": "of the database",
                        "password": "of the database",
                    },
                },
                "conn-fields": {
                    **_STORAGE_FIELDS,
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
                "name": "graveler_bash",
                "class-name": "graveler_airflow.programs.graveler_bash_task",
            },
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
