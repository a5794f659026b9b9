"""A sensor of commits: each commit starts a job or becomes an event of an asset."""

from collections.abc import Collection, Iterable, Sequence

import dagster as dg
from dagster._core.definitions.unresolved_asset_job_definition import (
    UnresolvedAssetJobDefinition,  # the result of `define_asset_job`; it has no public name
)

from dagster_graveler.context import keys_of_window, read_window
from dagster_graveler.materializations import find_run
from dagster_graveler.resource import GravelerResource
from graveler.base.arguments import choice, count, instance, optional, prefix_text, text
from graveler.errors import InvalidInputError, NotFoundError
from graveler.ingest import ARRIVED, INGEST, HourKind, commit_hours, file_hours
from graveler.lake import Repository
from graveler.model import Commit
from graveler_common.history import commits_after, has_changed

_DATA_VERSION = "dagster/data_version"
_JOBS = (dg.JobDefinition, UnresolvedAssetJobDefinition)


def build_commit_sensor(
    name: str,
    *,
    job: dg.JobDefinition | UnresolvedAssetJobDefinition | None = None,
    asset: dg.AssetKey | str | None = None,
    ref: str = "",
    prefix: str = "",
    partitions_def: dg.PartitionsDefinition[str] | None = None,
    hours: Iterable[str] = ARRIVED,
    since: str = "",
    limit: int = 50,
    most: int = 1000,
    minimum_interval_seconds: int = 30,
    default_status: dg.DefaultSensorStatus = dg.DefaultSensorStatus.STOPPED,
) -> dg.SensorDefinition:
    """Return a sensor that reports each commit of a branch once, oldest first.

    It needs the resource ``graveler``. It follows first parents, so a published run is one commit.
    Its cursor is the last commit that it reported. If the branch was reset, it continues from the
    common ancestor. If the commit is gone, it continues from the head. The run key is the commit's
    id, so that Dagster starts one run for each commit. A commit that a job has published does not
    start that job again.

    Args:
        job: The job to start for each commit.
        asset: The asset that gets an event for each commit, usually made elsewhere.
        ref: The branch; by default the resource's target.
        prefix: Only commits that change a path below it.
        partitions_def: The partitions of the job or the asset. The partitions of a commit are
            those of its run, its hours, or the hours in the paths that it changed; a commit
            without any is skipped. Time partitions may differ in length: an hour starts its
            day, a day starts all its hours.
        hours: Which hours of a commit count, if it changed files in folders of hours: ``on-time``,
            ``late``, ``early``, ``deleted``; by default all but ``deleted``.
        since: The commit or ref after which to begin; by default the present head.
        limit: Largest number of commits in one evaluation; the next one reports the others.
        most: Largest number of partitions of a commit in one evaluation; the next one reports the
            others.
    """
    if job is None and asset is None:
        raise InvalidInputError(
            f"commit sensor {name!r} has neither a job to start nor an asset to report on: give one"
        )
    optional(instance, job, "job", kind=_JOBS, expected="a job")
    prefix_text(prefix, "prefix")
    text(ref, "ref", empty=True)
    text(since, "since", empty=True)
    count(limit, "limit", least=1)
    count(most, "most", least=1)
    kinds = [choice(kind, "hours", tuple(HourKind)) for kind in hours]
    count(minimum_interval_seconds, "minimum_interval_seconds")

    @dg.sensor(
        name=name,
        job=job,
        description=f"Reports commits on {ref or 'the target'}{f' below {prefix}' if prefix else ''}.",
        minimum_interval_seconds=minimum_interval_seconds,
        default_status=default_status,
    )
    def sensor(context: dg.SensorEvaluationContext, graveler: GravelerResource) -> dg.SensorResult:
        repository = graveler.repo()
        head = graveler.at(ref).commit
        start, done = _start(context, repository, head, since)
        commits = list(commits_after(repository, head, start))[: -limit - 1 : -1]  # oldest first
        cursor = (commits[-1] if commits else head).id
        requests: list[dg.RunRequest] = []
        events: list[dg.AssetMaterialization] = []
        for commit in commits:
            if not has_changed(repository, commit, prefix):
                continue
            partitions: Sequence[str | None] = [None]
            if partitions_def is not None:
                with dg.partition_loading_context(dynamic_partitions_store=context.instance):
                    partitions = _partitions_of(repository, commit, partitions_def, prefix, kinds)
            many, rest = len(partitions) > 1, partitions[done:]
            partitions, done = rest[:most], done + most
            if job is not None and commit.metadata.get("dagster.job") != job.name:
                requests += [
                    dg.RunRequest(
                        run_key=f"{commit.id}:{key}" if many else commit.id,
                        partition_key=key,
                        tags={"graveler/commit": commit.id},
                    )
                    for key in partitions
                ]
            if asset is not None:
                events += [
                    dg.AssetMaterialization(
                        asset_key=asset,
                        partition=key,
                        description=commit.message,
                        metadata=graveler.links(commit),
                        tags={_DATA_VERSION: commit.id},
                    )
                    for key in partitions
                ]
            if len(rest) > most:
                cursor = f"{commit.id}+{done}"
                break
            done = 0
        return dg.SensorResult(
            run_requests=requests,
            asset_events=events,
            cursor=cursor,
            skip_reason=None if requests or events else f"nothing new at {head.id[:12]}",
        )

    return sensor


def _start(
    context: dg.SensorEvaluationContext, repository: Repository, head: Commit, since: str
) -> tuple[Commit | None, int]:
    """Return the commit after which to begin, and the partitions that the next one has had."""
    if not context.cursor:
        return (repository.commit(since) if since else head), 0
    name, _, done = context.cursor.partition("+")
    try:
        commit = repository.commit(name)
    except NotFoundError:
        context.log.warning("commit %s no longer exists: continuing from %s", name, head.id)
        return head, 0
    if not done:
        return commit, 0
    return (repository.commit(commit.parents[0]) if commit.parents else None), int(done)


def _partitions_of(
    repository: Repository,
    commit: Commit,
    definition: dg.PartitionsDefinition[str],
    prefix: str,
    kinds: Collection[str],
) -> Sequence[str]:
    """Return the partitions that a commit is about, in order.

    They are the partitions of its run, else the hours in its metadata, else the hours
    (``2013/01/01/05:00/``) in the paths that it changed. For a Dagster run with a window of time,
    and for its rollback, they are all partitions that overlap the window. For a commit of an
    ingestion branch the hours in its paths count, and that of its tick.
    """
    timed = definition if isinstance(definition, dg.TimeWindowPartitionsDefinition) else None
    about = {} if INGEST in commit.metadata else commit.metadata
    rolled_back = about.get("graveler.rollback")
    run = find_run(repository, rolled_back) if rolled_back else None
    window = read_window(about if run is None else run.metadata)
    if timed is not None and window:
        return keys_of_window(timed, *window)
    first, _, last = about.get("dagster.partition", "").partition("...")
    if first and all(definition.has_partition_key(key) for key in (first, last or first)):
        return definition.get_partition_keys_in_range(dg.PartitionKeyRange(first, last or first))
    if timed is None:
        return []
    times = file_hours(about) or commit_hours(repository.stores, commit, prefix=prefix, kinds=kinds)
    keys = (timed.get_partition_key_for_timestamp(time.timestamp()) for time in times)
    return [key for key in dict.fromkeys(keys) if definition.has_partition_key(key)]
