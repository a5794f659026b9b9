"""An ingestion branch as an asset: the partition of an hour is the tick of that hour.

::

    ingest = build_ingest_asset(gates=[no_empty_file], partitions_def=hours)
    defs = dg.Definitions(assets=[ingest], schedules=[build_ingest_schedule(ingest)],
                          resources={"graveler": GravelerResource(lake=..., repository=...)})
"""

from collections.abc import Iterable
from typing import TYPE_CHECKING

import dagster as dg

from dagster_graveler.context import step_metadata
from dagster_graveler.display import as_value, change_metadata, final_failure
from dagster_graveler.publish import PUBLISH_POOL
from dagster_graveler.resource import GravelerResource
from graveler.base.arguments import branch_text, choice, instance, optional
from graveler.gates.gate import Check, Gate
from graveler.ingest import HourState
from graveler.ingest.ingestion import CONFLICT_POLICIES, POLICIES
from graveler_common.history import changes_of, tick_row

if TYPE_CHECKING:
    from dagster._core.definitions.partitions.partitioned_schedule import (
        UnresolvedPartitionedAssetScheduleDefinition,
    )


def build_ingest_asset(
    name: str = "ingest",
    *,
    branch: str = "ingest",
    gates: Iterable[Gate | Check] = (),
    on_refusal: str = "hold",
    on_conflict: str = "refuse",
    partitions_def: dg.TimeWindowPartitionsDefinition | None = None,
    group_name: str | None = None,
    pool: str | None = PUBLISH_POOL,
) -> dg.AssetsDefinition:
    """Return the asset that commits, judges and publishes an ingestion branch, hour by hour.

    It needs the resource ``graveler``, and publishes to its ``into``. A materialization means that
    the hour is published, or that there was nothing to publish; its data version is the commit.
    If publishing is held, the asset fails without a retry: fix the branch and materialize the
    partition again. For a quarantined hour it succeeds with a warning, and its metadata name the
    quarantine branches (``graveler/quarantined``).

    Args:
        branch: The ingestion branch; created if it does not exist.
        gates: Gates in addition to those that the target requires.
        on_refusal: ``hold`` or ``quarantine``.
        on_conflict: ``refuse``, ``target`` or ``ingest``: what becomes of paths that others changed.
        partitions_def: The hours, a ``dg.HourlyPartitionsDefinition``; without it each tick is
            for the last full hour.
    """
    branch_text(branch, "branch")
    choice(on_refusal, "on_refusal", POLICIES)
    choice(on_conflict, "on_conflict", CONFLICT_POLICIES)
    timed = dg.TimeWindowPartitionsDefinition
    optional(instance, partitions_def, "partitions_def", kind=timed, expected="partitions of time")
    gates = tuple(gates)

    @dg.asset(
        name=name,
        partitions_def=partitions_def,
        group_name=group_name,
        description=f"The staged files of {branch}, published hour by hour.",
        kinds={"graveler"},
        pool=pool,
    )
    def ingest(
        context: dg.AssetExecutionContext, graveler: GravelerResource
    ) -> dg.MaterializeResult[None]:
        ingestion = graveler.repo().ingestion(
            branch,
            into=graveler.into,
            gates=gates,
            on_refusal=on_refusal,
            on_conflict=on_conflict,
        )
        hour = context.partition_time_window.start if context.has_partition_key else None
        tick = ingestion.tick(hour, metadata=step_metadata(context, ui=graveler.ui))
        row, published = tick_row(tick), tick.published
        shown = {name: row[name] for name in ("late", "refused", "quarantined", "set_aside")}
        metadata = {
            "graveler/hour": row["hour"],
            "graveler/state": row["state"],
            "graveler/into": graveler.into,
            **{f"graveler/{name}": as_value(value) for name, value in shown.items() if value},
        }
        if published is not None:
            metadata |= graveler.links(published)
            metadata |= change_metadata(changes_of(graveler.repo(), published))
        reason = "" if tick.refused is None else tick.refused.reason
        if tick.state is HourState.HELD:
            raise final_failure(
                f"{branch} is held: {reason}; fix it there, then run this again", metadata
            )
        if tick.state is HourState.QUARANTINED:
            context.log.warning(
                f"hour {tick.hour} is on {', '.join(tick.quarantined)}: {reason}"  # noqa: G004 - Dagster's
            )
        version = None if published is None else dg.DataVersion(published.id)
        return dg.MaterializeResult(metadata=metadata, data_version=version)

    return ingest


def build_ingest_schedule(
    asset: dg.AssetsDefinition,
    *,
    name: str | None = None,
    minute: int = 0,
    status: dg.DefaultScheduleStatus = dg.DefaultScheduleStatus.STOPPED,
) -> "dg.ScheduleDefinition | UnresolvedPartitionedAssetScheduleDefinition":
    """Return the schedule that materializes an ingestion's asset once an hour.

    Args:
        asset: The result of `build_ingest_asset`.
        name: The schedule's name; by default it derives from the asset's. Its job is
            ``<name>_job``.
        minute: Minutes past the hour, to include files that arrive a little late.
        status: ``RUNNING`` starts it by default.
    """
    chosen = name or f"{asset.key.to_python_identifier()}_schedule"
    job = dg.define_asset_job(f"{chosen}_job", selection=dg.AssetSelection.assets(asset))
    if asset.partitions_def is None:
        return dg.ScheduleDefinition(
            name=chosen, job=job, cron_schedule=f"{minute} * * * *", default_status=status
        )
    return dg.build_schedule_from_partitioned_job(
        job, name=chosen, minute_of_hour=minute, default_status=status
    )
