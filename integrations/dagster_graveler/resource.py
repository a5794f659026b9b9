"""The lake as a Dagster resource: from any context to the graveler run of its Dagster run."""

import dagster as dg

from dagster_graveler.context import RunContext, StepContext, partition_of, run_key, run_of
from dagster_graveler.lakes import open_lake
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
    """

    lake: str
    repository: str
    into: str = "main"

    def repo(self) -> Repository:
        """Return the repository."""
        return open_lake(self.lake).repository(self.repository)

    def run(self, context: RunContext) -> Run:
        """Return the graveler run of the Dagster run that `context` is of.

        The first step that asks opens it, all others get the same attempt. A re-execution, or
        another Dagster run for the same partition, goes on from what its forerunner committed.

        Raises:
            FencedError: The Dagster run is over, or a newer one has taken its work over.
        """
        run = run_of(context)
        metadata = {
            "dagster.job": run.job_name,
            "dagster.run_id": run.run_id,
            "dagster.root_run_id": run.root_run_id or run.run_id,
            "dagster.partition": partition_of(run),
        }
        return self.repo().runs.open_or_attach(
            run_key(run),
            owner=run.run_id,
            into=self.into,
            metadata={name: value for name, value in metadata.items() if value},
        )

    def step(self, context: StepContext, name: str = "") -> Step:
        """Return a step of the run, to write in; use it in a ``with`` block.

        Leaving the block commits; a retry replaces what the try before it wrote.

        Args:
            context: The context of the asset, op or check.
            name: Needed only where one function has several steps; the tries of a step share it.
        """
        step = context.get_step_execution_context()
        full = f"{step.step.key}.{name}" if name else step.step.key
        return self.run(context).step(full, try_number=step.previous_attempt_count + 1)

    def view(self, context: RunContext) -> Run | Ref:
        """Return what a step of the Dagster run is to read: its branch, then what it published."""
        run = self.run(context)
        record = run.record
        if record.state is RunState.PUBLISHED:
            return self.repo().ref(record.commit)
        return run

    def head(self) -> Ref:
        """Return the target as it is now; what is published later does not show."""
        return self.repo().ref(self.into)

    def record(self, context: RunContext) -> RunRecord | None:
        """Return the record of the Dagster run's attempt; None if it has none, or no more."""
        run = run_of(context)
        try:
            record = self.repo().runs.get(run_key(run))
        except RunNotFoundError:
            return None
        return record if record.owner == run.run_id else None
