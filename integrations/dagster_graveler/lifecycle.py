"""Sensors that end a graveler run when its Dagster run has ended, and clear up where none does.

They are for order, not for safety: the target moves by publishing alone, and the next run of
the same work takes the branch over whether it was parked or not. But hooks and resources do
not run where a process was killed, and sensors do; and where a whole machine is gone, Dagster
holds its runs for running, and the reaper does not.
"""

from collections.abc import Iterable, Sequence
from typing import Final

import dagster as dg

from dagster_graveler.resource import GravelerResource
from graveler.errors import FencedError, GateFailedError, MergeConflictError
from graveler.gates import Gate
from graveler.gates.gate import Check
from graveler.lake import RunState

__all__ = ["build_lifecycle_sensors", "build_reaper_sensor"]

_REAPED: Final = 200


def build_lifecycle_sensors(
    name: str = "graveler",
    *,
    publish_adhoc: bool = False,
    gates: Iterable[Gate | Check] = (),
    minimum_interval_seconds: int | None = None,
) -> Sequence[dg.SensorDefinition]:
    """Return three sensors: of Dagster runs that failed, were canceled, or did not publish.

    They need the resource ``graveler`` and watch every job of their code location. A run that a
    newer one has taken over is left alone.

    Args:
        name: What their names start with.
        publish_adhoc: Publish what a run made that succeeded without the publishing asset, as
            one does whose assets were picked by hand; otherwise it is parked.
        gates: What such a publish asks.
        minimum_interval_seconds: How often they look; Dagster's default where not given.
    """
    asked = tuple(gates)

    def watch(status: dg.DagsterRunStatus, ending: str, does: str) -> dg.SensorDefinition:
        @dg.run_status_sensor(
            run_status=status,
            name=f"{name}_{does}_{ending}",
            description=f"Sees to the branch of a run that ended {ending}.",
            minimum_interval_seconds=minimum_interval_seconds,
            default_status=dg.DefaultSensorStatus.RUNNING,
        )
        def sensor(context: dg.RunStatusSensorContext, graveler: GravelerResource) -> None:
            reason = f"Dagster run {context.dagster_run.run_id} ended {ending}"
            if message := context.dagster_event.message:
                reason = f"{reason}: {message}"
            # nothing is returned: after a reason to skip Dagster would look at no other run
            context.log.info(_end(graveler, context.dagster_run, reason, does, asked))

        return sensor

    return (
        watch(dg.DagsterRunStatus.FAILURE, "failed", "park"),
        watch(dg.DagsterRunStatus.CANCELED, "canceled", "park"),
        watch(dg.DagsterRunStatus.SUCCESS, "unpublished", "publish" if publish_adhoc else "park"),
    )


def build_reaper_sensor(
    name: str = "graveler_reaper", *, minimum_interval_seconds: int = 300
) -> dg.SensorDefinition:
    """Return the sensor that sets aside runs whose processes are gone, and drops those kept long.

    It needs the resource ``graveler``, and goes by lease and time to live alone: a run whose
    machine died stays started for Dagster, and is parked here once its lease is over.

    Args:
        name: Of the sensor.
        minimum_interval_seconds: How often it looks.
    """

    @dg.sensor(
        name=name,
        description="Parks runs whose lease is over, and drops those parked for long.",
        minimum_interval_seconds=minimum_interval_seconds,
        default_status=dg.DefaultSensorStatus.RUNNING,
    )
    def reaper(context: dg.SensorEvaluationContext, graveler: GravelerResource) -> dg.SkipReason:
        done = graveler.repo().runs.reap(dry_run=False, limit=_REAPED)
        for one in done:
            context.log.info("%s: %s -> %s: %s", one.key, one.from_state, one.to_state, one.reason)
        return dg.SkipReason(f"reaped {len(done)} runs")

    return reaper


def _end(
    graveler: GravelerResource,
    dagster_run: dg.DagsterRun,
    reason: str,
    does: str,
    gates: Iterable[Gate | Check],
) -> str:
    """End the graveler run of a Dagster run, and return what became of it."""
    record = graveler.record(dagster_run)
    if record is None:
        return f"{reason}: it has no branch, or a newer run has taken it over"
    if record.state not in (RunState.OPEN, RunState.PUBLISHING):
        return f"{reason}: run {record.key!r} is {record.state}"
    try:
        run = graveler.run(dagster_run)
        if does == "publish":
            result = run.publish(gates)
            return f"{reason}: published, {run.into} is at {result.commit.id}"
        ended = run.park(reason) if dagster_run.is_success else run.close(reason)
    except (GateFailedError, MergeConflictError) as refusal:
        return f"{reason}: not published, and parked: {refusal}"
    except FencedError as over:
        return f"{reason}: {over}"
    return f"{reason}: run {record.key!r} is {ended.state}"
