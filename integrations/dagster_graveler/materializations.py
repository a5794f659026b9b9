"""What Dagster shows as materialized, compared with the lake: the state of the run decides."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from weakref import WeakKeyDictionary

import dagster as dg

from dagster_graveler.context import step_of
from dagster_graveler.pipes import ATTEMPT, COMMIT, RUN
from graveler.errors import RunNotFoundError
from graveler.lake import Repository, Run, RunRecord, RunState
from graveler.model import Commit
from graveler_common.history import commits_after, find_commit, own_commits

PUBLISHED = "graveler/published_as"
"""Name in the metadata of an observation: the commit with which the target has the asset."""

UNPUBLISHED = "allow_unpublished"
"""Name in the metadata of an input that may be read from the open branch of another run."""

_BATCH = 500
_MOST_KNOWN = 100_000
_FEW_RUNS = 16
_known: "WeakKeyDictionary[dg.DagsterInstance, dict[int, Made | None]]" = WeakKeyDictionary()


@dataclass(frozen=True, slots=True)
class Made:
    """The newest materialization of a partition."""

    run: str
    attempt: int
    commit: str = ""

    def is_on_branch(self, record: RunRecord) -> bool:
        """Return whether the run's branch still has what no publish has brought to its target."""
        published = max((publish.attempt for publish in record.publishes), default=0)
        return self.attempt >= max(record.forked, published + 1)

    def is_published_by(self, metadata: Mapping[str, str]) -> bool:
        """Return whether the commit of a publish with this metadata has it."""
        attempt = int(metadata.get("graveler.attempt", "0"))
        return metadata.get("graveler.run") == self.run and attempt >= self.attempt


def newest(
    instance: dg.DagsterInstance, asset: dg.AssetKey, partitions: Collection[str]
) -> Mapping[str, Made]:
    """Return the newest materialization of each partition that graveler wrote, by partition.

    The storage ids are one query. The metadata of those that this process has not seen are read.
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


def observations(
    run: Run | RunRecord,
    commit: Commit,
    assets: Iterable[str],
    partitions: Sequence[str],
    graph: Any = None,
) -> Iterator[dg.AssetObservation]:
    """Yield the observations of a publish: for each asset, that the target has it."""
    for key in map(dg.AssetKey.from_user_string, sorted(assets)):
        is_whole = graph is not None and graph.has(key) and graph.get(key).partitions_def is None
        for partition in [""] if is_whole else (partitions or [""]):
            yield dg.AssetObservation(
                key,
                partition=partition or None,
                description=f"{run.into} has it, as of commit {commit.id}",
                metadata={PUBLISHED: commit.id, RUN: run.key, ATTEMPT: run.attempt},
            )


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
    repository: Repository,
    head: Commit,
    context: dg.AssetExecutionContext | dg.OpExecutionContext,
    run: Run,
    *,
    loaded: bool = True,
) -> dict[str, dict[str, str]]:
    """Refuse a step whose branch does not have an asset that it depends on as Dagster shows it."""
    step = step_of(context)
    layer = step.job_def.asset_layer
    graph = layer.asset_graph
    shown: dict[str, dict[str, str]] = {}
    others: dict[Made, str] = {}
    for name, given in step.op_def.input_dict.items():
        key = layer.get_asset_key_for_node_input(step.node_handle, name)
        by_hand = given.dagster_type.is_nothing or (loaded and not given.metadata.get(UNPUBLISHED))
        if key is None or not by_hand:
            continue
        is_whole = not graph.has(key) or graph.get(key).partitions_def is None
        keys = [""] if is_whole else context.asset_partition_keys_for_input(name)
        made = newest(context.instance, key, keys)
        shown[key.to_user_string()] = {partition: one.run for partition, one in made.items()}
        others |= {
            one: part_text(key, partition) for partition, one in made.items() if one.run != run.key
        }
    refuse_unpublished(repository, others)
    record = run.record
    if record.base != head.id and not record.published:
        for commit in commits_after(repository, head, repository.commit(record.base)):
            for one, part in others.items():
                if one.is_published_by(commit.metadata):
                    raise dg.Failure(
                        f"{part} was published as {commit.id[:12]}, after run {run.key!r} had "
                        f"forked from {run.into!r}: read it with `graveler.at()`, or as an "
                        "argument; or launch all steps again",
                        allow_retries=False,
                    )
    return shown


def part_text(asset: dg.AssetKey | str, partition: str) -> str:
    """Return an asset and its partition as text."""
    name = asset if isinstance(asset, str) else asset.to_user_string()
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
        if (record := live.get(one.run)) is not None and one.is_on_branch(record)
    }


def refuse_unpublished(repository: Repository, parts: Mapping[Made, str]) -> None:
    """Refuse materializations, with their texts, that only the branch of an unfinished run has."""
    for one, record in unpublished(repository, parts).items():
        raise refusal(parts[one], record)


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
