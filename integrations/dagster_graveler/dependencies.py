"""What a publish may bring: the work of its assets, whose inputs are in the run or on the target."""

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass

import dagster as dg

from dagster_graveler.context import (
    OP_OUTPUTS,
    keys_of_window,
    parents_of,
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
    newest,
    part_text,
    refuse_unpublished,
)
from graveler.errors import RunStateError
from graveler.gates import Candidate
from graveler.gates.gate import Check, Gate
from graveler.lake import Branch, PublishResult, Repository, Run, RunState
from graveler.model import Commit, Conflict
from graveler.repository.strategies import Strategy
from graveler_common.history import find_commit, own_commits

_STAND_IN = "dagster/io_manager_key"
"""Name in the metadata of an asset of the code location that the Dagster run does not select."""


@dataclass(frozen=True, slots=True)
class _Part:
    """An asset, and one partition of it."""

    asset: str
    partition: str = ""
    window: dg.TimeWindow | None = None

    def __str__(self) -> str:
        return part_text(self.asset, self.partition)

    def is_in(self, metadata: Mapping[str, str]) -> bool:
        """Return whether a run with this metadata makes the partition."""
        if self.partition in ("", metadata.get("dagster.partition")):
            return True
        window = read_window(metadata)
        if window is None or self.window is None:
            return False
        return window[0] <= self.window.start and self.window.end <= window[1]


def dependency_gates(
    context: dg.AssetExecutionContext, repository: Repository, run: Run, made: Collection[str]
) -> list[Gate]:
    """Return the gate for dependencies of a publish that its Dagster run does not make.

    Such an asset passes if a publish, which is not rolled back, has put its partition on the target
    before the run began, and no later publish has changed it. Without such assets there is no gate.
    """
    missing = _missing(context)
    if not missing:
        return []
    parts = {part for part in missing if part.asset not in made}
    shown: dict[_Part, Made] = {}
    for name in {part.asset for part in parts}:
        named = {part.partition: part for part in parts if part.asset == name}
        found = newest(context.instance, dg.AssetKey.from_user_string(name), named)
        shown |= {named[partition]: one for partition, one in found.items()}
    others = {one: str(part) for part, one in shown.items() if one.run != run.key}
    refuse_unpublished(repository, others)

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
    layer = step_of(context).job_def.asset_layer
    made = set(layer.executable_asset_keys)
    for parent in parents_of(context.instance, run_of(context)):
        if not parent.asset_selection:
            return ()  # the run made all assets of the job
        made |= parent.asset_selection
    graph = layer.asset_graph
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


def _brought(
    repository: Repository,
    head: str,
    parts: Iterable[_Part],
    shown: Mapping[_Part, Made],
    base: str,
) -> Iterator[tuple[_Part, str]]:
    """Yield each published part, and the publish or rollback that changed it since `base`, or ""."""
    pending, newer, is_newer = set(parts), set[str](), True
    for commit in repository.log(head, first_parent=True):
        is_newer = is_newer and commit.id != base
        if is_newer:
            newer.add(commit.id)
        near = {
            part
            for part in pending
            if part.is_in(commit.metadata)
            or (part in shown and shown[part].is_published_by(commit.metadata))
        }
        made = published_assets(repository, commit) if near else ()
        if not (brought := {part for part in near if part.asset in made}):
            continue
        key = commit.metadata["graveler.run"]
        record = find_run(repository, key)
        publishes = next(repository.runs.on_targets([record])).publishes if record else ()
        publish = next((one for one in publishes if one.commit == commit.id), None)
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


def publish_work(
    repository: Repository,
    run: Run,
    made: Collection[str],
    gates: Iterable[Gate | Check],
    assets: Collection[dg.AssetKey] | None = None,
    *,
    strategy: Strategy | None = None,
    shared: Collection[str] | None = None,
) -> PublishResult:
    """Publish a run without the outputs of ops; refuse the work of assets that its gates do not judge.

    For the paths in `shared` the last publish counts.
    """
    names = {key.to_user_string() for key in assets or ()}
    if assets is not None and (writers := ", ".join(sorted(set(made) - names))):
        raise RunStateError(
            f"run {run.key!r} holds what {writers} wrote, and here only {', '.join(sorted(names))} "
            f"may be published: publish {writers} with its own pipeline, or make it a dependency of "
            f"the publishing asset; if an earlier Dagster run left it, `graveler run abandon "
            f"{run.key!r}` and launch all assets again"
        )
    if run.record.state is not RunState.PUBLISHED:
        branch = Branch(run.repository, run.branch)  # this listing is not an input of the run
        if paths := [entry.path for entry in branch.entries(OP_OUTPUTS)]:
            with run.step("dagster op outputs") as step:
                step.delete_many(paths)

    def accepts(head: Commit) -> None:
        _check_inputs(repository, run)
        _check_shared(repository, run, head, shared or ())

    def settle(conflict: Conflict) -> str | None:
        return "source-wins" if shared and conflict.path in shared else None

    if strategy is None and shared is not None:
        strategy = settle
    return run.publish(gates, strategy=strategy, accepts=accepts)


def _check_inputs(repository: Repository, run: Run) -> None:
    """Refuse a publish until the target has what the run has read on the branches of other runs."""
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


def _check_shared(repository: Repository, run: Run, head: Commit, paths: Collection[str]) -> None:
    """Refuse a publish after which an asset without partitions would have files of two runs."""
    for folder in sorted({path.rpartition("/")[0] for path in paths}):
        prefix = f"{folder}/" if folder else ""
        for change in repository.diff(run.record.base, head.id, prefix=prefix):
            if change.after is not None and change.path not in paths:
                raise dg.Failure(
                    f"another run has published {change.path!r} since run {run.key!r} began, and "
                    "both would stay: launch all steps of this Dagster run again",
                    allow_retries=False,
                )


def shared_paths(context: dg.AssetExecutionContext, repository: Repository, run: Run) -> set[str]:
    """Return the paths that a run for a partition has changed for assets without partitions.

    The runs of all partitions make these assets; the last publish counts.
    """
    graph = step_of(context).job_def.asset_layer.asset_graph
    head = find_commit(repository, run.branch)
    if head is None or not partition_of(run_of(context)):
        return set()
    whole = {
        key.to_user_string()
        for key in graph.get_all_asset_keys()
        if graph.get(key).partitions_def is None
    }
    return {
        change.path
        for commit in own_commits(repository, head.id, run.key)
        if (names := assets_of(commit)) and whole.issuperset(names)
        for change in repository.diff(commit.parents[0], commit.id)
    }
