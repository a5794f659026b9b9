"""The parts that end graveler runs: a hook of steps, a sensor for each way a run ends, and a reaper.

They clean up and are not needed for safety: only publishing moves the target, and the next run of
the same key takes over the branch, parked or not. A hook needs no daemon, but does not run in a
process that was killed. Sensors also handle such a process. If a machine is lost, Dagster considers
its runs still running, but the reaper does not.
"""

from collections.abc import Collection, Iterable, Sequence

import dagster as dg
from dagster._core.definitions.events import HookExecutionResult
from dagster._core.execution.stats import StepEventStatus
from dagster._core.snap import ExecutionPlanSnapshot

from dagster_graveler.context import assets_of_run, identity_of, partition_of
from dagster_graveler.dependencies import publish_work, published_assets
from dagster_graveler.materializations import PUBLISHED, made_by, observations
from dagster_graveler.resource import GravelerResource
from graveler.base.arguments import count, each, optional
from graveler.errors import FencedError, GateFailedError, MergeConflictError, RunStateError
from graveler.gates.gate import Check, Gate
from graveler.lake import Run, RunRecord, RunState
from graveler.model import Commit
from graveler_common.history import reaped_row

_REAPED = 200
_UNDER_WAY = ("REQUESTED", "CANCELING", "FAILING")
_ENDED = frozenset((StepEventStatus.SUCCESS, StepEventStatus.SKIPPED))


def build_lifecycle_sensors(
    name: str = "graveler",
    *,
    publish_adhoc: bool = False,
    gates: Iterable[Gate | Check] = (),
    assets: Iterable[dg.AssetKey] | None = None,
    minimum_interval_seconds: int | None = None,
) -> Sequence[dg.SensorDefinition]:
    """Return three sensors: for Dagster runs that failed, were canceled, or did not publish.

    They need the resource ``graveler`` and watch every job of their code location. They ignore
    runs that a newer one has superseded, and runs that make only other assets.

    Args:
        publish_adhoc: Publish a run that succeeded without the publishing asset, such as one of
            assets selected by hand; otherwise it is parked.
        gates: The gates of such a publish.
        assets: The assets that the gates judge; by default all assets. A run that makes any other
            asset is parked, not published.
        minimum_interval_seconds: Seconds between two evaluations; Dagster's default if not given.
    """
    gates = tuple(gates)
    optional(count, minimum_interval_seconds, "minimum_interval_seconds")
    ours = None if assets is None else frozenset(each(assets, "assets", dg.AssetKey, "asset keys"))

    def watch(status: dg.DagsterRunStatus, ending: str, does: str) -> dg.SensorDefinition:
        @dg.run_status_sensor(
            run_status=status,
            name=f"{name}_{does}_{ending}",
            description=f"Ends the graveler run of a Dagster run that ended {ending}.",
            minimum_interval_seconds=minimum_interval_seconds,
            default_status=dg.DefaultSensorStatus.RUNNING,
        )
        def sensor(context: dg.RunStatusSensorContext, graveler: GravelerResource) -> None:
            reason = f"Dagster run {context.dagster_run.run_id} ended {ending}"
            if message := context.dagster_event.message:
                reason = f"{reason}: {message}"
            instance, run = context.instance, context.dagster_run
            made = assets_of_run(instance, run)
            if ours is not None and made and ours.isdisjoint(made):
                outcome = "it makes assets of another pipeline"
            else:
                whole = ours is None or (made and ours.issuperset(made))
                judged = gates if does == "publish" and whole else None
                outcome = _end(graveler, instance, run, reason, judged, ours)
            # no SkipReason is returned: after one, Dagster would evaluate no other run
            context.log.info("%s: %s", reason, outcome)

        return sensor

    return (
        watch(dg.DagsterRunStatus.FAILURE, "failed", "park"),
        watch(dg.DagsterRunStatus.CANCELED, "canceled", "park"),
        watch(dg.DagsterRunStatus.SUCCESS, "unpublished", "publish" if publish_adhoc else "park"),
    )


def build_lifecycle_hook(name: str = "graveler_park_at_end") -> dg.HookDefinition:
    """Return a hook of steps that parks the run when the last step has ended after a failure.

    It also parks a failed run if no daemon evaluates sensors, as for ``dagster job execute``. It
    needs the resource ``graveler``.
    """

    def park_at_end(context: dg.HookContext, _: Sequence[dg.DagsterEvent]) -> HookExecutionResult:
        return HookExecutionResult(name, is_skipped=not _park_at_end(context))

    return dg.HookDefinition(name=name, hook_fn=park_at_end, required_resource_keys={"graveler"})


def _park_at_end(context: dg.HookContext) -> bool:
    """Park the run if a step has failed and no other step can run; return whether it did."""
    instance = context.instance
    run = instance.get_run_by_id(context.run_id)
    if run is None or not run.execution_plan_snapshot_id:
        return False
    statuses = {stats.step_key: stats.status for stats in instance.get_run_step_stats(run.run_id)}
    failed = {key for key, status in statuses.items() if status is StepEventStatus.FAILURE}
    if not failed:
        return False
    plan = instance.get_execution_plan_snapshot(run.execution_plan_snapshot_id)
    ended = {key for key, status in statuses.items() if status in _ENDED}
    if not _without(plan, failed).union(ended).issuperset(plan.step_keys_to_execute):
        return False
    reason = f"Dagster run {run.run_id} failed in {', '.join(sorted(failed))}"
    context.log.info("%s: %s", reason, _end(context.resources.graveler, instance, run, reason))
    return True


def _without(plan: ExecutionPlanSnapshot, failed: Collection[str]) -> set[str]:
    """Return the keys of failed steps and of all steps that depend on them."""
    needs = {
        step.key: {
            handle.step_key for given in step.inputs for handle in given.upstream_output_handles
        }
        for step in plan.steps
    }
    lost: set[str] = set()
    more = set(failed)
    while more:
        lost |= more
        more = {key for key, needed in needs.items() if not lost.isdisjoint(needed)} - lost
    return lost


def build_reaper_sensor(
    name: str = "graveler_reaper", *, minimum_interval_seconds: int = 300
) -> dg.SensorDefinition:
    """Return the sensor that parks runs whose lease is over, and drops runs parked for too long.

    It needs the resource ``graveler``, and considers only lease and time to live. A run whose
    machine died stays started in Dagster. The sensor parks it when its lease is over.
    """
    count(minimum_interval_seconds, "minimum_interval_seconds")

    @dg.sensor(
        name=name,
        description="Parks runs whose lease is over, and drops runs parked for too long.",
        minimum_interval_seconds=minimum_interval_seconds,
        default_status=dg.DefaultSensorStatus.RUNNING,
    )
    def reaper(context: dg.SensorEvaluationContext, graveler: GravelerResource) -> dg.SkipReason:
        rows = [
            reaped_row(reaped) for reaped in graveler.repo().runs.reap(dry_run=False, limit=_REAPED)
        ]
        for row in rows:
            context.log.info("%(key)s: %(from)s -> %(to)s: %(reason)s", row)
        return dg.SkipReason(f"reaped {len(rows)} runs")

    return reaper


def _end(
    graveler: GravelerResource,
    instance: dg.DagsterInstance,
    dagster_run: dg.DagsterRun,
    reason: str,
    gates: Iterable[Gate | Check] | None = None,
    assets: Collection[dg.AssetKey] | None = None,
) -> str:
    """End the graveler run of a Dagster run, and return the outcome; without gates it is parked."""
    backfill = identity_of(dagster_run).backfill
    shared = instance.get_backfill(backfill) if backfill else None
    if shared is not None and shared.status.value in _UNDER_WAY:
        return f"backfill {backfill} is under way, and its other runs share the branch"
    record = graveler.record(dagster_run)
    if record is None:
        return "it has no branch, or a newer run has superseded it"
    if record.state in (RunState.OPEN, RunState.PUBLISHING):
        try:
            run = graveler.run(dagster_run)
            if gates is not None:
                return _publish(graveler, instance, dagster_run, run, gates, assets)
            record = run.park(reason) if dagster_run.is_success else run.close(reason)
        except FencedError as over:
            return str(over)
    record = next(graveler.repo().runs.on_targets([record]))
    if not dagster_run.is_success and record.state is RunState.PUBLISHED and record.published:
        # the process of the publish may have ended before it recorded the observations
        commit = graveler.repo().commit(record.published.commit)
        made = published_assets(graveler.repo(), commit)
        _observe(instance, dagster_run, record, commit, made)
    return f"run {record.key!r} is {record.state}, {record.on_target}"


def _publish(
    graveler: GravelerResource,
    instance: dg.DagsterInstance,
    dagster_run: dg.DagsterRun,
    run: Run,
    gates: Iterable[Gate | Check],
    assets: Collection[dg.AssetKey] | None,
) -> str:
    made = made_by(graveler.repo(), run)
    try:
        commit = publish_work(graveler.repo(), run, made, gates, assets).commit
    except (GateFailedError, MergeConflictError) as refusal:
        return f"not published, and parked: {refusal}"
    except (dg.Failure, RunStateError) as error:
        return f"not published, and {run.close(str(error)).state}: {error}"
    _observe(instance, dagster_run, run, commit, made)
    return f"published, {run.into} is at {commit.id}"


def _observe(
    instance: dg.DagsterInstance,
    dagster_run: dg.DagsterRun,
    run: Run | RunRecord,
    commit: Commit,
    made: Iterable[str],
) -> None:
    """Record once that the target has the assets of a run, of one partition or none."""
    partition = partition_of(dagster_run)
    if "..." in partition:
        return
    for observed in observations(run, commit, made, [partition]):
        shown = dg.AssetRecordsFilter(
            observed.asset_key, asset_partitions=[partition] if partition else None
        )
        known = instance.fetch_observations(shown, limit=1).records
        newest = known[0].asset_observation if known else None
        if newest is None or newest.metadata.get(PUBLISHED) != observed.metadata[PUBLISHED]:
            instance.report_runless_asset_event(observed)
