"""Daily maintenance of a repository, as a job for a schedule.

::

    job = build_maintenance_job()
    defs = dg.Definitions(schedules=[dg.ScheduleDefinition(job=job, cron_schedule="0 3 * * *")],
                          resources={"graveler": GravelerResource(lake=..., repository=...)})
"""

import dagster as dg

from dagster_graveler.display import failure_of
from dagster_graveler.resource import GravelerResource
from graveler.base.arguments import flag
from graveler.errors import GravelerError
from graveler_common.history import maintenance_row


def build_maintenance_job(
    name: str = "graveler_maintenance", *, pack: bool = True, reap: bool = True, gc: bool = True
) -> dg.JobDefinition:
    """Return the job that packs branches, reaps runs and collects garbage.

    It needs the resource ``graveler``. Branches are packed by the rule of packing. Garbage is
    collected only if there is a retention rule. A branch or a step that fails does not stop the
    others. The metadata of the op's output or of its failure list the completed work, and the
    failure names the failed parts.

    Args:
        name: The job's name.
        pack: Pack branches.
        reap: Reap runs.
        gc: Collect garbage.
    """
    flag(pack, "pack"), flag(reap, "reap"), flag(gc, "gc")

    @dg.op(name=f"{name}_run", description="Packs branches, reaps runs and collects garbage.")
    def maintain(context: dg.OpExecutionContext, graveler: GravelerResource) -> None:
        try:
            done = graveler.repo().maintain(pack=pack, reap=reap, gc=gc)
        except GravelerError as error:
            raise failure_of(error) from error
        row = maintenance_row(done)
        metadata = {f"graveler/{what}": dg.MetadataValue.json(row[what]) for what in row}
        try:
            done.check()
        except GravelerError as error:
            raise failure_of(error, metadata) from error
        context.add_output_metadata(metadata)

    @dg.job(name=name, description="Packs branches, reaps runs and collects garbage.")
    def job() -> None:
        maintain()

    return job
