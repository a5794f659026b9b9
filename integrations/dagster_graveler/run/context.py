"""What Dagster's contexts say of a run: which it is, which try of a step, which partition."""

from contextlib import suppress
from datetime import UTC
from hashlib import sha256
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
from graveler.lake import Origin
from graveler.names import hour_folder

__all__ = [
    "LOCATION",
    "RANGE_TAGS",
    "RunContext",
    "StepContext",
    "output_name",
    "partition_folder",
    "partition_of",
    "run_key",
    "run_metadata",
    "run_of",
    "step_metadata",
    "step_of",
]

StepContext = AssetExecutionContext | OpExecutionContext | AssetCheckExecutionContext
"""What a function of an asset, an op or a check is called with."""

RunContext = StepContext | InputContext | OutputContext | DagsterRun
"""Whatever belongs to one Dagster run."""

RANGE_TAGS: Final = (
    "dagster/asset_partition_range_start",
    "dagster/asset_partition_range_end",
)
"""Tags of a run that is for several partitions: the first and the last of them."""

LOCATION: Final = "code.location"
"""In a run's metadata: the code location, where Dagster knows it; not within one process."""

_PARTITION: Final = "dagster/partition"
_IMPLICIT: Final = "__ASSET_JOB"
_EPHEMERAL: Final = "__ephemeral_asset_job__"
_LONG: Final = 80


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
    if RANGE_TAGS[0] in run.tags:
        return "...".join(run.tags[tag] for tag in RANGE_TAGS)
    return ""


def run_key(run: DagsterRun) -> str:
    """Return the key of the graveler run: of the job and what it makes.

    A run for a partition, launched again in whatever way, has the same key. One for no
    partition shares its key with its re-executions alone: those have its id as root. The job
    that Dagster makes up for assets picked by hand is told apart by what was picked; the one of
    ``dg.materialize``, which does not say, by its definition.
    """
    return f"dagster {_work(run)} {partition_of(run) or run.root_run_id or run.run_id}"


def _work(run: DagsterRun) -> str:
    if run.job_name.startswith(_EPHEMERAL) and run.job_snapshot_id:
        return f"{run.job_name}({run.job_snapshot_id[:8]})"
    if run.job_name != _IMPLICIT or not run.asset_selection:
        return run.job_name
    picked = "+".join(sorted(key.to_user_string() for key in run.asset_selection))
    if len(picked) > _LONG:
        picked = f"{picked[:_LONG]}…{sha256(picked.encode()).hexdigest()[:8]}"
    return f"{run.job_name}({picked})"


def run_metadata(context: RunContext, *, ui: str = "") -> dict[str, str]:
    """Return what the run's merge commit says of where it comes from."""
    run = run_of(context)
    remote = run.remote_job_origin
    location = remote.repository_origin.code_location_origin.location_name if remote else ""
    origin = Origin(
        "dagster",
        job=run.job_name,
        run_id=run.run_id,
        partition=partition_of(run),
        url=f"{ui.rstrip('/')}/runs/{run.run_id}" if ui else "",
        hour=_hour(context),
    )
    return {
        **origin.metadata(),
        "dagster.root_run_id": run.root_run_id or run.run_id,
        **({LOCATION: location} if location else {}),
    }


def step_metadata(context: StepContext | OutputContext, *, ui: str = "") -> dict[str, str]:
    """Return what the commit of a step says of where it comes from."""
    run = run_of(context)
    step = step_of(context).step.key
    assets, version = _assets(context)
    origin = Origin(
        "dagster",
        job=run.job_name,
        run_id=run.run_id,
        partition=partition_of(run),
        step=step,
        code_version=version,
        url=f"{ui.rstrip('/')}/runs/{run.run_id}?focusedStepKeys={step}" if ui else "",
        hour=_hour(context),
    )
    return {**origin.metadata(), **({"dagster.asset": assets} if assets else {})}


def output_name(context: OutputContext) -> str:
    """Return what tells an output from the others of its step."""
    return f"{context.name}.{context.mapping_key}" if context.mapping_key else context.name


def step_of(context: StepContext | OutputContext | InputContext) -> dg.StepExecutionContext:
    """Return what Dagster knows of the step that a context is of."""
    if isinstance(context, OutputContext | InputContext):
        return context.step_context
    return context.get_step_execution_context()


def _assets(context: StepContext | OutputContext) -> tuple[str, str]:
    """Return the assets that a step makes, and the version of their code where it has one."""
    if isinstance(context, OutputContext):
        if not context.has_asset_key:
            return "", ""
        node = step_of(context).job_def.asset_layer.get(context.asset_key)
        return context.asset_key.to_user_string(), node.code_version or ""
    if not isinstance(context, AssetExecutionContext) or not context.has_assets_def:
        return "", ""
    versions = context.assets_def.code_versions_by_key
    return (
        ",".join(sorted(key.to_user_string() for key in versions)),
        ",".join(sorted({version for version in versions.values() if version})),
    )


def _hour(context: RunContext) -> str:
    """Return when the run's window of time begins, "" where it is for no such partition."""
    if isinstance(context, DagsterRun):
        return ""
    step = step_of(context)
    with suppress(dg.DagsterInvariantViolationError, ValueError):
        return f"{step.partition_time_window.start.astimezone(UTC):%Y-%m-%dT%H:%MZ}"
    return ""


def partition_folder(definition: dg.PartitionsDefinition[str], key: str) -> str:
    """Return the folder of a partition: ``2013/01/01/05:00/`` (UTC) of a time, else ``<key>/``."""
    if isinstance(definition, dg.TimeWindowPartitionsDefinition):
        start = definition.time_window_for_partition_key(key).start
        return f"{hour_folder(start)}/"
    if isinstance(definition, dg.MultiPartitionsDefinition):
        keys = definition.get_partition_key_from_str(key).keys_by_dimension
        return "".join(
            partition_folder(dimension.partitions_def, keys[dimension.name])
            for dimension in definition.partitions_defs
        )
    if key in ("", ".", "..") or "/" in key:
        raise InvalidInputError(f"partition key {key!r} cannot be a folder: choose another key")
    return f"{key}/"
