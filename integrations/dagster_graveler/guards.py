"""Checks of the work that a Dagster run may resume and publish."""

from collections.abc import Collection, Iterator

import dagster as dg

from dagster_graveler.context import (
    LOCATION,
    OP_OUTPUTS,
    Identity,
    RunContext,
    identity_of,
    run_metadata,
    run_of,
    step_of,
)
from dagster_graveler.materializations import made_by
from graveler.errors import RunStateError
from graveler.lake import Branch, Repository, Run, RunRecord, RunState

_ASSETS_SKIPPED = "dagster/is_asset_resume_retry"


def check_resume(record: RunRecord | None, context: RunContext, identity: Identity) -> None:
    """Refuse an attempt that would publish work of another pipeline, or only half of its own.

    Args:
        record: The record of the run; None if there is none yet.
        context: A context of the Dagster run that opens an attempt.
        identity: The graveler run of the Dagster run.

    Raises:
        RunStateError: The run belongs to another code location, or the Dagster run skips steps
            whose work is no longer on the branch.
    """
    run = run_of(context)
    if record is not None:
        _check_location(record, run)
    if isinstance(context, dg.DagsterRun) or not run.parent_run_id:
        return  # a sensor opens no new attempt
    instance = step_of(context).instance
    if skips_steps(instance, run) and not _has_them(record, instance, run, identity):
        was = "has no branch" if record is None else f"is {record.state}, attempt {record.attempt}"
        raise RunStateError(
            f"Dagster run {run.run_id} skips steps of {run.parent_run_id}, but run "
            f"{identity.key!r} {was}, and does not hold what they wrote: re-execute all steps"
        )


def _check_location(record: RunRecord, run: dg.DagsterRun) -> None:
    theirs, ours = record.metadata.get(LOCATION), run_metadata(run).get(LOCATION)
    if record.live and theirs and ours and theirs != ours:
        raise RunStateError(
            f"run {record.key!r} is {record.state}, for code location {theirs!r}, and this is "
            f"{ours!r}: two jobs of one name cannot share a repository: give the pipelines "
            "different names; if the job has moved, or the other location does not need the run, "
            "`graveler run abandon` it"
        )


def skips_steps(instance: dg.DagsterInstance, run: dg.DagsterRun) -> bool:
    """Return whether a re-execution leaves out steps of the run that it repeats."""
    if run.tags.get(_ASSETS_SKIPPED) == "true":
        return True
    if not run.step_keys_to_execute or not run.execution_plan_snapshot_id:
        return False
    plan = instance.get_execution_plan_snapshot(run.execution_plan_snapshot_id)
    return bool({step.key for step in plan.steps} - set(run.step_keys_to_execute))


def _has_them(
    record: RunRecord | None, instance: dg.DagsterInstance, run: dg.DagsterRun, identity: Identity
) -> bool:
    """Return whether the branch or the last publish holds what earlier Dagster runs wrote."""
    opened = () if record is None else (*record.owners, record.owner)
    for parent in _parents(instance, run):
        theirs = identity_of(parent, identity.into)
        if theirs.key != identity.key:
            return False  # the run has another branch
        if record is None or theirs.owner not in opened:
            continue  # the Dagster run ended before it opened a branch
        if record.state is RunState.PUBLISHED:
            return record.owner == theirs.owner
        since_fork = record.attempt - record.forked + 1
        return record.live and theirs.owner in opened[-since_fork:]
    return True  # the skipped steps wrote nothing to the lake


def _parents(instance: dg.DagsterInstance, run: dg.DagsterRun) -> Iterator[dg.DagsterRun]:
    """Yield the run that was re-executed, the one before it, and so on."""
    parent = run.parent_run_id and instance.get_run_by_id(run.parent_run_id)
    while parent:
        yield parent
        parent = parent.parent_run_id and instance.get_run_by_id(parent.parent_run_id)


def drop_op_outputs(run: Run) -> None:
    """Remove the outputs of ops from the run's branch: they are not files of an asset."""
    if run.record.state is RunState.PUBLISHED:
        return
    branch = Branch(run.repository, run.branch)  # this listing is not an input of the run
    if paths := [entry.path for entry in branch.entries(OP_OUTPUTS)]:
        with run.step("dagster op outputs") as step:
            step.delete_many(paths)


def check_written(repository: Repository, run: Run, assets: Collection[dg.AssetKey]) -> None:
    """Refuse to publish the work of other assets, because their gates would not judge it.

    The work of ops, which belongs to no asset, is not refused; see `drop_op_outputs`.

    Args:
        repository: The repository of the run.
        run: The run, before it is published.
        assets: The assets that may be published.

    Raises:
        RunStateError: Another asset wrote on the run's branch.
    """
    names = {key.to_user_string() for key in assets}
    if writers := ", ".join(sorted(made_by(repository, run) - names)):
        raise RunStateError(
            f"run {run.key!r} holds what {writers} wrote, and here only {', '.join(sorted(names))} "
            f"may be published: publish {writers} with its own pipeline, or make it a dependency of "
            f"the publishing asset; if an earlier Dagster run left it, `graveler run abandon "
            f"{run.key!r}` and launch all assets again"
        )
