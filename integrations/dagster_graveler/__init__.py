"""graveler on Dagster: a Dagster run works on a branch of its own and publishes it behind gates.

Names are loaded when they are first used: ``dagster_graveler.pipes`` serves programs that have
no Dagster.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dagster_graveler.commit_sensor import build_commit_sensor
    from dagster_graveler.component import GravelerComponent
    from dagster_graveler.definitions import graveler_definitions
    from dagster_graveler.gates import graveler_gates
    from dagster_graveler.ingestion import build_ingest_asset, build_ingest_schedule
    from dagster_graveler.io_managers.base import GravelerIOManager
    from dagster_graveler.io_managers.pandas import GravelerPandasIOManager
    from dagster_graveler.io_managers.polars import GravelerPolarsIOManager
    from dagster_graveler.io_managers.spark import GravelerSparkIOManager
    from dagster_graveler.lifecycle import build_lifecycle_sensors, build_reaper_sensor
    from dagster_graveler.publish import build_publish_asset
    from dagster_graveler.resource import GravelerResource
    from dagster_graveler.rollback import build_rollback_job

_HOMES = {
    "GravelerComponent": "component",
    "GravelerIOManager": "io_managers.base",
    "GravelerPandasIOManager": "io_managers.pandas",
    "GravelerPolarsIOManager": "io_managers.polars",
    "GravelerResource": "resource",
    "GravelerSparkIOManager": "io_managers.spark",
    "build_commit_sensor": "commit_sensor",
    "build_ingest_asset": "ingestion",
    "build_ingest_schedule": "ingestion",
    "build_lifecycle_sensors": "lifecycle",
    "build_publish_asset": "publish",
    "build_reaper_sensor": "lifecycle",
    "build_rollback_job": "rollback",
    "graveler_definitions": "definitions",
    "graveler_gates": "gates",
}

__all__ = [
    "GravelerComponent",
    "GravelerIOManager",
    "GravelerPandasIOManager",
    "GravelerPolarsIOManager",
    "GravelerResource",
    "GravelerSparkIOManager",
    "build_commit_sensor",
    "build_ingest_asset",
    "build_ingest_schedule",
    "build_lifecycle_sensors",
    "build_publish_asset",
    "build_reaper_sensor",
    "build_rollback_job",
    "graveler_definitions",
    "graveler_gates",
]


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module 'dagster_graveler' has no attribute {name!r}")
    value = getattr(import_module(f"dagster_graveler.{home}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
