"""The lake as a Dagster resource: from any context to the graveler run of its Dagster run."""

from collections.abc import Mapping
from datetime import timedelta
from typing import Any

import dagster as dg
from dagster import DagsterRun, OutputContext

from dagster_graveler.pipes import pack
from dagster_graveler.run.context import (
    RunContext,
    StepContext,
    output_name,
    run_key,
    run_metadata,
    run_of,
    step_metadata,
    step_of,
)
from dagster_graveler.run.lakes import open_lake
from dagster_graveler.run.leases import shared
from dagster_graveler.run.resume_check import check_forerunner
from dagster_graveler.run.steps import start_step
from dagster_graveler.run.window import window_metadata
from graveler.errors import RunNotFoundError
from graveler.lake import Ref, Repository, Run, RunRecord, RunState, Step

__all__ = ["GravelerResource"]


class GravelerResource(dg.ConfigurableResource):  # type: ignore[type-arg] # it has no value but itself
    """A repository of a lake, for assets, checks and sensors.

    It keeps nothing: which graveler run belongs to a Dagster run is told by the Dagster run's
    id, so that every step, in whatever process, finds the same branch.

    Attributes:
        lake: The lake's folder, or a ``graveler.toml``.
        repository: Name of the repository.
        into: The branch that runs publish to.
        ui: Address of Dagster's web server; commits then link back to their run.
        lease_seconds: How long a run may be silent before it counts as dead. A process that works
            in a run renews it by itself.
        ttl_days: How long a run that was set aside is kept.
        on_failure: ``park`` keeps what a failed run has committed for the next one, ``drop`` does
            not.
        commit_url: Where a commit can be looked at, of ``{repository}`` and ``{commit}``;
            Dagster's pages then link there.
    """

    lake: str
    repository: str
    into: str = "main"
    lease_seconds: float = 900
    ttl_days: float = 14
    on_failure: str = "park"
    ui: str = ""
    commit_url: str = ""

    def repo(self) -> Repository:
        """Return the repository.

        Raises:
            BackendUnavailableError: The lake is not there, or not now.
            RepositoryNotFoundError: The lake has no such repository.
        """
        return open_lake(self.lake).repository(self.repository)

    def run(self, context: RunContext) -> Run:
        """Return the graveler run of the Dagster run that `context` is of.

        The first step that asks opens it, all others get the same attempt. A re-execution, or
        another Dagster run for the same partition, goes on from what its forerunner committed.

        Raises:
            FencedError: The Dagster run is over, or a newer one has taken its work over.
            RunStateError: The work is under way for another code location; or steps are skipped,
                and what they wrote is not on the branch any more.
        """
        run = self._attached(context)
        if isinstance(context, DagsterRun):
            return run  # a sensor asks, which does not work in it
        instance, run_id = step_of(context).instance, run_of(context).run_id

        def is_finished() -> bool:
            there = instance.get_run_by_id(run_id)
            return there is None or there.is_finished

        return shared(run, is_finished)

    def _attached(self, context: RunContext) -> Run:
        run = run_of(context)
        return self.repo().runs.open_or_attach(
            run_key(run),
            owner=run.run_id,
            into=self.into,
            metadata={**run_metadata(context, ui=self.ui), **window_metadata(context)},
            on_failure=self.on_failure,
            lease=timedelta(seconds=self.lease_seconds),
            ttl=timedelta(days=self.ttl_days),
            accepts=lambda record: check_forerunner(record, context),
        )

    def step(self, context: StepContext | OutputContext, name: str = "") -> Step:
        """Return a step of the run, to write in; use it in a ``with`` block.

        Leaving the block commits; a retry replaces what the try before it wrote.

        Args:
            context: The context of the asset, op or check; an IO manager's of an output.
            name: Needed only where one function has several steps; the tries of a step share it.

        Raises:
            InvalidInputError: A second step of the same name, which would take back the first.
        """
        run = self.run(context)
        run.renew()  # keeps what was read
        return start_step(
            run,
            _step_name(context, name),
            try_number=step_of(context).previous_attempt_count + 1,
            metadata=step_metadata(context, ui=self.ui),
        )

    def take_back(self, context: OutputContext) -> None:
        """Take back what an earlier try or run of the same key wrote for an output."""
        dagster_run = run_of(context)
        try:
            record = self.repo().runs.get(run_key(dagster_run))
        except RunNotFoundError:
            return  # nobody wrote in it, and nobody has to
        if record.state is RunState.PUBLISHED and record.owner == dagster_run.run_id:
            return  # what comes after publishing has written nothing
        step = self.step(context)
        if step.earlier is None:
            step.discard()
            return
        with step:
            pass  # joining takes the earlier work back

    def extras(self, context: StepContext, name: str = "") -> dict[str, Any]:
        """Return the extras by which a program started by Pipes writes in a step of the run.

        There, ``dagster_graveler.pipes.open_graveler_step`` opens it.

        Args:
            context: The context of the asset or op.
            name: Needed only where one function starts several programs, one each.
        """
        return pack(
            self.run(context).handle,
            _step_name(context, name),
            try_number=step_of(context).previous_attempt_count + 1,
            metadata=step_metadata(context, ui=self.ui),
        )

    def view(self, context: RunContext) -> Run | Ref:
        """Return what a step of the Dagster run is to read: its branch, then what it published."""
        run = self.run(context)
        record = run.record
        if record.state is RunState.PUBLISHED:
            return self.repo().ref(record.commit)
        return run

    def at(self, ref: str = "") -> Ref:
        """Return the commit that a ref names now, to read; later commits do not show.

        Args:
            ref: A branch, tag or commit id, with ``~N`` and the like; the target where not given.
        """
        return self.repo().ref(ref or self.into)

    def links(self, commit: str) -> Mapping[str, Any]:
        """Return where a commit is, for Dagster's metadata."""
        found: dict[str, Any] = {
            "graveler/address": dg.MetadataValue.path(f"grav://{self.repository}/{commit}/")
        }
        if self.commit_url:
            page = self.commit_url.format(repository=self.repository, commit=commit)
            found["graveler/page"] = dg.MetadataValue.url(page)
        return found

    def record(self, context: RunContext) -> RunRecord | None:
        """Return the record of the Dagster run's attempt; None if it has none, or no more."""
        run = run_of(context)
        try:
            record = self.repo().runs.get(run_key(run))
        except RunNotFoundError:
            return None
        return record if record.owner == run.run_id else None


def _step_name(context: StepContext | OutputContext, name: str) -> str:
    key = step_of(context).step.key
    full = f"{key}.{name}" if name else key
    return f"{full}:{output_name(context)}" if isinstance(context, OutputContext) else full
