"""Publishing as an asset: it is materialized only if the target has moved."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import dagster as dg

from dagster_graveler.context import run_partitions, step_of
from dagster_graveler.dependencies import (
    dependency_gates,
    publish_work,
    published_assets,
    shared_paths,
)
from dagster_graveler.display import (
    change_metadata,
    code_references,
    failure_of,
    final_failure,
    verdict_table,
)
from dagster_graveler.gates import as_checks, check_results, check_specs
from dagster_graveler.materializations import made_by, observations
from dagster_graveler.resource import GravelerResource
from graveler.base.arguments import each, text
from graveler.errors import (
    GateFailedError,
    InvalidInputError,
    MergeConflictError,
    RefNotFoundError,
    RunStateError,
)
from graveler.gates.gate import Check, Gate, as_gates
from graveler.lake import PublishResult, Run
from graveler.repository.strategies import Strategy, check_strategy
from graveler_common.history import changes_of

PUBLISH_POOL = "graveler_publish"
"""Dagster's pool of all publishing assets. Without a limit it has no effect. With a limit of 1,
concurrent publishes need not repeat their merges."""

WITH_DEPS = dg.AutomationCondition.any_deps_match(
    dg.AutomationCondition.will_be_requested()
).with_label("an asset that it publishes is requested")
"""Publish in the run of assets that their own automation conditions request."""

_WAITS = 60
_WAIT_S = 10
_MARK = "graveler/publish"


def build_publish_asset(
    name: str,
    deps: Iterable[dg.AssetKey | str | dg.AssetsDefinition],
    *,
    gates: Iterable[Gate | Check] = (),
    checks: Iterable[Gate | Check] | None = None,
    partitions_def: dg.PartitionsDefinition[str] | None = None,
    backfill_policy: dg.BackfillPolicy | None = None,
    strategy: Strategy | None = None,
    group_name: str | None = None,
    pool: str | None = PUBLISH_POOL,
    automation_condition: dg.AutomationCondition | None = WITH_DEPS,  # type: ignore[type-arg]
) -> dg.AssetsDefinition:
    """Return the asset that publishes the graveler run of its Dagster run, if every gate passes.

    It needs the resource ``graveler``. Its data version and its metadata ``graveler/commit`` are
    the commit that main moved to. In these cases it fails without a retry, and main does not move:
    a gate refuses; another publishing asset is in the same Dagster run; the branch has files of
    assets that are neither in `deps` nor upstream of them; or the Dagster run does not make an asset
    of `deps`, and main did not have it when the run began.

    Args:
        deps: Every asset to publish; a blocking check of any of them stops it.
        gates: Checks of the tree that main would get.
        checks: The gates that Dagster shows as checks of this asset; by default all. Leave out gates
            that `graveler_gates` shows as checks of another asset.
        partitions_def: The partitions of the assets.
        backfill_policy: The policy of the assets: with ``BackfillPolicy.single_run()`` all the
            partitions of a backfill are published in one commit.
        strategy: ``source-wins`` or ``dest-wins`` for paths in conflict.
        automation_condition: When Dagster requests it; by default in every run that it requests
            for any of `deps`, so that assets with conditions of their own are published.
    """
    text(name, "name")
    check_strategy(strategy)
    deps = list(each(deps, "deps", (dg.AssetKey, str, dg.AssetsDefinition), "assets"))
    if not deps:
        raise InvalidInputError(f"{name!r} publishes no assets: give them as `deps`")
    judged = as_gates(gates)
    shown = as_checks(judged if checks is None else checks)
    if unjudged := [gate.name for gate in shown.values() if gate not in judged]:
        raise InvalidInputError(
            f"checks {unjudged} are none of the gates of {name!r}, so that nothing judges them: "
            "give them as gates too"
        )

    @dg.asset(
        name=name,
        deps=deps,
        partitions_def=partitions_def,
        group_name=group_name,
        description="The run's branch, published: the target holds it as of the commit shown.",
        kinds={"graveler"},
        tags={_MARK: ""},
        pool=pool,
        backfill_policy=backfill_policy,
        automation_condition=automation_condition,
        metadata=code_references(judged),
        check_specs=check_specs(shown, name, partitions_def, blocking=False),
    )
    def publish(
        context: dg.AssetExecutionContext, graveler: GravelerResource
    ) -> Iterator[dg.AssetCheckResult | dg.MaterializeResult[None]]:
        key, graph = context.asset_key, step_of(context).job_def.asset_layer.asset_graph
        _check_alone(graph)
        keys = run_partitions(step_of(context))
        upstream = graph.get_ancestor_asset_keys(key) | context.assets_def.asset_deps[key]
        repository, run = graveler.repo(), graveler.run(context)
        made, about = made_by(repository, run), {"graveler/run": run.key}
        everything = [*judged, *dependency_gates(context, repository, run, made)]
        shared = shared_paths(context, repository, run)
        try:
            result = publish_work(
                repository, run, made, everything, upstream, strategy=strategy, shared=shared
            )
        except dg.Failure as failure:  # it waits for the runs whose branches it has read
            if failure.allow_retries:
                raise dg.RetryRequested(_WAITS, _WAIT_S) from failure
            raise
        except (GateFailedError, MergeConflictError, RunStateError, RefNotFoundError) as error:
            about["graveler/branch"] = run.branch
            if isinstance(error, GateFailedError):
                yield from check_results(shown, error.verdicts, key, about)
            reason = graveler.explained(error) if isinstance(error, RefNotFoundError) else error
            raise failure_of(reason, about, run=run.key) from error
        _check_judged(run, result, judged)
        made |= published_assets(repository, result.commit)
        for observed in observations(run, result.commit, made, keys, graph):
            context.log_event(observed)
        about["graveler/commit"] = result.commit.id
        yield from check_results(shown, result.verdicts, key, about)
        yield dg.MaterializeResult(
            metadata=published_metadata(graveler, run, result),
            data_version=dg.DataVersion(result.commit.id),
        )

    return publish


def _check_alone(graph: Any) -> None:
    """Refuse to publish on behalf of another publishing asset, whose gates would be skipped."""
    together = {key for key in graph.executable_asset_keys if _MARK in graph.get(key).tags}
    if len(together) > 1:
        names = " and ".join(sorted(key.to_user_string() for key in together))
        raise final_failure(
            f"assets {names} are in one Dagster run, which has one branch: each would publish what "
            "the gates of the other have not judged: launch their jobs one by one, under "
            "different `name`s, or select the assets of one pipeline"
        )


def _check_judged(run: Run, result: PublishResult, gates: Iterable[Gate]) -> None:
    """Fail if the run was published by another caller, without these gates."""
    commit = result.commit
    owner = (commit.metadata.get("graveler.run"), commit.metadata.get("graveler.attempt"))
    if not result.already or owner != (run.key, str(run.attempt)) or commit.spans == ():
        return  # this call has judged, or there was nothing to judge
    judged = {verdict.gate for verdict in result.verdicts}
    if missing := [gate.name for gate in gates if gate.name not in judged]:
        raise final_failure(
            f"run {run.key!r} was published already, as {result.commit.id}, and gates "
            f"{', '.join(missing)} did not judge it: let only this asset publish; to undo the "
            f"publish, use `graveler run rollback`",
            {"graveler/run": run.key, "graveler/commit": result.commit.id},
        )


def published_metadata(
    graveler: GravelerResource, run: Run, result: PublishResult
) -> Mapping[str, Any]:
    """Return Dagster's metadata of a publish."""
    commit = result.commit
    # the commit of a run without changes belongs to another run
    ours = commit.metadata.get("graveler.run") == run.key
    return {  # in the order in which Dagster shows it
        **change_metadata(changes_of(graveler.repo(), commit) if ours else None),
        "graveler/verdicts": verdict_table(result.verdicts),
        **graveler.links(commit),
        "graveler/run": run.key,
        "graveler/attempt": run.attempt,
        "graveler/into": graveler.into,
        "dagster/uri": graveler.uri(commit.id),
        "graveler/already": result.already,
    }
