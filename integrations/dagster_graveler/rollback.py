"""A job, started by hand, that rolls back a published run."""

from collections.abc import Mapping
from typing import Any

import dagster as dg

from dagster_graveler.dependencies import published_assets
from dagster_graveler.display import change_metadata, failure_of, reader_table
from dagster_graveler.resource import GravelerResource
from graveler.errors import GravelerError
from graveler.lake import Rollback, RunRecord
from graveler_common.history import changes_of


class RollbackConfig(dg.Config):
    """The publish to roll back.

    Attributes:
        run: The run's key, as ``dagster flights_job 2013-01-01-05:00``, or the id of the commit
            that published it.
        into: With a key, the branch of the publish; by default the target of the resource.
        message: The message of the rollback commit; by default it names the run.
    """

    run: str
    into: str = ""
    message: str = ""


def build_rollback_job(
    name: str = "graveler_rollback", *, publish: dg.AssetKey | str | None = None
) -> dg.JobDefinition:
    """Return the job that rolls back a published run by one commit on its target.

    It needs the resource ``graveler``, and is started with the run's key as configuration. It lists
    the runs that have read the files of the run, and people decide whether to repeat them. If later
    commits changed the same paths, it fails and the target does not move.

    Args:
        name: The job's name.
        publish: The publishing asset, which gets an observation about its partition, as its assets do.
    """

    @dg.op(name=f"{name}_run", description="Reverts a published run in one commit.")
    def rollback(
        context: dg.OpExecutionContext, config: RollbackConfig, graveler: GravelerResource
    ) -> None:
        try:
            runs, into = graveler.repo().runs, config.into or graveler.into
            context.log.info("rolling back %s", runs.plan_rollback(config.run, into=into))
            done = runs.rollback(
                config.run,
                into=into,
                message=config.message or None,
                metadata={"orchestrator": "dagster", "dagster.run_id": context.run.run_id},
            )
        except GravelerError as error:
            raise failure_of(error) from error
        metadata = _metadata(graveler, done)
        context.add_output_metadata(metadata)
        names = published_assets(graveler.repo(), graveler.repo().commit(done.publish.commit))
        made = map(dg.AssetKey.from_user_string, sorted(names))
        for asset in () if publish is None else (publish, *made):
            context.log_event(
                dg.AssetObservation(
                    asset,
                    description=f"rolled back: {done.commit.message}",
                    metadata=metadata,
                    partition=_partition(done.record),
                )
            )

    @dg.job(name=name, description="Rolls a published run back, by one commit on its target.")
    def job() -> None:
        rollback()

    return job


def _metadata(graveler: GravelerResource, done: Rollback) -> Mapping[str, Any]:
    return {
        "graveler/rollback": done.commit.id,
        "graveler/run": done.record.key,
        "graveler/published": done.publish.commit,
        "graveler/attempt": done.publish.attempt,
        "graveler/into": done.publish.into,
        "graveler/state": str(done.record.state),
        "graveler/already": done.already,
        "graveler/readers": reader_table(done.readers),
        **graveler.links(done.commit.id),
        **change_metadata(changes_of(graveler.repo(), done.commit)),
    }


def _partition(record: RunRecord) -> str | None:
    partition = record.metadata.get("dagster.partition", "")
    return partition if partition and "..." not in partition else None
