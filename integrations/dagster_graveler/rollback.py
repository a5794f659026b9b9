"""Taking a published run back, as a job that somebody starts by hand."""

from collections.abc import Mapping
from typing import Any

import dagster as dg

from dagster_graveler.display.changes import change_metadata, changes_of
from dagster_graveler.resource import GravelerResource
from graveler.errors import GravelerError, MergeConflictError
from graveler.lake import Rollback
from graveler.runs.record import RunRecord

__all__ = ["RollbackConfig", "build_rollback_job"]

_SHOWN = 50


class RollbackConfig(dg.Config):
    """What to take back.

    Attributes:
        run: The run's key, as ``dagster flights_job 2013-01-01-05:00``; or the id of the commit
            that published it.
        message: Of the commit that takes it back; else one that says what was done.
    """

    run: str
    message: str = ""


def build_rollback_job(
    name: str = "graveler_rollback", *, publish: dg.AssetKey | str | None = None
) -> dg.JobDefinition:
    """Return the job that takes a published run back, by one commit on its target.

    It needs the resource ``graveler``, and is started with the run's key as configuration. It
    names the runs that have read what is taken back: whether they must be run again is for
    people to say. Later changes of the same paths fail it, and the target stays.

    Args:
        name: Of the job.
        publish: The publishing asset: shows an observation that its partition was taken back.
    """

    @dg.op(name=f"{name}_run", description="Reverts a published run in one commit.")
    def rollback(
        context: dg.OpExecutionContext, config: RollbackConfig, graveler: GravelerResource
    ) -> None:
        try:
            done = graveler.repo().runs.rollback(
                config.run,
                message=config.message or None,
                metadata={"orchestrator": "dagster", "dagster.run_id": context.run.run_id},
            )
        except MergeConflictError as conflict:
            paths = [found.path for found in conflict.conflicts[:_SHOWN]]
            raise dg.Failure(
                description=str(conflict),
                metadata={"graveler/conflicts": dg.MetadataValue.json(paths)},
                allow_retries=False,
            ) from conflict
        except GravelerError as error:
            raise dg.Failure(description=str(error), allow_retries=False) from error
        metadata = _metadata(graveler, done)
        context.add_output_metadata(metadata)
        if publish is not None:
            context.log_event(
                dg.AssetObservation(
                    publish,
                    description=f"taken back: {done.commit.message}",
                    metadata=metadata,
                    partition=_partition(done.record),
                )
            )

    @dg.job(name=name, description="Takes a published run back, by one commit on its target.")
    def job() -> None:
        rollback()

    return job


def _metadata(graveler: GravelerResource, done: Rollback) -> Mapping[str, Any]:
    return {
        "graveler/rollback": done.commit.id,
        "graveler/run": done.record.key,
        "graveler/already": done.already,
        "graveler/readers": dg.MetadataValue.table(
            [
                dg.TableRecord({"run": reader.key, "state": str(reader.state)})
                for reader in done.readers
            ],
            schema=dg.TableSchema([dg.TableColumn("run"), dg.TableColumn("state")]),
        ),
        **graveler.links(done.commit.id),
        **change_metadata(changes_of(graveler.repo(), done.commit)),
    }


def _partition(record: RunRecord) -> str | None:
    named = record.metadata.get("dagster.partition", "")
    return named if named and "..." not in named else None
