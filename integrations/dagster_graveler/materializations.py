"""What Dagster shows as materialized, compared with the lake: the state of the run decides."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

import dagster as dg

from dagster_graveler.context import BACKFILL, run_metadata, run_partitions, step_of
from graveler.errors import RunNotFoundError
from graveler.lake import Ref, Repository, Run, RunRecord, RunState
from graveler.model import Commit
from graveler_common.history import commits_after, find_commit, own_commits

if TYPE_CHECKING:
    from dagster._core.definitions.assets.graph.base_asset_graph import BaseAssetGraph

    from dagster_graveler.resource import GravelerResource

RUN = "graveler/run"
ATTEMPT = "graveler/attempt"
COMMIT = "graveler/commit"
PUBLISHED = "graveler/published_as"
"""Name in the metadata of an observation: the commit with which the target has the asset."""

UNPUBLISHED = "allow_unpublished"
"""Name in the metadata of an input that may be read from the open branch of another run."""

MISSING = "allow_missing_partitions"
"""Name in the metadata of an input of several partitions, some of which may be missing."""

_BATCH = 500
_MOST_KNOWN = 100_000
_FEW_RUNS = 16
_Known = dict[int, "Made | None"]
_known: "WeakKeyDictionary[dg.DagsterInstance, _Known]" = WeakKeyDictionary()


@dataclass(frozen=True, slots=True)
class Made:
    """The newest materialization of a partition.

    Attributes:
        run: The graveler run that wrote it.
        attempt: The attempt of that run.
        commit: The commit on the run's branch; "" if the asset wrote its files itself.
    """

    run: str
    attempt: int
    commit: str = ""

    def is_of(self, record: RunRecord) -> bool:
        """Return whether the run's branch still has what no publish has brought to its target."""
        published = max((publish.attempt for publish in record.publishes), default=0)
        return record.key == self.run and self.attempt >= max(record.forked, published + 1)

    def is_published_by(self, metadata: Mapping[str, str]) -> bool:
        """Return whether the commit of a publish with this metadata has it."""
        attempt = int(metadata.get("graveler.attempt", "0"))
        return metadata.get("graveler.run") == self.run and attempt >= self.attempt


def newest(
    instance: dg.DagsterInstance, asset: dg.AssetKey, partitions: Collection[str]
) -> Mapping[str, Made]:
    """Return the newest materialization of each partition that graveler wrote, by partition.

    The storage ids are one query. The metadata of those that this process has not seen are read.

    Args:
        instance: The instance with the event log.
        asset: The asset.
        partitions: Its partitions; "" alone for an asset without partitions.
    """
    if "" in partitions:
        records = instance.fetch_materializations(asset, limit=1).records
        made = _read(records[0]) if records else None
        return {"": made} if made else {}
    known = _known.setdefault(instance, {})
    if len(known) > _MOST_KNOWN:
        known.clear()
    ids = instance.get_latest_storage_id_by_partition(
        asset,
        dg.DagsterEventType.ASSET_MATERIALIZATION,
        set(partitions) if len(partitions) <= _BATCH else None,
    )
    wanted = {key: ids[key] for key in partitions if key in ids}
    unseen = [number for number in wanted.values() if number not in known]
    for start in range(0, len(unseen), _BATCH):
        batch = unseen[start : start + _BATCH]
        found = instance.fetch_materializations(
            dg.AssetRecordsFilter(asset_key=asset, storage_ids=batch), limit=len(batch)
        )
        known.update((record.storage_id, _read(record)) for record in found.records)
    return {key: made for key, number in wanted.items() if (made := known.get(number))}


def run_marks(run: Run) -> dict[str, Any]:
    """Return the metadata with which a materialization names its graveler run."""
    return {RUN: run.key, ATTEMPT: run.attempt, "graveler/branch": run.branch}


def observations(
    run: Run | RunRecord,
    commit: Commit,
    assets: Iterable[str],
    partitions: Sequence[str],
    graph: "BaseAssetGraph[Any] | None" = None,
) -> Iterator[dg.AssetObservation]:
    """Yield the observations of a publish: for each asset, that the target has it.

    Args:
        run: The published run, or its record.
        commit: The target's commit.
        assets: The names of the assets that the run has made.
        partitions: The partitions of the run.
        graph: The assets of the code location; without it all of them have the run's partitions.
    """
    for key in map(dg.AssetKey.from_user_string, sorted(assets)):
        is_whole = graph is not None and graph.has(key) and graph.get(key).partitions_def is None
        for partition in [""] if is_whole else (partitions or [""]):
            yield dg.AssetObservation(
                key,
                partition=partition or None,
                description=f"{run.into} has it, as of commit {commit.id}",
                metadata={PUBLISHED: commit.id, RUN: run.key, ATTEMPT: run.attempt},
            )


def input_views(
    graveler: "GravelerResource", context: dg.InputContext, folders: Collection[str]
) -> Mapping[str, Run | Ref]:
    """Return the view to read each partition of an input from.

    The run's branch has what the run wrote. For an asset of another run, the state of that run
    decides, not the time: main is read if it is over.

    Args:
        graveler: The repository.
        context: The context of the input, in a Dagster run.
        folders: The partitions; "" alone for an asset without partitions.

    Raises:
        Failure: Only the branch of another run has a partition as Dagster shows it.
    """
    view, repository = graveler.view(context), graveler.repo()
    if not context.has_asset_key:
        return dict.fromkeys(folders, view)

    def at(commit: str) -> Ref:
        return view.view(commit) if isinstance(view, Run) else repository.ref(commit)

    made = newest(context.step_context.instance, context.asset_key, folders)
    waiting = unpublished(repository, made.values())
    head = graveler.at().commit
    is_fork = isinstance(view, Run) and view.record.base == head.id
    main = view if is_fork else at(head.id)
    backfill, own = run_metadata(context).get(BACKFILL), own_parts(repository, view, context)
    views: dict[str, Run | Ref] = {}
    for partition in folders:
        one = made.get(partition)
        record = None if one is None else waiting.get(one)
        if one is None or one.run == graveler.run_key(context) or partition in own:
            views[partition] = view
        elif record is None:
            views[partition] = main
        elif context.definition_metadata.get(UNPUBLISHED) or (
            backfill and record.metadata.get(BACKFILL) == backfill
        ):
            views[partition] = at(one.commit or repository.commit(record.branch).id)
        else:
            raise refusal(part_text(context.asset_key, partition), record)
    return views


def check_none(
    graveler: "GravelerResource",
    context: dg.InputContext,
    partition: str,
    *,
    optional: bool = True,
) -> None:
    """Refuse to read a partition without files that was never made.

    Args:
        graveler: The repository.
        context: The context of the input.
        partition: The partition.
        optional: Whether it would be None, if it was made and is empty. Otherwise only a lost one is
            refused here.

    Raises:
        Failure: Dagster shows no materialization, or one that the target has lost.
    """
    instance, key, repository = context.step_context.instance, context.asset_key, graveler.repo()
    if partition:
        kind = dg.DagsterEventType.ASSET_MATERIALIZATION
        exists = bool(instance.get_latest_storage_id_by_partition(key, kind, {partition}))
    else:
        exists = bool(instance.fetch_materializations(key, limit=1).records)
    one = newest(instance, key, [partition]).get(partition)
    record = None if one is None else find_run(repository, one.run)
    lost = one is not None and one.run != graveler.run_key(context)
    if lost and record is not None:
        (present,) = repository.runs.on_targets([record])
        lost = not (record.live or present.published)
    if lost or (optional and not exists):
        why = (
            f"{one.run!r}, which made it, is not published" if one and lost else "it was never made"
        )
        raise dg.Failure(
            f"{part_text(key, partition)} has no files: {why}"
            + (
                f". None for input {context.name!r} would say that it was made, and is empty: "
                f"materialize it first, or give the input the metadata {MISSING!r}, which makes it None"
                if optional
                else ": materialize it first"
            ),
            allow_retries=False,
        )


def own_parts(repository: Repository, view: Run | Ref, context: dg.InputContext) -> Collection[str]:
    """Return the partitions of an asset that the run's branch has from the run itself."""
    name = context.asset_key.to_user_string()
    if not isinstance(view, Run) or name not in made_by(repository, view):
        return ()
    return ("", *run_partitions(context.step_context))


def made_by(repository: Repository, run: Run) -> set[str]:
    """Return the names of the assets that a run has made on its branch."""
    # a run without its branch is published
    head = find_commit(repository, run.branch)
    commits = own_commits(repository, head.id, run.key) if head else ()
    return {name for commit in commits for name in assets_of(commit)}


def assets_of(commit: Commit) -> list[str]:
    """Return the names of the assets that a step has made."""
    return [name for name in commit.metadata.get("dagster.asset", "").split(",") if name]


def check_dependencies(
    graveler: "GravelerResource",
    context: dg.AssetExecutionContext | dg.OpExecutionContext,
    run: Run,
    *,
    loaded: bool = True,
) -> dict[str, dict[str, str]]:
    """Refuse a step whose branch does not have an asset that it depends on as Dagster shows it.

    Args:
        graveler: The repository.
        context: The context of an asset, or of an op in the graph of one.
        run: The run in which the step works.
        loaded: Whether assets count that an IO manager loads, and compares, for the step.

    Returns:
        The runs that wrote these assets, by asset and partition.

    Raises:
        Failure: Only another branch, or only a later commit of the target, has the asset.
    """
    repository, step = graveler.repo(), step_of(context)
    layer = step.job_def.asset_layer
    graph = layer.asset_graph
    shown: dict[str, dict[str, str]] = {}
    everything: dict[Made, str] = {}
    for name, given in step.op_def.input_dict.items():
        key = layer.get_asset_key_for_node_input(step.node_handle, name)
        by_hand = given.dagster_type.is_nothing or (loaded and not given.metadata.get(UNPUBLISHED))
        if key is None or not by_hand:
            continue
        is_whole = key not in graph.get_all_asset_keys() or graph.get(key).partitions_def is None
        keys = [""] if is_whole else context.asset_partition_keys_for_input(name)
        made = newest(context.instance, key, keys)
        shown[key.to_user_string()] = {partition: one.run for partition, one in made.items()}
        everything |= {one: part_text(key, partition) for partition, one in made.items()}
    others = {one: part for one, part in everything.items() if one.run != run.key}
    for one, record in unpublished(repository, others).items():
        raise refusal(others[one], record)
    record, head = run.record, graveler.at().commit
    if record.base != head.id and not record.published:
        for commit in commits_after(repository, head, repository.commit(record.base)):
            if late := [
                part for one, part in others.items() if one.is_published_by(commit.metadata)
            ]:
                raise dg.Failure(
                    f"{late[0]} was published as {commit.id[:12]}, after run {run.key!r} had forked "
                    f"from {run.into!r}: read it with `graveler.at()`, or as an argument; or launch "
                    "all steps again",
                    allow_retries=False,
                )
    return shown


def part_text(asset: dg.AssetKey, partition: str) -> str:
    """Return an asset and its partition as text."""
    name = asset.to_user_string()
    return f"{name} ({partition})" if partition else name


def _read(record: dg.EventLogRecord) -> Made | None:
    event = record.asset_materialization
    metadata: Mapping[str, Any] = {} if event is None else event.metadata
    values = {name: metadata[name].value for name in (RUN, ATTEMPT, COMMIT) if name in metadata}
    if RUN not in values or ATTEMPT not in values:
        return None
    return Made(values[RUN], values[ATTEMPT], values.get(COMMIT, ""))


def unpublished(repository: Repository, made: Iterable[Made]) -> Mapping[Made, RunRecord]:
    """Return the materializations that only the branch of an unfinished run has, with that run.

    For all others main is the truth: their run was published, rolled back or abandoned.
    """
    made = set(made)
    keys = {one.run for one in made}
    few = len(keys) <= _FEW_RUNS
    found = (find_run(repository, key) for key in keys) if few else repository.runs.list(live=True)
    live = {record.key: record for record in found if record and record.live}
    return {
        one: record
        for one in made
        if (record := live.get(one.run)) is not None and one.is_of(record)
    }


def find_run(repository: Repository, key: str) -> RunRecord | None:
    """Return the record of a run, or None if there is none."""
    try:
        return repository.runs.get(key)
    except RunNotFoundError:
        return None


def refusal(part: str, record: RunRecord) -> dg.Failure:
    """Return the failure for a partition that only the branch of the run has as Dagster shows it."""
    of = f"Dagster shows a newer {part} than {record.into!r} has: run {record.key!r} wrote it, and is"
    if record.state is not RunState.PARKED:
        return dg.Failure(
            f"{of} {record.state}, not published: try again when it is published; an argument of "
            "an asset is read from the run's branch if its input has the metadata "
            "`allow_unpublished`",
            allow_retries=True,
        )
    return dg.Failure(
        f"{of} parked ({record.reason or 'no reason given'}): re-execute its Dagster run from the "
        f"failure, or launch its job again, to publish it; or `graveler run abandon {record.key!r}`, "
        f"and readers use what {record.into!r} has",
        allow_retries=False,
    )
