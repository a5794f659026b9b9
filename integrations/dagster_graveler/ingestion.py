"""An ingestion branch as an asset: its partition of an hour is that hour's tick.

::

    ingest = build_ingest_asset(gates=[no_empty_file], partitions_def=hours)
    defs = dg.Definitions(assets=[ingest], schedules=[build_ingest_schedule(ingest)],
                          resources={"graveler": GravelerResource(lake=..., repository=...)})
"""

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Any

import dagster as dg

from dagster_graveler.display.changes import change_metadata, changes_of
from dagster_graveler.publish import PUBLISH_POOL
from dagster_graveler.resource import GravelerResource
from dagster_graveler.run.context import step_metadata
from graveler.gates import Gate
from graveler.gates.gate import Check
from graveler.ingest import HourState, Tick

if TYPE_CHECKING:
    from dagster._core.definitions.partitions.partitioned_schedule import (
        UnresolvedPartitionedAssetScheduleDefinition,
    )

__all__ = ["build_ingest_asset", "build_ingest_schedule"]


def build_ingest_asset(  # noqa: PLR0913 - all have a default
    name: str = "ingest",
    *,
    branch: str = "ingest",
    gates: Iterable[Gate | Check] = (),
    on_refusal: str = "hold",
    partitions_def: dg.TimeWindowPartitionsDefinition | None = None,
    group_name: str | None = None,
    pool: str | None = PUBLISH_POOL,
) -> dg.AssetsDefinition:
    """Return the asset that commits, judges and publishes an ingestion branch, hour by hour.

    It needs the resource ``graveler``, and publishes to its ``into``. What materializes it has
    published the hour, or found nothing to publish; its data version is the commit. Where
    publishing is held it fails, without a retry: mend it on the branch and materialize the
    partition again. An hour that is set aside materializes it with a warning, and with the
    branches in its metadata (``graveler/quarantined``).

    Args:
        name: Of the asset.
        branch: The ingestion branch; made where it is not there.
        gates: Who judges, beside the gates that the target requires.
        on_refusal: ``hold`` or ``quarantine``.
        partitions_def: The hours, as ``dg.HourlyPartitionsDefinition``; without it each tick is
            that of the last full hour.
        group_name: Dagster's group.
        pool: Dagster's pool.
    """
    asked = tuple(gates)

    @dg.asset(
        name=name,
        partitions_def=partitions_def,
        group_name=group_name,
        description=f"What was staged on {branch}, published hour by hour.",
        kinds={"graveler"},
        pool=pool,
    )
    def ingest(
        context: dg.AssetExecutionContext, graveler: GravelerResource
    ) -> dg.MaterializeResult[None]:
        ingestion = graveler.repo().ingestion(
            branch, into=graveler.into, gates=asked, on_refusal=on_refusal
        )
        tick = ingestion.tick(_hour(context), metadata=step_metadata(context, ui=graveler.ui))
        metadata = _metadata(graveler, tick)
        reason = "" if tick.refused is None else tick.refused.reason
        if tick.state is HourState.HELD:
            raise dg.Failure(
                description=f"{branch} is held: {reason}; mend it there, then run this again",
                metadata=metadata,
                allow_retries=False,
            )
        if tick.state is HourState.QUARANTINED:
            context.log.warning(
                f"hour {tick.hour} is on {', '.join(tick.quarantined)}: {reason}"  # noqa: G004 - Dagster's
            )
        version = None if tick.published is None else dg.DataVersion(tick.published.id)
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
        asset: As `build_ingest_asset` returns it.
        name: Of the schedule; made of the asset's where not given. Its job is ``<name>_job``.
        minute: Past the hour, so that files which are a little late are not.
        status: ``RUNNING`` starts it by itself.
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


def _hour(context: dg.AssetExecutionContext) -> datetime | None:
    return context.partition_time_window.start if context.has_partition_key else None


def _metadata(graveler: GravelerResource, tick: Tick) -> Mapping[str, Any]:
    """Return what Dagster shows of a tick."""
    shown: dict[str, Any] = {
        "graveler/hour": tick.hour,
        "graveler/state": str(tick.state),
        "graveler/into": graveler.into,
    }
    if tick.late:
        shown["graveler/late"] = dg.MetadataValue.json(list(tick.late))
    if tick.refused is not None:
        shown["graveler/refused"] = tick.refused.reason
    if tick.quarantined:
        shown["graveler/quarantined"] = dg.MetadataValue.json(list(tick.quarantined))
    if tick.published is None:
        return shown
    return {
        **shown,
        "graveler/commit": tick.published.id,
        **graveler.links(tick.published.id),
        **change_metadata(changes_of(graveler.repo(), tick.published)),
    }
