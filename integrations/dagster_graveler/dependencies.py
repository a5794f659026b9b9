"""The dependencies of a publish: each asset is in its run, or on the target that the run saw."""

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

import dagster as dg

from dagster_graveler.context import keys_of_window, partition_of, read_window, run_of, step_of
from graveler.errors import RunNotFoundError
from graveler.gates import Candidate
from graveler.gates.gate import Gate
from graveler.lake import Publish, Repository, Run
from graveler.model import Commit
from graveler_common.history import find_commit, own_commits

_STAND_IN: Final = "dagster/io_manager_key"
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
    """
    missing = _missing(context)
    if not missing:
        return []
    # a run without its branch is published
    head = find_commit(repository, run.branch)
    commits = own_commits(repository, head.id, run.key) if head else ()
    own = {name for commit in commits for name in _made(commit)}
    parts = {part for part in missing if part.asset not in own}

    def dependencies(candidate: Candidate) -> str | None:
        brought = dict(_brought(repository, candidate.target.id, parts, run.record.base))
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
        yield from (_Part(name, key) for key in context.partition_keys)
    else:
        yield _Part(name)


def _brought(
    repository: Repository, head: str, parts: Iterable[_Part], base: str
) -> Iterator[tuple[_Part, str]]:
    """Yield each published part, and the publish or rollback that changed it since `base`, or ""."""
    pending, newer = set(parts), set[str]()
    is_newer = True
    for commit in repository.log(head, first_parent=True):
        is_newer = is_newer and commit.id != base
        if is_newer:
            newer.add(commit.id)
        brought = {part for part in pending if part.is_in(commit.metadata)}
        brought &= {part for part in brought if part.asset in _published(repository, commit)}
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


def _published(repository: Repository, commit: Commit) -> set[str]:
    """Return the assets of the run that a commit publishes; none if it publishes no run."""
    key = commit.metadata.get("graveler.run")
    if not key or "graveler.published" not in commit.metadata or not commit.parents[1:]:
        return set()
    own = own_commits(repository, commit.parents[1], key)
    return {name for made in own for name in _made(made)}


def _made(commit: Commit) -> list[str]:
    return commit.metadata.get("dagster.asset", "").split(",")


def _publish(repository: Repository, key: str, commit: Commit) -> Publish | None:
    """Return the present state of a publish; None without a record of the run."""
    try:
        publishes = repository.runs.publishes(key)
    except RunNotFoundError:
        return None
    return next((publish for publish in publishes if publish.commit == commit.id), None)
