"""The three ends of a run: open, publish, close."""

from collections.abc import Iterable, Sequence
from datetime import timedelta
from typing import Any, Final

from airflow.sdk import BaseOperator, Context

from graveler.errors import InvalidInputError
from graveler.gates import as_gates
from graveler.gates.gate import Check, Gate
from graveler.lake import PublishResult, Run, RunState
from graveler_airflow.dag.context import run_key, run_metadata
from graveler_airflow.dag.error_policy import final_failures
from graveler_airflow.dag.handles import attached, connection_of, pack
from graveler_airflow.dag.task_order import check_failures_show, check_waited_for
from graveler_airflow.dag.xcom_state import (
    NOT_TAKING_PART,
    TO_RUN,
    check_nothing_lost,
    take_back,
    tells,
)
from graveler_airflow.hook import GravelerHook
from graveler_airflow.lineage.links import LINKS, point_to
from graveler_airflow.operators.gate import REFUSAL

__all__ = ["GravelerCloseRunOperator", "GravelerOpenRunOperator", "GravelerPublishRunOperator"]

_ON_FAILURE: Final = ("park", "drop")


class GravelerOpenRunOperator(BaseOperator):
    """Opens the graveler run of a DAG run; its XCom is what the other tasks take.

    A run that was parked goes on from what is committed on its branch; every earlier attempt
    is fenced. What is there of tasks that have succeeded stays; what tasks left that run again
    now, or take no part, is taken back first.

    Args:
        repo: The repository; the connection's where not given.
        into: The branch that the run publishes to.
        name: Which run of the DAG, where it has several in one repository.
        on_failure: Of a run that is not published, ``park`` keeps what it committed, for the
            next attempt and for a look, ``drop`` removes it.
        lease: How long the run may give no sign of life before it counts as dead; the
            connection's, or that of the section ``[graveler]``, where not given.
        ttl: How long it is kept once it is parked; the same.
        graveler_conn_id: The connection that says where the lake is.
        **kwargs: As of any operator.
    """

    template_fields: Sequence[str] = ("repo", "into")
    operator_extra_links = LINKS
    ui_color = "#e8f0e4"

    def __init__(  # noqa: PLR0913 - the terms of a run
        self,
        *,
        repo: str = "",
        into: str = "main",
        name: str = "",
        on_failure: str = "park",
        lease: timedelta | None = None,
        ttl: timedelta | None = None,
        graveler_conn_id: str = GravelerHook.default_conn_name,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        if on_failure not in _ON_FAILURE:
            raise InvalidInputError(f"on_failure {on_failure!r}: give one of {_ON_FAILURE}")
        self.repo = repo
        self.into = into
        self.name = name
        self.on_failure = on_failure
        self.lease = lease
        self.ttl = ttl
        self.graveler_conn_id = graveler_conn_id

    def execute(self, context: Context) -> dict[str, str]:
        """Open the run and return its handle."""
        hook = GravelerHook(self.graveler_conn_id)
        with final_failures(), hook.repository(self.repo) as repo:
            self._check_alone(context, hook, repo.name)
            run = repo.runs.open(
                run_key(context, self.name),
                into=self.into,
                metadata=run_metadata(context),
                on_failure=self.on_failure,
                lease=self.lease or hook.lease,
                ttl=self.ttl or hook.ttl,
            )
            self.log.info("Run %r: attempt %d on %s", run.key, run.attempt, run.branch)
            for step in take_back(context, run, (*TO_RUN, *NOT_TAKING_PART)):
                self.log.info("Taken back, of another time: %s", step)
            return pack(run.handle, self.graveler_conn_id, self.task_id)

    def _check_alone(self, context: Context, hook: GravelerHook, repo: str) -> None:
        """Raise InvalidInputError if another task of the DAG opens the same run.

        When the DAG is read nobody knows which repository is the connection's.
        """
        dag = self.get_dag()
        for other in dag.tasks if dag is not None else ():
            if not isinstance(other, GravelerOpenRunOperator) or other.task_id == self.task_id:
                continue
            theirs = GravelerHook(other.graveler_conn_id)
            if (
                other.name == self.name
                and (self.render_template(other.repo, context) or theirs.default_repository) == repo
                and theirs.location == hook.location
            ):
                raise InvalidInputError(
                    f"{other.task_id} opens run {run_key(context, self.name)!r} of repository "
                    f"{repo!r} as well, and one would fence the other: give one of the two a "
                    "group_id of its own, which becomes part of its key"
                )


class GravelerPublishRunOperator(BaseOperator):
    """Publishes a run: builds what the target would become, asks the gates, moves the target.

    It may run again: a run that is published answers with its commit. A refusal of a gate and
    a conflict are failures without a retry; so is the work of a finished task that is gone, for
    half of a run is never published. What skipped tasks wrote another time is taken back. The
    event of every asset in its ``outlets`` names the commit.

    Args:
        run: What `GravelerOpenRunOperator` gave.
        gates: Checks on what the target would become.
        strategy: ``source-wins`` or ``dest-wins`` where paths conflict.
        **kwargs: As of any operator.
    """

    template_fields: Sequence[str] = ("run",)
    operator_extra_links = LINKS
    ui_color = "#d5e8d4"

    def __init__(
        self,
        *,
        run: Any,
        gates: Iterable[Gate | Check] = (),
        strategy: str | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.run = run
        self.gates = list(as_gates(gates))
        self.strategy = strategy

    def execute(self, context: Context) -> str:
        """Publish the run and return the id of the commit that the target has it in."""
        with final_failures(), attached(self.run) as run:
            self._agree(context, run)
            result = run.publish(self.gates, strategy=self.strategy)
            for verdict in result.verdicts:
                said = "passed" if verdict.passed else f"{verdict.severity}: {verdict.reason}"
                self.log.info("Gate %s: %s", verdict.gate, said)
            how = "holds it already" if result.already else "moved"
            self.log.info("%s %s: %s", run.into, how, result.commit.id)
            self._tell(context, run, result)
            return result.commit.id

    def _agree(self, context: Context, run: Run) -> None:
        check_nothing_lost(context, run, [task for task in context["dag"].tasks if tells(task)])
        for step in take_back(context, run, NOT_TAKING_PART):
            self.log.info("Taken back, its task takes no part: %s", step)

    def _tell(self, context: Context, run: Run, result: PublishResult) -> None:
        commit, repo = result.commit, run.handle.repository
        point_to(self, conn_id=connection_of(self.run), repo=repo, commit=commit)
        for asset in self.outlets:
            context["outlet_events"][asset].extra = {
                "repository": repo,
                "ref": run.into,
                "commit": commit.id,
                "previous": commit.parents[0] if commit.parents else "",
                "run": run.key,
                "hour": run_metadata(context).get("hour", ""),
            }


class GravelerCloseRunOperator(BaseOperator):
    """Ends a run, as the teardown of its opening: one that is not published is set aside.

    Args:
        run: What `GravelerOpenRunOperator` gave.
        **kwargs: As of any operator.
    """

    template_fields: Sequence[str] = ("run",)
    operator_extra_links = LINKS
    ui_color = "#f0e8e4"

    def __init__(self, *, run: Any, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.run = run
        self._opened = self._merge = ""
        self._gates: tuple[str, ...] = ()

    def watch(self, opened: BaseOperator, merge: BaseOperator, gates: Iterable[Any]) -> None:
        """Have the DAG refused, once it is whole, if work or the failure of `merge` could go under.

        Args:
            opened: The task that opens the run.
            merge: The task that publishes the run.
            gates: The gates that are tasks: if one of them refuses, its reason is the run's.
        """
        self._opened, self._merge = opened.task_id, merge.task_id
        self._gates = tuple(gate.task_id for gate in gates)

    def prepare_template(self) -> None:
        """Look at the whole DAG: Airflow calls this when it has read the file."""
        if self.dag.has_task(self._opened) and self.dag.has_task(self._merge):
            merge = self.dag.get_task(self._merge)
            check_waited_for(self.dag.get_task(self._opened), merge)
            check_failures_show(merge)

    @property
    def on_failure_fail_dagrun(self) -> bool:
        """Always False: a teardown that may fail the DAG run also decides that it succeeded."""
        return False

    @on_failure_fail_dagrun.setter
    def on_failure_fail_dagrun(self, value: bool) -> None:
        if value:
            raise InvalidInputError(
                f"{self.task_id}: on_failure_fail_dagrun would make the teardown the only task "
                "that decides the state of the DAG run, and failed runs succeed: leave it off"
            )

    def execute(self, context: Context) -> str:
        """Set an unpublished run aside, and return the state that the run is in."""
        with final_failures(), attached(self.run) as run:
            record = run.close(self._reason(context))
            if record.attempt != run.attempt:
                self.log.info("Run %r is at attempt %d: not ours", run.key, record.attempt)
            elif record.state is not RunState.PUBLISHED:
                self.log.warning(
                    "Run %r is %s on branch %s (%s): %s did not move",
                    *(record.key, record.state, record.branch, record.reason, record.into),
                )
            return str(record.state)

    def _reason(self, context: Context) -> str:
        """Say which tasks of the DAG run did not succeed."""
        run = context["dag_run"]
        states = context["ti"].get_task_states(dag_id=run.dag_id, run_ids=[run.run_id])
        unhappy = [
            f"{task_id} {state}{self._why(context, task_id)}"
            for task_id, state in sorted(states.get(run.run_id, {}).items())
            if state in ("failed", "upstream_failed", "skipped", "removed")
        ]
        return f"Airflow run {run.run_id}: {', '.join(unhappy) or 'ended before it was published'}"

    def _why(self, context: Context, task_id: str) -> str:
        if task_id not in self._gates:
            return ""
        said = context["ti"].xcom_pull(task_ids=task_id, key=REFUSAL)
        return f" ({said})" if said else ""
