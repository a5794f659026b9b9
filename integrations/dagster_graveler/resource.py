"""The repository as a Dagster resource, which finds the graveler run of a Dagster context."""

import atexit
import logging
from collections.abc import Iterable, Mapping
from contextlib import ExitStack
from datetime import timedelta
from threading import Lock
from typing import Any

import dagster as dg

from dagster_graveler.context import (
    LOCATION,
    Identity,
    RunContext,
    StepContext,
    identity_of,
    makes_all,
    output_name,
    parents_of,
    run_metadata,
    run_of,
    step_metadata,
    step_of,
)
from dagster_graveler.materializations import check_dependencies, find_run
from dagster_graveler.pipes import pack, run_marks, start_step
from dagster_graveler.settings import LakeSettings
from graveler.errors import RefNotFoundError, RunStateError
from graveler.lake import Ref, Repository, Run, RunRecord, RunState, Step
from graveler.model import Commit
from graveler_common.lakes import shared_lake

_MOST_RUNS = 64
_ASSETS_SKIPPED = "dagster/is_asset_resume_retry"
_log = logging.getLogger(__name__)
_runs: dict[tuple[str, str], tuple[Run, ExitStack]] = {}
_lock = Lock()


class GravelerResource(LakeSettings):
    """A repository of a lake, for assets, checks and sensors.

    It has no state. The id of the Dagster run identifies its graveler run, so every step finds the
    same branch in any process.
    """

    def repo(self) -> Repository:
        """Return the repository.

        Raises:
            BackendUnavailableError: There is no lake, or it cannot be reached now.
            RepositoryNotFoundError: The lake has no such repository.
        """
        return shared_lake(self.location).repository(self.repository)

    def run_key(self, context: RunContext) -> str:
        """Return the key of the graveler run of a Dagster run: job, partition and target."""
        return identity_of(context, self.into).key

    def run(self, context: RunContext) -> Run:
        """Return the graveler run of the Dagster run of `context`.

        The first step opens it, the others attach to the same attempt. A Dagster run that executes
        all steps starts from the target's present head; a re-execution that skips some resumes from
        the commits of the earlier one.

        Raises:
            FencedError: The Dagster run is over, or a newer one has superseded it.
            RunStateError: The run belongs to another code location, or the Dagster run skips
                steps whose work is no longer on the branch.
        """
        identity = identity_of(context, self.into)
        try:
            run = self.repo().runs.open_or_attach(
                identity.key,
                owner=identity.owner,
                into=self.into,
                fresh=self._starts_afresh(context, identity),
                metadata=run_metadata(context, ui=self.ui),
                on_failure=self.on_failure,
                lease=timedelta(seconds=self.lease_seconds),
                ttl=timedelta(days=self.ttl_days),
                accepts=lambda record: self._check_resume(record, context, identity),
            )
        except RefNotFoundError as error:
            raise self.explained(error) from error
        if isinstance(context, dg.DagsterRun):
            return run  # a sensor does not work in the run
        return _shared_run(run, step_of(context).instance, run_of(context).run_id)

    def _check_resume(
        self, record: RunRecord | None, context: RunContext, identity: Identity
    ) -> None:
        """Refuse an attempt that would publish work of another pipeline, or only half of its own."""
        run = run_of(context)
        if record is not None:
            theirs, ours = record.metadata.get(LOCATION), run_metadata(run).get(LOCATION)
            if record.live and theirs and ours and theirs != ours:
                raise RunStateError(
                    f"run {record.key!r} is {record.state}, for code location {theirs!r}, and this "
                    f"is {ours!r}: two jobs of one name cannot share a repository: give the "
                    "pipelines different names; if the job has moved, or the other location does "
                    "not need the run, `graveler run abandon` it"
                )
        if isinstance(context, dg.DagsterRun) or not run.parent_run_id:
            return  # a sensor opens no new attempt
        instance = step_of(context).instance
        if _skips_steps(instance, run) and not self._has_skipped(record, instance, run, identity):
            was = f"is {record.state}, attempt {record.attempt}" if record else "has no branch"
            raise RunStateError(
                f"Dagster run {run.run_id} skips steps of {run.parent_run_id}, but run "
                f"{identity.key!r} {was}, and does not hold what they wrote: re-execute all steps"
            )

    def _has_skipped(
        self,
        record: RunRecord | None,
        instance: dg.DagsterInstance,
        run: dg.DagsterRun,
        identity: Identity,
    ) -> bool:
        """Return whether the branch or the last publish holds what earlier Dagster runs wrote."""
        opened = () if record is None else (*record.owners, record.owner)
        for parent in parents_of(instance, run):
            theirs = identity_of(parent, self.into)
            if theirs.key != identity.key:
                return False  # the run has another branch
            if record is None or theirs.owner not in opened:
                continue  # the Dagster run ended before it opened a branch
            if record.state is RunState.PUBLISHED:
                return record.owner == theirs.owner
            since_fork = record.attempt - record.forked + 1
            return record.live and theirs.owner in opened[-since_fork:]
        return True  # the skipped steps wrote nothing to the lake

    def _starts_afresh(self, context: RunContext, identity: Identity) -> bool:
        """Return whether a new attempt starts from the target's head, not from earlier work."""
        run = run_of(context)
        if isinstance(context, dg.DagsterRun) or not makes_all(run):
            return False
        if _skips_steps(step_of(context).instance, run):
            return False
        return not (identity.backfill and self.record(context))

    def step(self, context: StepContext | dg.OutputContext, name: str = "") -> Step:
        """Return a step of the run, to write in; use it in a ``with`` block.

        Leaving the block commits; a retry replaces the work of the earlier try.

        Args:
            name: The name of the step, for a function with several steps; all tries share it.

        Raises:
            InvalidInputError: The try already has a step of that name, which this one would undo.
            Failure: Only the branch of another run, or a later commit of the target, has an asset
                that this one names in `deps`.
        """
        run = self.run(context)
        run.renew()  # records the inputs
        self._check_dependencies(context, run, loaded=False)
        if isinstance(context, dg.AssetExecutionContext) and context.has_assets_def:
            for key in context.selected_asset_keys:
                step_of(context).add_asset_metadata(run_marks(run), key)
        return start_step(run, **self._step(context, name))

    def _step(self, context: StepContext | dg.OutputContext, name: str) -> dict[str, Any]:
        step = step_of(context)
        full = f"{step.step.key}.{name}" if name else step.step.key
        if isinstance(context, dg.OutputContext):
            full = f"{full}:{output_name(context)}"
        metadata = step_metadata(context, ui=self.ui)
        return {"name": full, "try_number": step.previous_attempt_count + 1, "metadata": metadata}

    def _check_dependencies(
        self, context: object, run: Run, *, loaded: bool = True
    ) -> dict[str, dict[str, str]]:
        """Return the runs that wrote what an asset depends on, see `check_dependencies`."""
        if not isinstance(context, dg.AssetExecutionContext | dg.OpExecutionContext):
            return {}
        if not context.has_assets_def:  # it is an op outside the graph of an asset
            return {}
        return check_dependencies(self.repo(), self.at().commit, context, run, loaded=loaded)

    def undo(self, context: dg.OutputContext, folders: Iterable[str] = ()) -> None:
        """Undo the writes of an earlier try or run of the same key for an output."""
        is_new = find_run(self.repo(), self.run_key(context)) is None
        if is_new and not folders:
            return  # no step has written
        own = self.record(context)
        if own is not None and own.state is RunState.PUBLISHED:
            return  # outputs after the publish wrote nothing
        old = self.outputs(context, folders, own.branch if own else "")
        if is_new and not old:
            return
        step = self.step(context)
        if step.earlier is None and not old:
            step.discard()
            return
        with step:  # joining without changes undoes the earlier work
            step.delete_many(path for path in old if step.exists(path))

    def outputs(
        self, context: dg.OutputContext, folders: Iterable[str], branch: str = ""
    ) -> list[str]:
        """Return the files of folders that an IO manager has written for the asset."""
        view = self.at(branch)
        asset, output = context.asset_key.to_user_string(), f":{output_name(context)}"

        def is_own(path: str) -> bool:
            why = self.repo().why(path, view.commit.id)
            return why.step.endswith(output) and why.made.metadata.get("dagster.asset") == asset

        entries = (entry for folder in folders for entry in view.entries(folder))
        return [entry.path for entry in entries if is_own(entry.path)]

    def extras(self, context: StepContext, name: str = "") -> dict[str, Any]:
        """Return the extras with which a Pipes program writes in a step of the run.

        The program opens the step with ``dagster_graveler.pipes.open_graveler_step``.

        Args:
            name: The name of the step, for a function that starts several programs.
        """
        run = self.run(context)
        inputs = self._check_dependencies(context, run)
        return pack(run.handle, **self._step(context, name), inputs=inputs)

    def view(self, context: RunContext) -> Run | Ref:
        """Return the view that steps of a Dagster run read: its branch, or its published commit."""
        run = self.run(context)
        record = run.record
        if record.state is RunState.PUBLISHED:
            return self.repo().ref(record.commit)
        self._check_dependencies(context, run)
        return run

    def at(self, ref: str = "") -> Ref:
        """Return a view of the commit that a ref names now; it does not show later commits.

        Args:
            ref: A ref expression, such as ``main~1``; by default the target.
        """
        try:
            return self.repo().ref(ref or self.into)
        except RefNotFoundError as error:
            raise self.explained(error) from error

    def explained(self, error: RefNotFoundError) -> RefNotFoundError:
        """Return an error about a missing branch; for a missing target it says what to do."""
        try:
            self.repo().branch(self.into)
        except RefNotFoundError:
            return RefNotFoundError(
                f"repository {self.repository!r} has no branch {self.into!r}, which runs publish to: "
                f"`graveler undo {self.into}` brings it back if it was dropped, "
                f"`graveler branch create {self.into}` makes it"
            )
        return error

    def uri(self, ref: str, folder: str = "") -> str:
        """Return the address of a folder at a ref."""
        return f"grav://{self.repository}/{ref}/{folder}"

    def links(self, commit: Commit) -> Mapping[str, Any]:
        """Return Dagster's metadata of a commit: its id, its run and its addresses."""
        page = self.commit_url.format(repository=self.repository, commit=commit.id)
        return {
            "graveler/commit": commit.id,
            "graveler/run": commit.metadata.get("graveler.run", ""),
            "graveler/address": dg.MetadataValue.path(self.uri(commit.id)),
            **({"graveler/page": dg.MetadataValue.url(page)} if page else {}),
        }

    def record(self, context: RunContext) -> RunRecord | None:
        """Return the record of the Dagster run's attempt; None if it has none or is superseded."""
        identity = identity_of(context, self.into)
        record = find_run(self.repo(), identity.key)
        return record if record is not None and record.owner == identity.owner else None


def _skips_steps(instance: dg.DagsterInstance, run: dg.DagsterRun) -> bool:
    """Return whether a re-execution leaves out steps of the run that it repeats."""
    if run.tags.get(_ASSETS_SKIPPED) == "true":
        return True
    if not run.step_keys_to_execute or not run.execution_plan_snapshot_id:
        return False
    plan = instance.get_execution_plan_snapshot(run.execution_plan_snapshot_id)
    return bool({step.key for step in plan.steps} - set(run.step_keys_to_execute))


def _shared_run(run: Run, instance: dg.DagsterInstance, run_id: str) -> Run:
    """Return this process's object for the same attempt, and keep its lease renewed.

    Dagster calls IO managers and assets one after the other, each with its own context. The next
    write stores their inputs with the run, so all of them share one run object. Its lease is
    renewed until Dagster considers its own run finished, because an asset may compute for hours
    before it writes.
    """

    def is_finished() -> bool:
        try:
            dagster_run = instance.get_run_by_id(run_id)
        except Exception:  # noqa: BLE001 - a storage of Dagster may raise anything
            _log.exception("run %s: cannot read from Dagster whether its run is over", run.key)
            return True
        return dagster_run is None or dagster_run.is_finished

    key = run.handle.fence, run_id  # the Dagster runs of a backfill may share an attempt
    with _lock:
        if key not in _runs:
            while len(_runs) >= _MOST_RUNS:
                _runs.pop(next(iter(_runs)))[1].close()
            renewals = ExitStack()
            renewals.enter_context(run.renewing(until=is_finished))
            _runs[key] = run, renewals
        return _runs[key][0]


def forget_runs() -> None:
    """Stop renewing all leases."""
    with _lock:
        for _, renewals in _runs.values():
            renewals.close()
        _runs.clear()


atexit.register(forget_runs)
