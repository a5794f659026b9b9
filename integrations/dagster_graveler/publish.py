"""Publishing as an asset: what materializes it has moved the target, what does not has not."""

from collections.abc import Iterable

import dagster as dg

from dagster_graveler.gates import verdict_table
from dagster_graveler.resource import GravelerResource
from graveler.errors import GateFailedError, MergeConflictError
from graveler.gates import Gate, Verdict
from graveler.gates.gate import Check

__all__ = ["build_publish_asset"]


def build_publish_asset(
    name: str,
    deps: Iterable[dg.AssetKey | str | dg.AssetsDefinition],
    *,
    gates: Iterable[Gate | Check] = (),
    partitions_def: dg.PartitionsDefinition[str] | None = None,
    strategy: str | None = None,
    group_name: str | None = None,
) -> dg.AssetsDefinition:
    """Return the asset that publishes the run of its Dagster run, if every gate lets it.

    It needs the resource ``graveler``. Its data version and its metadata ``graveler/commit`` are
    the commit that main moved to. A refusal fails it, without a retry, and main stays.

    Args:
        name: Of the asset.
        deps: Every asset that is to be published; a blocking check of any of them stops it.
        gates: What is asked about what main would become.
        partitions_def: As that of the assets.
        strategy: ``source-wins`` or ``dest-wins`` where paths conflict.
        group_name: Dagster's group.
    """
    asked = tuple(gates)

    @dg.asset(
        name=name,
        deps=list(deps),
        partitions_def=partitions_def,
        group_name=group_name,
        description="The run's branch, published: the target holds it as of the commit shown.",
        kinds={"graveler"},
    )
    def publish(
        context: dg.AssetExecutionContext, graveler: GravelerResource
    ) -> dg.MaterializeResult[None]:
        run = graveler.run(context)
        try:
            result = run.publish(asked, strategy=strategy)
        except GateFailedError as refusal:
            raise _failure(refusal, refusal.verdicts) from refusal
        except MergeConflictError as conflict:
            raise _failure(conflict, ()) from conflict
        return dg.MaterializeResult(
            metadata={
                "graveler/commit": result.commit.id,
                "graveler/run": run.key,
                "graveler/into": graveler.into,
                "graveler/already": result.already,
                "graveler/verdicts": verdict_table(result.verdicts),
            },
            data_version=dg.DataVersion(result.commit.id),
        )

    return publish


def _failure(error: Exception, verdicts: Iterable[Verdict]) -> dg.Failure:
    """Return the failure that Dagster does not retry: the same content is refused again."""
    return dg.Failure(
        description=str(error),
        metadata={"graveler/verdicts": verdict_table(verdicts)},
        allow_retries=False,
    )
