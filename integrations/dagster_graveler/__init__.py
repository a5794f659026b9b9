"""graveler on Dagster: a Dagster run works on its own branch, and publishes it if the gates pass.

Names are loaded when they are first used, because ``dagster_graveler.pipes`` must work in programs
without Dagster.
"""

from typing import TYPE_CHECKING

from graveler_common import lazy_names

if TYPE_CHECKING:
    from dagster_graveler.automation import graveler_eager as graveler_eager
    from dagster_graveler.component import GravelerComponent as GravelerComponent
    from dagster_graveler.definitions import graveler_definitions as graveler_definitions
    from dagster_graveler.gates import graveler_gates as graveler_gates
    from dagster_graveler.ingestion import build_ingest_asset as build_ingest_asset
    from dagster_graveler.ingestion import build_ingest_schedule as build_ingest_schedule
    from dagster_graveler.io_managers.base import GravelerIOManager as GravelerIOManager
    from dagster_graveler.io_managers.handlers import TypeHandler as TypeHandler
    from dagster_graveler.jobs import build_maintenance_job as build_maintenance_job
    from dagster_graveler.jobs import build_rollback_job as build_rollback_job
    from dagster_graveler.publish import build_publish_asset as build_publish_asset
    from dagster_graveler.resource import GravelerResource as GravelerResource
    from dagster_graveler.sensors.branches import build_branch_sensor as build_branch_sensor
    from dagster_graveler.sensors.branches import deployment_branch as deployment_branch
    from dagster_graveler.sensors.commits import build_commit_sensor as build_commit_sensor
    from dagster_graveler.sensors.lifecycle import build_lifecycle_hook as build_lifecycle_hook
    from dagster_graveler.sensors.lifecycle import (
        build_lifecycle_sensors as build_lifecycle_sensors,
    )
    from dagster_graveler.sensors.lifecycle import build_reaper_sensor as build_reaper_sensor
    from dagster_graveler.settings import GravelerS3 as GravelerS3
    from dagster_graveler.sources import build_freshness_checks as build_freshness_checks
    from dagster_graveler.sources import build_source_asset as build_source_asset

__getattr__, __dir__, __all__ = lazy_names(__name__, needs="dagster")
