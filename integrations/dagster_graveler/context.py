"""What Dagster's contexts say of a run: which it is, which try of a step, which partition."""

from datetime import UTC
from typing import Final

import dagster as dg
from dagster import (
    AssetCheckExecutionContext,
    AssetExecutionContext,
    DagsterRun,
    InputContext,
    OpExecutionContext,
    OutputContext,
)

from graveler.errors import InvalidInputError

__all__ = ["RunContext", "StepContext", "partition_folder", "partition_of", "run_key", "run_of"]

StepContext = AssetExecutionContext | OpExecutionContext | AssetCheckExecutionContext
"""What a function of an asset, an op or a check is called with."""

RunContext = StepContext | InputContext | OutputContext | DagsterRun
"""Whatever belongs to one Dagster run."""

_PARTITION: Final = "dagster/partition"
_RANGE: Final = ("dagster/asset_partition_range_start", "dagster/asset_partition_range_end")


def run_of(context: RunContext) -> DagsterRun:
    """Return the Dagster run that a context is of."""
    if isinstance(context, DagsterRun):
        return context
    if isinstance(context, InputContext | OutputContext):
        return context.step_context.dagster_run
    return context.run


def partition_of(run: DagsterRun) -> str:
    """Return the partition that a run is for, both ends of a range, or ""."""
    if _PARTITION in run.tags:
        return run.tags[_PARTITION]
    if _RANGE[0] in run.tags:
        return "...".join(run.tags[tag] for tag in _RANGE)
    return ""


def run_key(run: DagsterRun) -> str:
    """Return the key of the graveler run: of the job and what it makes.

    A run for a partition, launched again in whatever way, has the same key. One for no
    partition shares its key with its re-executions alone: those have its id as root.
    """
    return f"dagster {run.job_name} {partition_of(run) or run.root_run_id or run.run_id}"


def partition_folder(definition: dg.PartitionsDefinition[str], key: str) -> str:
    """Return the folder of a partition: ``2013/01/01/05:00/`` (UTC) of a time, else ``<key>/``."""
    if isinstance(definition, dg.TimeWindowPartitionsDefinition):
        start = definition.time_window_for_partition_key(key).start
        return f"{start.astimezone(UTC):%Y/%m/%d/%H:%M}/"
    if isinstance(definition, dg.MultiPartitionsDefinition):
        keys = definition.get_partition_key_from_str(key).keys_by_dimension
        return "".join(
            partition_folder(dimension.partitions_def, keys[dimension.name])
            for dimension in definition.partitions_defs
        )
    if key in ("", ".", "..") or "/" in key:
        raise InvalidInputError(f"partition key {key!r} cannot be a folder: choose another key")
    return f"{key}/"
