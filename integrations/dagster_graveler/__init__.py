"""graveler on Dagster: a Dagster run works on a branch of its own and publishes it behind gates."""

from dagster_graveler.definitions import graveler_definitions
from dagster_graveler.gates import graveler_gates
from dagster_graveler.io_manager import GravelerIOManager, GravelerSparkIOManager
from dagster_graveler.publish import build_publish_asset
from dagster_graveler.resource import GravelerResource
from dagster_graveler.sensors import build_park_sensors

__all__ = [
    "GravelerIOManager",
    "GravelerResource",
    "GravelerSparkIOManager",
    "build_park_sensors",
    "build_publish_asset",
    "graveler_definitions",
    "graveler_gates",
]
