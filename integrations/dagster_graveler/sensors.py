"""Sensors that set a run aside when its Dagster run has ended without publishing it.

They are for order, not for safety: the target moves by publishing alone, and the next run of
the same work takes the branch over whether it was parked or not. But hooks and resources do
not run where a process was killed, and sensors do.
"""

from collections.abc import Sequence

import dagster as dg

from dagster_graveler.resource import GravelerResource
from graveler.errors import FencedError

__all__ = ["build_park_sensors"]


def build_park_sensors(
    name: str = "graveler", *, minimum_interval_seconds: int | None = None
) -> Sequence[dg.SensorDefinition]:
    """Return three sensors: of Dagster runs that failed, were canceled, or did not publish.

    They need the resource ``graveler`` and watch every job of their code location. A run that a
    newer one has taken over is left alone.

    Args:
        name: What their names start with.
        minimum_interval_seconds: How often they look; Dagster's default where not given.
    """

    def watch(status: dg.DagsterRunStatus, ending: str) -> dg.SensorDefinition:
        @dg.run_status_sensor(
            run_status=status,
            name=f"{name}_park_{ending}",
            description=f"Sets aside the branch of a run that ended {ending}.",
            minimum_interval_seconds=minimum_interval_seconds,
            default_status=dg.DefaultSensorStatus.RUNNING,
        )
        def sensor(
            context: dg.RunStatusSensorContext, graveler: GravelerResource
        ) -> dg.SkipReason | None:
            reason = f"Dagster run {context.dagster_run.run_id} ended {ending}"
            if message := context.dagster_event.message:
                reason = f"{reason}: {message}"
            return _park(graveler, context.dagster_run, reason)

        return sensor

    return (
        watch(dg.DagsterRunStatus.FAILURE, "failed"),
        watch(dg.DagsterRunStatus.CANCELED, "canceled"),
        watch(dg.DagsterRunStatus.SUCCESS, "unpublished"),
    )


def _park(
    graveler: GravelerResource, dagster_run: dg.DagsterRun, reason: str
) -> dg.SkipReason | None:
    record = graveler.record(dagster_run)
    if record is None:
        return dg.SkipReason("the run had no branch, or a newer one has taken it over")
    try:
        graveler.run(dagster_run).park(reason)
    except FencedError as over:
        return dg.SkipReason(str(over))
    return None
