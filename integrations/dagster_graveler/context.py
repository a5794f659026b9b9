"""Values from Dagster's contexts: keys of runs, partitions and windows, metadata of commits."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime
from hashlib import sha256

import dagster as dg

from graveler.base.names import hour_folder, hour_text
from graveler.errors import InvalidInputError
from graveler.lake import Origin

StepContext = dg.AssetExecutionContext | dg.OpExecutionContext | dg.AssetCheckExecutionContext
"""The context of a function of an asset, an op or a check."""

RunContext = StepContext | dg.InputContext | dg.OutputContext | dg.DagsterRun
"""Every context that belongs to one Dagster run."""

RANGE_TAGS = (
    "dagster/asset_partition_range_start",
    "dagster/asset_partition_range_end",
)
"""Tags of a run for several partitions: the first and the last of them."""

LOCATION = "code.location"
"""Name in a run's metadata: the code location, unless everything runs in one process."""

MAIN = "main"
"""The target whose name is not part of the keys of runs."""

OP_OUTPUTS = "_dagster/ops/"
"""The folder of the outputs of ops. They pass values inside a run and are never published."""

BACKFILL = "dagster.backfill"
"""Name in a run's metadata: the id of the backfill of its Dagster run."""

_WINDOW = "dagster.window"
_PARTITION = "dagster/partition"
_BACKFILL = "dagster/backfill"
_JOB = "graveler/job"
_OWNER = "graveler/owner"
_IMPLICIT = "__ASSET_JOB"
_EPHEMERAL = "__ephemeral_asset_job__"
_LONG = 80

_MOST_RUNS = 256

_pipelines: dict[frozenset[dg.AssetKey], str] = {}
_runs: dict[str, dg.DagsterRun] = {}


def run_of(context: RunContext) -> dg.DagsterRun:
    """Return the Dagster run of a context."""
    return context if isinstance(context, dg.DagsterRun) else step_of(context).dagster_run


def partition_of(run: dg.DagsterRun) -> str:
    """Return the partition of a run, the two ends of a range of partitions, or ""."""
    ends = (run.tags[tag] for tag in RANGE_TAGS if tag in run.tags)
    return run.tags.get(_PARTITION) or "...".join(ends)


def declare_pipeline(job: str, assets: Iterable[dg.AssetKey]) -> None:
    """Declare that a run of exactly these assets does the work of a job.

    Dagster runs assets selected by hand in an implicit job. Every process that executes or watches
    runs loads the definitions, so each declares the same.
    """
    _pipelines[frozenset(assets)] = job


@dataclass(frozen=True, slots=True)
class Identity:
    """The graveler run of a Dagster run."""

    key: str
    owner: str

    @property
    def backfill(self) -> str:
        """The backfill whose Dagster runs share the attempt; "" if the Dagster run has its own."""
        return self.owner.partition("backfill ")[2]


def identity_of(context: RunContext, into: str = MAIN) -> Identity:
    """Return the graveler run of a Dagster run.

    The key is job, partition or root run's id, and target. Every run of a job for the same partition
    and target has the same key. The target ``main`` is not part of it. Two deployments on one lake
    therefore have different runs. A run without partition shares its key only with its
    re-executions, which have its id as root. Dagster runs assets selected by hand in an implicit
    job. Its key is that of the pipeline if all assets of the pipeline are selected, else it includes
    the selection. The job of ``dg.materialize`` has no selection, so its key includes the hash of
    its definition. If a backfill makes the assets of a pipeline in several runs for a partition,
    because one asset needs other partitions of another one, these runs have one key and one owner.

    The first step stores job and owner as tags of the Dagster run, because the definitions may
    change before the next one.
    """
    run = run_of(context)
    if not isinstance(context, dg.DagsterRun) and not _is_tagged(run):
        run = _tagged(run, step_of(context).instance)
    job, owner = (run.tags[_JOB], run.tags[_OWNER]) if _is_tagged(run) else _work(run, None)
    shared = owner if owner != run.run_id else ""
    scope = partition_of(run) or shared or run.root_run_id or run.run_id
    target = "" if into == MAIN else f" into {into}"
    return Identity(f"dagster {job} {scope}{target}", owner)


def _is_tagged(run: dg.DagsterRun) -> bool:
    """Return whether a run has tags of its own; a re-execution has copies of its parent's."""
    shared = f"backfill {run.tags.get(_BACKFILL)}"
    return run.tags.get(_OWNER) in (run.run_id, shared)


def _tagged(run: dg.DagsterRun, instance: dg.DagsterInstance) -> dg.DagsterRun:
    """Return the run with its tags, which are stored if they are not yet."""
    stored = _runs.get(run.run_id) or instance.get_run_by_id(run.run_id) or run
    if not _is_tagged(stored):
        job, owner = _work(stored, instance)
        tags = {_JOB: job, _OWNER: owner}
        instance.add_run_tags(run.run_id, tags)
        stored = instance.get_run_by_id(run.run_id) or stored.with_tags({**stored.tags, **tags})
    if len(_runs) > _MOST_RUNS:
        _runs.clear()
    _runs[run.run_id] = stored
    return stored


def makes_all(run: dg.DagsterRun) -> bool:
    """Return whether a run was launched for all assets or ops that its key stands for."""
    if run.op_selection:
        return False
    pipeline = _pipelines.get(frozenset(run.asset_selection or ()))
    return not run.asset_selection or run.job_name == _IMPLICIT or pipeline == run.job_name


def _work(run: dg.DagsterRun, instance: dg.DagsterInstance | None) -> tuple[str, str]:
    """Return the job in the key of a run, and the owner."""
    parent = None if instance is None else next(parents_of(instance, run), None)
    if parent is not None and _JOB in parent.tags:
        return parent.tags[_JOB], run.run_id
    if run.job_name.startswith(_EPHEMERAL) and run.job_snapshot_id:
        return f"{run.job_name}({run.job_snapshot_id[:8]})", run.run_id
    if run.job_name != _IMPLICIT or not run.asset_selection:
        return run.job_name, run.run_id
    made = frozenset(run.asset_selection)
    whole = made | _siblings(run, made, instance)
    owner = run.run_id if whole == made else f"backfill {run.tags[_BACKFILL]}"
    if pipeline := _pipelines.get(whole):
        return pipeline, owner
    selection = "+".join(sorted(key.to_user_string() for key in whole))
    if len(selection) > _LONG:
        selection = f"{selection[:_LONG]}…{sha256(selection.encode()).hexdigest()[:8]}"
    return f"{run.job_name}({selection})", owner


def _siblings(
    run: dg.DagsterRun, made: frozenset[dg.AssetKey], instance: dg.DagsterInstance | None
) -> frozenset[dg.AssetKey]:
    """Return the assets of the same pipeline that the backfill of a run makes."""
    backfill = run.tags.get(_BACKFILL, "")
    known = instance.get_backfill(backfill) if instance is not None and backfill else None
    targets = frozenset(() if known is None else known.asset_selection or ())
    pipelines = [assets for assets in _pipelines if assets & made]
    return targets.intersection(frozenset().union(*pipelines)) if pipelines else targets


def parents_of(instance: dg.DagsterInstance, run: dg.DagsterRun) -> Iterator[dg.DagsterRun]:
    """Yield the run that was re-executed, the one before it, and so on."""
    while run.parent_run_id and (parent := instance.get_run_by_id(run.parent_run_id)):
        yield parent
        run = parent


def run_metadata(context: RunContext, *, ui: str = "") -> dict[str, str]:
    """Return the metadata with which the run and its merge commit name their Dagster run.

    The window of the partitions is an ISO 8601 interval: ``2013-01-01T05:00Z/2013-01-01T06:00Z``.
    """
    run, window = run_of(context), window_of(context)
    remote = run.remote_job_origin
    location = remote.repository_origin.code_location_origin.location_name if remote else ""
    return {
        **_origin(context, ui).metadata(),
        "dagster.root_run_id": run.root_run_id or run.run_id,
        **({LOCATION: location} if location else {}),
        **({BACKFILL: run.tags[_BACKFILL]} if _BACKFILL in run.tags else {}),
        **({_WINDOW: f"{hour_text(window.start)}/{hour_text(window.end)}"} if window else {}),
    }


def step_metadata(context: StepContext | dg.OutputContext, *, ui: str = "") -> dict[str, str]:
    """Return the metadata with which the commit of a step names its Dagster step."""
    step = step_of(context).step.key
    assets, version = _assets(context)
    origin = _origin(context, ui)
    url = f"{origin.url}?focusedStepKeys={step}" if origin.url else ""
    metadata = replace(origin, step=step, code_version=version, url=url).metadata()
    return {**metadata, **({"dagster.asset": assets} if assets else {})}


def _origin(context: RunContext, ui: str) -> Origin:
    run, window = run_of(context), window_of(context)
    return Origin(
        "dagster",
        job=run.job_name,
        run_id=run.run_id,
        partition=partition_of(run),
        url=f"{ui.rstrip('/')}/runs/{run.run_id}" if ui else "",
        hour=hour_text(window.start) if window else "",
    )


def output_name(context: dg.OutputContext) -> str:
    """Return the name of an output, unique in its step."""
    return f"{context.name}.{context.mapping_key}" if context.mapping_key else context.name


def step_of(context: StepContext | dg.OutputContext | dg.InputContext) -> dg.StepExecutionContext:
    """Return Dagster's own context of the step."""
    if isinstance(context, dg.OutputContext | dg.InputContext):
        return context.step_context
    return context.get_step_execution_context()


def _assets(context: StepContext | dg.OutputContext) -> tuple[str, str]:
    """Return the assets that a step makes, and their code version or ""."""
    if isinstance(context, dg.OutputContext):
        if not context.has_asset_key:
            return "", ""
        node = step_of(context).job_def.asset_layer.get(context.asset_key)
        return context.asset_key.to_user_string(), node.code_version or ""
    if not isinstance(context, dg.AssetExecutionContext) or not context.has_assets_def:
        return "", ""
    selected, versions = context.selected_asset_keys, context.assets_def.code_versions_by_key
    return (
        ",".join(sorted(key.to_user_string() for key in selected)),
        ",".join(sorted({version for key in selected if (version := versions.get(key))})),
    )


def assets_of_run(instance: dg.DagsterInstance, run: dg.DagsterRun) -> Collection[dg.AssetKey]:
    """Return the assets that a Dagster run has made or was to make."""
    if run.asset_selection:
        return run.asset_selection
    if not run.execution_plan_snapshot_id:
        return ()
    plan = instance.get_execution_plan_snapshot(run.execution_plan_snapshot_id)
    outputs = [output.properties for step in plan.steps for output in step.outputs]
    return {made.asset_key for made in outputs if made is not None and made.asset_key is not None}


def window_of(context: RunContext) -> dg.TimeWindow | None:
    """Return the window of time of the run's partitions; None if they are not times."""
    if isinstance(context, dg.DagsterRun):
        return None
    with suppress(dg.DagsterInvariantViolationError, ValueError):
        return step_of(context).partition_time_window
    return None


def partition_folder(definition: dg.PartitionsDefinition[str], key: str) -> str:
    """Return the folder of a partition: ``2013/01/01/05:00/`` (UTC) for a time, else ``<key>/``."""
    if isinstance(definition, dg.TimeWindowPartitionsDefinition):
        return f"{hour_folder(definition.start_time_for_partition_key(key))}/"
    if isinstance(definition, dg.MultiPartitionsDefinition):
        keys = definition.get_partition_key_from_str(key).keys_by_dimension
        return "".join(
            partition_folder(dimension.partitions_def, keys[dimension.name])
            for dimension in definition.partitions_defs
        )
    if key in ("", ".", "..") or "/" in key:
        raise InvalidInputError(f"partition key {key!r} cannot be a folder: choose another key")
    return f"{key}/"


def run_partitions(step: dg.StepExecutionContext) -> Sequence[str]:
    """Return the partitions of the run of a step: those of its tags, which Dagster may mistake."""
    run, definition = step.dagster_run, step.run_partitions_def
    if _PARTITION in run.tags:
        return [run.tags[_PARTITION]]
    if definition is None or RANGE_TAGS[0] not in run.tags:
        return []
    ends = [run.tags[tag] for tag in RANGE_TAGS]
    keys = definition.get_partition_keys_in_range(dg.PartitionKeyRange(*ends))
    if not keys or not set(ends).issubset(keys):
        raise InvalidInputError(
            f"Dagster run {run.run_id} is for partitions {ends[0]!r} to {ends[1]!r}, and Dagster's "
            f"list of {len(keys)} partitions lacks one of them: give the first and the last "
            "partition in their order"
        )
    return keys


def asset_partitions(context: dg.InputContext | dg.OutputContext) -> Sequence[str]:
    """Return the partitions of an input or output.

    If Dagster takes the run's partition for another one, those of an input are only known for the
    same partition.
    """
    if isinstance(context, dg.OutputContext):
        run = run_partitions(step_of(context)) if is_in_run(context) else ()
        return run or list(context.asset_partition_keys)
    listed = list(context.asset_partition_keys)
    own = step_of(context).run_partitions_def if is_in_run(context) else None
    key = run_of(context).tags.get(_PARTITION) if own is not None else None
    if key is None or not isinstance(own, dg.TimeWindowPartitionsDefinition):
        return listed
    taken = list(own.get_partition_keys_in_range(dg.PartitionKeyRange(key, key)))
    if taken == [key]:
        return listed
    if listed == taken and context.asset_partitions_def == own:
        return [key]
    raise InvalidInputError(
        f"Dagster takes partition {key!r} of this run for {taken}, so the partitions of input "
        f"{context.name!r} are not known: make a range of partitions in one run "
        "(`BackfillPolicy.single_run()`)"
    )


def is_in_run(context: dg.InputContext | dg.OutputContext) -> bool:
    """Return whether an input or output belongs to a Dagster run."""
    try:
        context.step_context  # noqa: B018 - it raises outside a run
    except dg.DagsterInvariantViolationError:
        return False
    return True


def read_window(metadata: Mapping[str, str]) -> tuple[datetime, datetime] | None:
    """Return the start and end of the window in the metadata of a commit or run, or None."""
    start, _, end = metadata.get(_WINDOW, "").partition("/")
    with suppress(ValueError):
        return datetime.fromisoformat(start), datetime.fromisoformat(end)
    return None


def keys_of_window(
    definition: dg.TimeWindowPartitionsDefinition, start: datetime, end: datetime
) -> Sequence[str]:
    """Return the partitions that overlap a window; the two may differ in length."""
    start = max(start, definition.start)
    if start >= end:
        return []
    key = definition.get_partition_key_for_timestamp(start.timestamp())
    first = definition.start_time_for_partition_key(key)
    keys = definition.get_partition_keys_in_time_window(dg.TimeWindow(first, end))
    return [
        key
        for key in keys
        if definition.has_partition_key(key)
        # datetimes of one zone are compared as its clocks show them, which repeat an hour
        and definition.end_time_for_partition_key(key).timestamp() > start.timestamp()
    ]
