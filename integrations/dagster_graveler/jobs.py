"""Jobs on a repository: its daily maintenance, and the rollback of a published run.

::

    job = build_maintenance_job()
    defs = dg.Definitions(schedules=[dg.ScheduleDefinition(job=job, cron_schedule="0 3 * * *")],
                          resources={"graveler": GravelerResource(lake=..., repository=...)})
"""

from collections.abc import Callable

import dagster as dg

from dagster_graveler.dependencies import published_assets
from dagster_graveler.display import change_metadata, failure_of, reader_table
from dagster_graveler.resource import GravelerResource
from graveler.base.arguments import flag
from graveler.errors import GravelerError
from graveler_common.history import changes_of, maintenance_row


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


def build_maintenance_job(
    name: str = "graveler_maintenance", *, pack: bool = True, reap: bool = True, gc: bool = True
) -> dg.JobDefinition:
    """Return the job that packs branches, reaps runs and collects garbage.

    It needs the resource ``graveler``. Branches are packed by the rule of packing. Garbage is
    collected only if there is a retention rule. A branch or a step that fails does not stop the
    others. The metadata of the op's output or of its failure list the completed work, and the
    failure names the failed parts.
    """
    flag(pack, "pack"), flag(reap, "reap"), flag(gc, "gc")

    def maintain(context: dg.OpExecutionContext, graveler: GravelerResource) -> None:
        metadata = None
        try:
            done = graveler.repo().maintain(pack=pack, reap=reap, gc=gc)
            rows = maintenance_row(done).items()
            metadata = {f"graveler/{what}": dg.MetadataValue.json(row) for what, row in rows}
            done.check()
        except GravelerError as error:
            raise failure_of(error, metadata) from error
        context.add_output_metadata(metadata)

    return _job(name, "Packs branches, reaps runs and collects garbage.", maintain)


def build_rollback_job(
    name: str = "graveler_rollback", *, publish: dg.AssetKey | str | None = None
) -> dg.JobDefinition:
    """Return the job that rolls back a published run by one commit on its target.

    It needs the resource ``graveler``, and is started with the run's key as configuration. It lists
    the runs that have read the files of the run, and people decide whether to repeat them. If later
    commits changed the same paths, it fails and the target does not move.

    Args:
        publish: The publishing asset, which gets an observation about its partition, as its assets do.
    """

    def rollback(
        context: dg.OpExecutionContext, config: RollbackConfig, graveler: GravelerResource
    ) -> None:
        try:
            repository, into = graveler.repo(), config.into or graveler.into
            runs = repository.runs
            context.log.info("rolling back %s", runs.plan_rollback(config.run, into=into))
            done = runs.rollback(
                config.run,
                into=into,
                message=config.message or None,
                metadata={"orchestrator": "dagster", "dagster.run_id": context.run.run_id},
            )
        except GravelerError as error:
            raise failure_of(error) from error
        metadata = {
            "graveler/rollback": done.commit.id,
            **graveler.links(done.commit),
            "graveler/run": done.record.key,
            "graveler/published": done.publish.commit,
            "graveler/attempt": done.publish.attempt,
            "graveler/into": done.publish.into,
            "graveler/state": str(done.record.state),
            "graveler/already": done.already,
            "graveler/readers": reader_table(done.readers),
            **change_metadata(changes_of(repository, done.commit)),
        }
        context.add_output_metadata(metadata)
        names = published_assets(repository, repository.commit(done.publish.commit))
        made = map(dg.AssetKey.from_user_string, sorted(names))
        partition = done.record.metadata.get("dagster.partition", "")
        for asset in () if publish is None else (publish, *made):
            context.log_event(
                dg.AssetObservation(
                    asset,
                    description=f"rolled back: {done.commit.message}",
                    metadata=metadata,
                    partition=None if "..." in partition else partition or None,
                )
            )

    return _job(name, "Rolls a published run back, by one commit on its target.", rollback)


def _job(name: str, description: str, work: Callable[..., None]) -> dg.JobDefinition:
    op = dg.op(name=f"{name}_run", description=description)(work)

    @dg.job(name=name, description=description)
    def job() -> None:
        op()

    return job
