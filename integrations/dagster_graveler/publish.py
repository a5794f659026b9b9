"""Publishing as an asset: what materializes it has moved the target, what does not has not."""

from collections.abc import Iterable, Mapping
from typing import Any, Final

import dagster as dg

from dagster_graveler.changes import change_metadata, changes_of
from dagster_graveler.gates import verdict_table
from dagster_graveler.resource import GravelerResource
from graveler.errors import GateFailedError, MergeConflictError
from graveler.gates import Gate, Verdict
from graveler.gates.gate import Check
from graveler.lake import PublishResult, Run

__all__ = ["PUBLISH_POOL", "build_publish_asset", "published_metadata"]

PUBLISH_POOL: Final = "graveler_publish"
"""Dagster's pool of all publishing assets. Without a limit it does nothing; a limit of 1 spares
runs that publish side by side the work of merging anew."""

_SHOWN: Final = 50


def build_publish_asset(  # noqa: PLR0913 - all but the first two have a default
    name: str,
    deps: Iterable[dg.AssetKey | str | dg.AssetsDefinition],
    *,
    gates: Iterable[Gate | Check] = (),
    partitions_def: dg.PartitionsDefinition[str] | None = None,
    backfill_policy: dg.BackfillPolicy | None = None,
    strategy: str | None = None,
    group_name: str | None = None,
    pool: str | None = PUBLISH_POOL,
) -> dg.AssetsDefinition:
    """Return the asset that publishes the run of its Dagster run, if every gate lets it.

    It needs the resource ``graveler``. Its data version and its metadata ``graveler/commit`` are
    the commit that main moved to. A refusal fails it, without a retry, and main stays.

    Args:
        name: Of the asset.
        deps: Every asset that is to be published; a blocking check of any of them stops it.
        gates: What is asked about what main would become.
        partitions_def: As that of the assets.
        backfill_policy: As that of the assets: with ``BackfillPolicy.single_run()`` all the
            partitions of a backfill are published in one commit.
        strategy: ``source-wins`` or ``dest-wins`` where paths conflict.
        group_name: Dagster's group.
        pool: Dagster's pool.
    """
    asked = tuple(gates)

    @dg.asset(
        name=name,
        deps=list(deps),
        partitions_def=partitions_def,
        group_name=group_name,
        description="The run's branch, published: the target holds it as of the commit shown.",
        kinds={"graveler"},
        pool=pool,
        backfill_policy=backfill_policy,
    )
    def publish(
        context: dg.AssetExecutionContext, graveler: GravelerResource
    ) -> dg.MaterializeResult[None]:
        run = graveler.run(context)
        try:
            result = run.publish(asked, strategy=strategy)
        except GateFailedError as refusal:
            raise _failure(refusal, run, _verdicts(refusal.verdicts)) from refusal
        except MergeConflictError as conflict:
            raise _failure(conflict, run, _conflicts(conflict)) from conflict
        return dg.MaterializeResult(
            metadata=published_metadata(graveler, run, result),
            data_version=dg.DataVersion(result.commit.id),
        )

    return publish


def published_metadata(
    graveler: GravelerResource, run: Run, result: PublishResult
) -> Mapping[str, Any]:
    """Return what Dagster shows of a publish, of bounded size however much it changed."""
    commit = result.commit
    # a run that changed nothing ends at a commit that somebody else has made
    ours = commit.metadata.get("graveler.run") == run.key
    return {  # in the order in which Dagster shows it
        **(change_metadata(changes_of(graveler.repo(), commit)) if ours else {}),
        **_verdicts(result.verdicts),
        "graveler/commit": commit.id,
        "graveler/run": run.key,
        "graveler/attempt": run.attempt,
        "graveler/into": graveler.into,
        "graveler/already": result.already,
        **graveler.links(commit.id),
    }


def _verdicts(verdicts: Iterable[Verdict]) -> Mapping[str, Any]:
    return {"graveler/verdicts": verdict_table(verdicts)}


def _conflicts(error: MergeConflictError) -> Mapping[str, Any]:
    shown = [conflict.path for conflict in error.conflicts[:_SHOWN]]
    return {"graveler/conflicts": dg.MetadataValue.json(shown)}


def _failure(error: Exception, run: Run, metadata: Mapping[str, Any]) -> dg.Failure:
    """Return the failure that Dagster does not retry: the same content is refused again."""
    return dg.Failure(
        description=str(error),
        metadata={"graveler/run": run.key, "graveler/branch": run.branch, **metadata},
        allow_retries=False,
    )
