"""Publishing as an asset: what materializes it has moved the target, what does not has not."""

from collections.abc import Iterable, Mapping
from typing import Any, Final

import dagster as dg

from dagster_graveler.display.changes import change_metadata, changes_of
from dagster_graveler.gates import verdict_table
from dagster_graveler.resource import GravelerResource
from dagster_graveler.run.context import step_of
from dagster_graveler.run.publish_guard import check_written
from graveler.errors import GateFailedError, MergeConflictError, RunStateError
from graveler.gates import Gate, Verdict, as_gates
from graveler.gates.gate import Check
from graveler.lake import PublishResult, Run

__all__ = ["PUBLISH_POOL", "build_publish_asset", "published_metadata"]

PUBLISH_POOL: Final = "graveler_publish"
"""Dagster's pool of all publishing assets. Without a limit it does nothing; a limit of 1 spares
runs that publish side by side the work of merging anew."""

_SHOWN: Final = 50
_MARK: Final = "graveler/publish"


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
    the commit that main moved to. A refusal fails it, without a retry, and main stays. So does
    what is none of its business: another publishing asset in the same Dagster run, or files on
    the branch that assets wrote which are neither in `deps` nor upstream of them.

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
    asked = as_gates(gates)

    @dg.asset(
        name=name,
        deps=list(deps),
        partitions_def=partitions_def,
        group_name=group_name,
        description="The run's branch, published: the target holds it as of the commit shown.",
        kinds={"graveler"},
        tags={_MARK: ""},
        pool=pool,
        backfill_policy=backfill_policy,
    )
    def publish(
        context: dg.AssetExecutionContext, graveler: GravelerResource
    ) -> dg.MaterializeResult[None]:
        key, graph = context.asset_key, step_of(context).job_def.asset_layer.asset_graph
        _check_alone(
            key, [one for one in graph.executable_asset_keys if _MARK in graph.get(one).tags]
        )
        upstream = graph.get_ancestor_asset_keys(key) | context.assets_def.asset_deps[key]
        run = graveler.run(context)
        try:
            check_written(graveler.repo(), run, upstream)
            result = run.publish(asked, strategy=strategy)
        except RunStateError as error:
            raise _failure(error, run, {}) from error
        except GateFailedError as refusal:
            raise _failure(refusal, run, _verdicts(refusal.verdicts)) from refusal
        except MergeConflictError as conflict:
            raise _failure(conflict, run, _conflicts(conflict)) from conflict
        _check_asked(run, result, asked)
        return dg.MaterializeResult(
            metadata=published_metadata(graveler, run, result),
            data_version=dg.DataVersion(result.commit.id),
        )

    return publish


def _check_alone(key: dg.AssetKey, publishing: Iterable[dg.AssetKey]) -> None:
    """Refuse to publish for another publishing asset, whose gates would never be asked."""
    together = {key, *publishing}
    if len(together) > 1:
        names = " and ".join(sorted(one.to_user_string() for one in together))
        raise dg.Failure(
            description=f"assets {names} are in one Dagster run, which has one branch: either would "
            "publish what the other one's gates have not judged: launch their jobs one by one, "
            "under different `name`s, or pick the assets of one pipeline",
            allow_retries=False,
        )


def _check_asked(run: Run, result: PublishResult, gates: Iterable[Gate]) -> None:
    """Refuse to call published what somebody else has published without asking these gates."""
    commit = result.commit.metadata
    ours = (run.key, str(run.attempt))
    if not result.already or (commit.get("graveler.run"), commit.get("graveler.attempt")) != ours:
        return  # this call asked, or there was nothing to publish
    judged = {verdict.gate for verdict in result.verdicts}
    if never := [gate.name for gate in gates if gate.name not in judged]:
        raise dg.Failure(
            description=f"run {run.key!r} was published already, as {result.commit.id}, and gates "
            f"{', '.join(never)} were not asked: see to it that nothing but this asset publishes; "
            "`graveler run rollback` takes it back",
            metadata={"graveler/run": run.key, "graveler/commit": result.commit.id},
            allow_retries=False,
        )


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
