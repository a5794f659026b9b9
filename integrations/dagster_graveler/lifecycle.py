"""Sensors that end a graveler run when its Dagster run has ended, and clear up where none does.

They are for order, not for safety: the target moves by publishing alone, and the next run of
the same work takes the branch over whether it was parked or not. But hooks and resources do
not run where a process was killed, and sensors do; and where a whole machine is gone, Dagster
holds its runs for running, and the reaper does not.
"""

from collections.abc import Collection, Iterable, Sequence
from typing import Final

import dagster as dg

from dagster_graveler.resource import GravelerResource
from dagster_graveler.run.publish_guard import check_written
from graveler.errors import FencedError, GateFailedError, MergeConflictError, RunStateError
from graveler.gates import Gate
from graveler.gates.gate import Check
from graveler.lake import Run, RunState

__all__ = ["build_lifecycle_sensors", "build_reaper_sensor"]

_REAPED: Final = 200


def build_lifecycle_sensors(
    name: str = "graveler",
    *,
    publish_adhoc: bool = False,
    gates: Iterable[Gate | Check] = (),
    assets: Iterable[dg.AssetKey] | None = None,
    minimum_interval_seconds: int | None = None,
) -> Sequence[dg.SensorDefinition]:
    """Return three sensors: of Dagster runs that failed, were canceled, or did not publish.

    They need the resource ``graveler`` and watch every job of their code location. A run that a
    newer one has taken over is left alone, and so is one that makes other assets only.

    Args:
        name: What their names start with.
        publish_adhoc: Publish what a run made that succeeded without the publishing asset, as
            one does whose assets were picked by hand; otherwise it is parked.
        gates: What such a publish asks.
        assets: Those that the gates are for: a run that makes any other is not published, but
            parked. All that there are where not given.
        minimum_interval_seconds: How often they look; Dagster's default where not given.
    """
    asked = tuple(gates)
    ours = None if assets is None else frozenset(assets)

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
            made = _assets_of(context.instance, context.dagster_run)
            if ours is not None and made and ours.isdisjoint(made):
                said = "it makes assets of another pipeline"
            else:
                whole = ours is None or (made and ours.issuperset(made))
                gates = asked if does == "publish" and whole else None
                said = _end(graveler, context.dagster_run, reason, gates, ours)
            # nothing is returned: after a reason to skip Dagster would look at no other run
            context.log.info("%s: %s", reason, said)

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


def _assets_of(instance: dg.DagsterInstance, run: dg.DagsterRun) -> Collection[dg.AssetKey]:
    """Return the assets that a Dagster run makes, or was to make."""
    if run.asset_selection:
        return run.asset_selection
    if not run.execution_plan_snapshot_id:
        return ()
    plan = instance.get_execution_plan_snapshot(run.execution_plan_snapshot_id)
    outputs = [output.properties for step in plan.steps for output in step.outputs]
    return {made.asset_key for made in outputs if made is not None and made.asset_key is not None}


def _end(
    graveler: GravelerResource,
    dagster_run: dg.DagsterRun,
    reason: str,
    gates: Iterable[Gate | Check] | None,
    assets: Collection[dg.AssetKey] | None,
) -> str:
    """End the graveler run of a Dagster run, and return what became of it.

    Args:
        graveler: The repository.
        dagster_run: It is over.
        reason: Why the run ends.
        gates: What publishing it asks; None parks it.
        assets: Those that may be published; None: all.
    """
    record = graveler.record(dagster_run)
    if record is None:
        return "it has no branch, or a newer run has taken it over"
    if record.state not in (RunState.OPEN, RunState.PUBLISHING):
        return f"run {record.key!r} is {record.state}"
    try:
        run = graveler.run(dagster_run)
        if gates is not None:
            return _publish(graveler, run, gates, assets)
        ended = run.park(reason) if dagster_run.is_success else run.close(reason)
    except FencedError as over:
        return str(over)
    return f"run {record.key!r} is {ended.state}"


def _publish(
    graveler: GravelerResource,
    run: Run,
    gates: Iterable[Gate | Check],
    assets: Collection[dg.AssetKey] | None,
) -> str:
    try:
        if assets is not None:
            check_written(graveler.repo(), run, assets)
        result = run.publish(gates)
    except (GateFailedError, MergeConflictError) as refusal:
        return f"not published, and parked: {refusal}"
    except RunStateError as error:
        return f"not published, and {run.close(str(error)).state}: {error}"
    return f"published, {run.into} is at {result.commit.id}"
