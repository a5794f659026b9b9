"""A sensor of commits: what was published starts a job, or shows as an event of an asset."""

import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from itertools import islice
from typing import Final

import dagster as dg
from dagster._core.definitions.unresolved_asset_job_definition import (
    UnresolvedAssetJobDefinition,  # what `define_asset_job` returns; it has no public name
)

from dagster_graveler.resource import GravelerResource
from dagster_graveler.run.window import keys_of_window, window_told
from graveler.errors import NotFoundError, RunNotFoundError
from graveler.ingest import INGEST, hours_told
from graveler.lake import Repository
from graveler.model import Commit

__all__ = ["build_commit_sensor", "commits_since", "partitions_of_commit"]

_HOUR: Final = re.compile(r"(?<![0-9])([0-9]{4})/([0-9]{2})/([0-9]{2})/([0-9]{2}):([0-9]{2})/")
_DATA_VERSION: Final = "dagster/data_version"
_LOOKED_AT: Final = 50_000


def build_commit_sensor(  # noqa: PLR0913 - all but the first have a default
    name: str,
    *,
    job: dg.JobDefinition | UnresolvedAssetJobDefinition | None = None,
    asset: dg.AssetKey | str | None = None,
    ref: str = "",
    prefix: str = "",
    partitions_def: dg.PartitionsDefinition[str] | None = None,
    since: str = "",
    limit: int = 50,
    minimum_interval_seconds: int = 30,
    default_status: dg.DefaultSensorStatus = dg.DefaultSensorStatus.STOPPED,
) -> dg.SensorDefinition:
    """Return a sensor that tells of each commit of a branch once, the oldest first.

    It needs the resource ``graveler``. It follows first parents: of a run that was published it
    sees the one commit by which main moved. Its cursor is the commit it told of last; where the
    branch was put back, or the commit is gone, it goes on from where the histories part. The run
    key is the commit's id, so that Dagster starts a run for it once. What a job has published
    itself does not start it again.

    Args:
        name: Of the sensor.
        job: Is started for each commit.
        asset: Gets an event for each commit: the branch as an asset that others make.
        ref: The branch; the resource's target where not given.
        prefix: Only commits that change something below it.
        partitions_def: That of the job or the asset. Which partitions a commit is about is told
            by the run that made it, by its hours, or by those in the paths it changed; a
            commit that is about none is passed over. Where both are of time, they may be of
            different length: hours start their day, a day all of its hours.
        since: The commit or ref to begin behind; what is there at first is no news where not
            given.
        limit: Commits told of in one look; the others follow in the next one.
        minimum_interval_seconds: How often it looks.
        default_status: Whether it is on without anybody having turned it on.
    """

    @dg.sensor(
        name=name,
        job=job,
        description=f"Tells of commits on {ref or 'the target'}{f' below {prefix}' if prefix else ''}.",
        minimum_interval_seconds=minimum_interval_seconds,
        default_status=default_status,
    )
    def sensor(context: dg.SensorEvaluationContext, graveler: GravelerResource) -> dg.SensorResult:
        repository = graveler.repo()
        head = repository.commit(ref or graveler.into)
        news = commits_since(repository, head, _start(context, repository, head, since))
        told = news[:limit]
        requests: list[dg.RunRequest] = []
        events: list[dg.AssetMaterialization] = []
        for commit in told:
            if not _concerns(repository, commit, prefix):
                continue
            with dg.partition_loading_context(dynamic_partitions_store=context.instance):
                partitions = (
                    [None]
                    if partitions_def is None
                    else partitions_of_commit(repository, commit, partitions_def, prefix=prefix)
                )
            if job is not None and commit.metadata.get("dagster.job") != job.name:
                requests += [_request(commit, key, many=len(partitions) > 1) for key in partitions]
            if asset is not None:
                events += [_event(graveler, asset, commit, key) for key in partitions]
        return dg.SensorResult(
            run_requests=requests,
            asset_events=events,
            cursor=(told[-1] if told else head).id,
            skip_reason=None if requests or events else f"nothing new at {head.id[:12]}",
        )

    return sensor


def commits_since(repository: Repository, head: Commit, start: Commit) -> list[Commit]:
    """Return the commits of `head` that `start` has not, along first parents, the oldest first.

    `start` need not be an ancestor of `head`: then they are those since their ways parted.
    """
    news: list[Commit] = []
    new: Commit | None = head
    old: Commit | None = start
    while new is not None and (old is None or new.id != old.id):
        if old is not None and old.generation > new.generation:
            old = _first_parent(repository, old)
            continue
        news.append(new)
        new = _first_parent(repository, new)
    news.reverse()
    return news


def _first_parent(repository: Repository, commit: Commit) -> Commit | None:
    return repository.commit(commit.parents[0]) if commit.parents else None


def _start(
    context: dg.SensorEvaluationContext, repository: Repository, head: Commit, since: str
) -> Commit:
    if context.cursor:
        try:
            return repository.commit(context.cursor)
        except NotFoundError:
            context.log.warning(
                "commit %s is not there any more: going on from %s", context.cursor, head.id
            )
            return head
    return repository.commit(since) if since else head


def _concerns(repository: Repository, commit: Commit, prefix: str) -> bool:
    if not prefix:
        return True
    if not commit.parents:
        return False
    return any(repository.diff(commit.parents[0], commit.id, prefix=prefix))


def partitions_of_commit(
    repository: Repository,
    commit: Commit,
    definition: dg.PartitionsDefinition[str],
    *,
    prefix: str = "",
) -> Sequence[str]:
    """Return the partitions that a commit is about, in order.

    They are told by the run that made it, in Dagster or elsewhere, by the hours that it says its
    files are of, or else by those (``2013/01/01/05:00/``) in the paths that it changed. Of a
    Dagster run for a time it is all partitions that share some of its window, and so for a
    commit that takes such a run back. A commit of an ingestion branch goes by its hours alone, whichever run made it: late files and hours
    that had to wait are published with the hour of a later run.
    """
    timed = definition if isinstance(definition, dg.TimeWindowPartitionsDefinition) else None
    if timed is not None and (window := _window(repository, commit)):
        return keys_of_window(timed, *window)
    named = "" if INGEST in commit.metadata else commit.metadata.get("dagster.partition", "")
    first, _, last = named.partition("...")
    if first and all(definition.has_partition_key(key) for key in (first, last or first)):
        return definition.get_partition_keys_in_range(dg.PartitionKeyRange(first, last or first))
    if timed is None:
        return []
    times = hours_told(commit.metadata) or sorted(set(_hours(repository, commit, prefix)))
    keys = (timed.get_partition_key_for_timestamp(time.timestamp()) for time in times)
    return [key for key in dict.fromkeys(keys) if definition.has_partition_key(key)]


def _window(repository: Repository, commit: Commit) -> tuple[datetime, datetime] | None:
    if INGEST in commit.metadata:
        return None
    taken_back = commit.metadata.get("graveler.rollback")
    if not taken_back:
        return window_told(commit.metadata)
    with suppress(RunNotFoundError):
        return window_told(repository.runs.get(taken_back).metadata)
    return None


def _hours(repository: Repository, commit: Commit, prefix: str) -> Iterator[datetime]:
    if not commit.parents:
        return
    changes = repository.diff(commit.parents[0], commit.id, prefix=prefix)
    for change in islice(changes, _LOOKED_AT):
        if found := _HOUR.search(change.path):
            try:
                yield datetime(*map(int, found.groups()), tzinfo=UTC)  # type: ignore[misc, arg-type] # five numbers
            except ValueError:
                continue  # month 13: not an hour, whatever it is


def _request(commit: Commit, partition: str | None, *, many: bool) -> dg.RunRequest:
    return dg.RunRequest(
        run_key=f"{commit.id}:{partition}" if many else commit.id,
        partition_key=partition,
        tags={"graveler/commit": commit.id},
    )


def _event(
    graveler: GravelerResource, asset: dg.AssetKey | str, commit: Commit, partition: str | None
) -> dg.AssetMaterialization:
    return dg.AssetMaterialization(
        asset_key=asset,
        partition=partition,
        description=commit.message,
        metadata={
            "graveler/commit": commit.id,
            "graveler/run": commit.metadata.get("graveler.run", ""),
            **graveler.links(commit.id),
        },
        tags={_DATA_VERSION: commit.id},
    )
