"""The dependencies of a publish: each asset is in its run, or on the target that the run saw."""

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass

import dagster as dg

from dagster_graveler.context import (
    keys_of_window,
    partition_of,
    read_window,
    run_of,
    run_partitions,
    step_of,
)
from dagster_graveler.materializations import (
    Made,
    assets_of,
    find_run,
    made_by,
    newest,
    refusal,
    unpublished,
)
from graveler.gates import Candidate
from graveler.gates.gate import Gate
from graveler.lake import Publish, Repository, Run, RunState
from graveler.model import Commit
from graveler_common.history import find_commit, own_commits

_STAND_IN = "dagster/io_manager_key"
"""Name in the metadata of an asset of the code location that the Dagster run does not select."""


@dataclass(frozen=True, slots=True)
class _Part:
    """An asset, and one partition of it.

    Attributes:
        asset: The asset.
        partition: Its partition; "" for all of the asset.
        window: The window of the partition, if it is a time.
    """

    asset: str
    partition: str = ""
    window: dg.TimeWindow | None = None

    def __str__(self) -> str:
        return f"{self.asset} ({self.partition})" if self.partition else self.asset

    def is_in(self, metadata: Mapping[str, str]) -> bool:
        """Return whether a run with this metadata makes the partition."""
        if self.partition in ("", metadata.get("dagster.partition")):
            return True
        window = read_window(metadata)
        if window is None or self.window is None:
            return False
        return window[0] <= self.window.start and self.window.end <= window[1]


def dependency_gates(
    context: dg.AssetExecutionContext, repository: Repository, run: Run
) -> list[Gate]:
    """Return the gate for dependencies of a publish that its Dagster run does not make.

    Such an asset passes if a publish, which is not rolled back, has put its partition on the target
    before the run began, and no later publish has changed it. Without such assets there is no gate.

    Raises:
        Failure: Only the branch of another run has a dependency as Dagster shows it.
    """
    missing = _missing(context)
    if not missing:
        return []
    own = made_by(repository, run)
    parts = {part for part in missing if part.asset not in own}
    shown = _shown(step_of(context).instance, parts)
    waiting = unpublished(repository, shown.values())
    for part, made in shown.items():
        if made in waiting and made.run != run.key:
            raise refusal(str(part), waiting[made])

    def dependencies(candidate: Candidate) -> str | None:
        brought = dict(_brought(repository, candidate.target.id, parts, shown, run.record.base))
        wrong = [
            f"{part} has changed since, by {brought[part]}" if part in brought else f"{part} is not"
            for part in sorted(parts, key=str)
            if brought.get(part) != ""
        ]
        if not wrong:
            return None
        return (
            f"the publishing asset depends on assets that this Dagster run does not make, and on "
            f"{run.into!r} {', '.join(wrong)}: select them too, launch the job of all of them, or "
            f"`graveler run abandon {run.key!r}` when they are published, and launch this again"
        )

    return [Gate("dagster dependencies", dependencies, reads="anything")]


def _missing(context: dg.AssetExecutionContext) -> Collection[_Part]:
    """Return the dependencies that neither this run nor its parents make."""
    step, run = step_of(context), run_of(context)
    made = set(step.job_def.asset_layer.executable_asset_keys)
    while run.parent_run_id and (parent := step.instance.get_run_by_id(run.parent_run_id)):
        if not parent.asset_selection:
            return ()  # the run made all assets of the job
        made |= parent.asset_selection
        run = parent
    graph = step.job_def.asset_layer.asset_graph
    return {
        part
        for key in context.assets_def.asset_deps[context.asset_key] - made
        if _STAND_IN in graph.get(key).metadata
        for part in _parts(context, key, graph.get(key).partitions_def)
    }


def _parts(
    context: dg.AssetExecutionContext,
    asset: dg.AssetKey,
    definition: dg.PartitionsDefinition[str] | None,
) -> Iterator[_Part]:
    """Yield the partitions of a dependency that the partitions of the run need."""
    name, own = asset.to_user_string(), context.assets_def.partitions_def
    if definition is None or own is None or not partition_of(run_of(context)):
        yield _Part(name)
    elif isinstance(definition, dg.TimeWindowPartitionsDefinition) and isinstance(
        own, dg.TimeWindowPartitionsDefinition
    ):
        window = context.partition_time_window
        for key in keys_of_window(definition, window.start, window.end):
            yield _Part(name, key, definition.time_window_for_partition_key(key))
    elif definition == own:
        yield from (_Part(name, key) for key in run_partitions(step_of(context)))
    else:
        yield _Part(name)


def _shown(instance: dg.DagsterInstance, parts: Iterable[_Part]) -> Mapping[_Part, Made]:
    """Return the newest materialization of each part."""
    by_asset: dict[str, dict[str, _Part]] = {}
    for part in parts:
        by_asset.setdefault(part.asset, {})[part.partition] = part
    return {
        by_partition[partition]: made
        for name, by_partition in by_asset.items()
        for partition, made in newest(
            instance, dg.AssetKey.from_user_string(name), by_partition
        ).items()
    }


def _brought(
    repository: Repository,
    head: str,
    parts: Iterable[_Part],
    shown: Mapping[_Part, Made],
    base: str,
) -> Iterator[tuple[_Part, str]]:
    """Yield each published part, and the publish or rollback that changed it since `base`, or ""."""
    pending, newer = set(parts), set[str]()
    is_newer = True
    for commit in repository.log(head, first_parent=True):
        is_newer = is_newer and commit.id != base
        if is_newer:
            newer.add(commit.id)
        brought = {
            part
            for part in pending
            if part.is_in(commit.metadata)
            or (part in shown and shown[part].is_published_by(commit.metadata))
        }
        brought &= {part for part in brought if part.asset in published_assets(repository, commit)}
        if not brought:
            continue
        key = commit.metadata["graveler.run"]
        publish = _publish(repository, key, commit)
        if publish is None or not publish.rollback:
            since = f"run {key!r}" if is_newer else ""
        elif is_newer or publish.rollback not in newer:
            continue  # the run has seen neither of both, or the rollback too
        else:
            since = f"the rollback of run {key!r}"
        yield from ((part, since) for part in brought)
        pending -= brought
        if not pending:
            return


def published_assets(repository: Repository, commit: Commit) -> set[str]:
    """Return the assets of the run that a commit publishes; none if it publishes no run."""
    key = commit.metadata.get("graveler.run")
    if not key or "graveler.published" not in commit.metadata or not commit.parents[1:]:
        return set()
    own = own_commits(repository, commit.parents[1], key)
    return {name for made in own for name in assets_of(made)}


def _publish(repository: Repository, key: str, commit: Commit) -> Publish | None:
    """Return the present state of a publish; None without a record of the run."""
    publishes = repository.runs.publishes(key) if find_run(repository, key) else ()
    return next((publish for publish in publishes if publish.commit == commit.id), None)


def check_inputs(repository: Repository, run: Run) -> None:
    """Refuse a publish until the target has what the run has read on the branches of other runs.

    Raises:
        Failure: Another run is not yet published, which allows a retry, or not as it was read.
    """
    for read in run.record.inputs:
        metadata = repository.commit(read.commit).metadata
        key = metadata.get("graveler.run", run.key)
        if key == run.key or "graveler.published" in metadata:
            continue
        if not any(True for _ in repository.diff(read.commit, run.into, prefix=read.prefix)):
            continue
        record = repository.runs.get(key)
        is_waiting = record.state in (RunState.OPEN, RunState.PUBLISHING) or (
            record.state is RunState.PARKED and record.lapsed
        )
        raise dg.Failure(
            f"the run has read {read.prefix!r} on the branch of run {key!r}, in {read.commit[:12]}, "
            f"and {run.into!r} does not have these files: that run is {record.state}; publish it "
            "first, or launch the assets of this run again",
            allow_retries=is_waiting,
        )


def shared_paths(context: dg.AssetExecutionContext, repository: Repository, run: Run) -> set[str]:
    """Return the paths that a run for a partition has changed for assets without partitions.

    The runs of all partitions make these assets; the last publish counts.
    """
    graph = step_of(context).job_def.asset_layer.asset_graph
    head = find_commit(repository, run.branch)
    if head is None or not partition_of(run_of(context)):
        return set()
    keys = graph.get_all_asset_keys()
    whole = {key.to_user_string() for key in keys if graph.get(key).partitions_def is None}
    return {
        change.path
        for commit in own_commits(repository, head.id, run.key)
        if (names := assets_of(commit)) and whole.issuperset(names)
        for change in repository.diff(commit.parents[0], commit.id)
    }


def check_shared(repository: Repository, run: Run, head: Commit, paths: set[str]) -> None:
    """Refuse a publish after which an asset without partitions would have files of two runs.

    Args:
        repository: The repository.
        run: The run.
        head: The target's head.
        paths: The paths that the run has changed for such assets.

    Raises:
        Failure: Another run has published other files since the fork.
    """
    for folder in sorted({path.rpartition("/")[0] for path in paths}):
        prefix = f"{folder}/" if folder else ""
        for change in repository.diff(run.record.base, head.id, prefix=prefix):
            if change.after is not None and change.path not in paths:
                raise dg.Failure(
                    f"another run has published {change.path!r} since run {run.key!r} began, and "
                    "both would stay: launch all steps of this Dagster run again",
                    allow_retries=False,
                )
