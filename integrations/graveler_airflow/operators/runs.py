"""Operators on runs: open, publish, close, roll back, reap."""

import shlex
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from datetime import timedelta
from typing import Any, TypedDict
from uuid import uuid4

from airflow.sdk import AssetAlias, BaseOperator, Context, Variable
from airflow.sdk.configuration import conf
from airflow.sdk.definitions.asset import BaseAsset
from airflow.sdk.exceptions import (
    AirflowFailException,
    AirflowRescheduleException,
    AirflowSkipException,
)

from graveler.base.arguments import choice, duration
from graveler.errors import (
    GateFailedError,
    GravelerError,
    InvalidInputError,
    RunNotFoundError,
    RunStateError,
)
from graveler.gates import Verdict
from graveler.gates.gate import Check, Gate, as_gates
from graveler.lake import Repository, Run, RunRecord, RunState
from graveler.model import Commit
from graveler.repository.strategies import Strategy, check_strategy
from graveler_airflow.assets import create_asset, listed_assets
from graveler_airflow.dag.context import hint, run_key, run_metadata
from graveler_airflow.dag.handles import connection_of, pack
from graveler_airflow.dag.task_order import check_failures_show, check_rules, check_waited_for
from graveler_airflow.dag.task_states import (
    NO_PART,
    TaskStates,
    agree_to_publish,
    is_one_of,
    keeps_nothing,
    undo_stale,
)
from graveler_airflow.links import point_to
from graveler_airflow.operators.base import GravelerOperator, GravelerRunOperator
from graveler_airflow.operators.gates import REFUSAL

_UNPUBLISHED = (RunState.PARKED, RunState.REAPED)
_DEPLOYMENT = "airflow.deployment"
_VARIABLE = "graveler_deployment"
_WAITS = 30
_PAUSE = timedelta(seconds=15)


class OpeningTerms(TypedDict, total=False):
    """The arguments of `GravelerOpenRunOperator` that ``graveler_run`` also accepts."""

    into: str
    on_failure: str
    lease: timedelta | None
    ttl: timedelta | None
    take_over: bool
    graveler_conn_id: str


class GravelerOpenRunOperator(GravelerOperator):
    """Opens the graveler run of a DAG run; its XCom is the handle for the other tasks.

    Its XCom ``attempt`` names the attempt, as a part of the ids of DAG runs that are given the run. A
    parked run resumes from the commits on its branch. Every earlier attempt is fenced. The work of
    tasks that have succeeded stays. The work of tasks that run again or do not take part is undone
    first. If no work stays, the attempt starts from the present head of the target.

    How to use it: ``docs/guides/airflow-operators.md#graveleropenrunoperator``.

    Args:
        into: The branch that the run publishes to.
        name: Name of the run, for a DAG that has several in one repository.
        on_failure: ``park`` keeps the commits of a run that is not published, for the next attempt
            of the same DAG run and for inspection; ``drop`` removes them.
        lease: How long the run may be silent, as between two tasks, before it counts as dead. By
            default it is the connection's, or that of the section ``[graveler]``. Running tasks
            renew it.
        ttl: How long a parked run is kept; the default comes from the same places.
        take_over: Also open a run that another deployment of Airflow has opened.
        **kwargs: The arguments of `GravelerOperator`.
    """

    template_fields: Sequence[str] = (*GravelerOperator.template_fields, "into")
    ui_color = "#e8f0e4"
    is_complete = False

    def __init__(
        self,
        *,
        into: str = "main",
        name: str = "",
        on_failure: str = "park",
        lease: timedelta | None = None,
        ttl: timedelta | None = None,
        take_over: bool = False,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.into = into
        self.name = name
        self.on_failure = choice(on_failure, "on_failure", ("park", "drop"))
        self.lease = lease and duration(lease, "lease", zero=False)
        self.ttl = ttl and duration(ttl, "ttl", zero=False)
        self.take_over = take_over

    @property
    def downstream_list(self) -> list[Any]:
        """The tasks after it; Airflow asks for them when it validates the DAG, and names no task."""
        tasks = super().downstream_list
        if self.is_complete:
            check_rules(self, tasks)
        return list(tasks)

    def _act(self, repository: Repository, context: Context) -> dict[str, str]:
        self._check_alone(context, repository.name)
        if self.depends_on_past:
            self._await_predecessor(repository, context)
        ours = deployment(repository)

        def accepts(record: RunRecord | None) -> None:
            theirs = record.metadata.get(_DEPLOYMENT, ours) if record else ours
            if record and theirs != ours and not self.take_over:
                raise RunStateError(
                    f"run {record.key!r} of repository {repository.name!r} is {record.state}, and "
                    f"deployment {theirs!r} of Airflow has opened it; this is {ours!r}: give each "
                    "deployment its own repository. If this deployment has replaced the other one, set "
                    f"[graveler] deployment = {theirs}, or open this run with take_over=True"
                )

        key = run_key(context, self.name)
        run = repository.runs.open(
            key,
            accepts=accepts,
            fresh=keeps_nothing(context, repository, key),
            into=self.into,
            metadata={**run_metadata(context), _DEPLOYMENT: ours},
            on_failure=self.on_failure,
            lease=self.lease or self.hook.lease,
            ttl=self.ttl or self.hook.ttl,
        )
        self.log.info("Run %r: attempt %d on %s", run.key, run.attempt, run.branch)
        self.lineage.note_run(run.handle)
        context["ti"].xcom_push(key="attempt", value=f"{run.branch}.{run.attempt}")
        for step in undo_stale(context, run):
            self.log.info("Undone, of an earlier attempt: %s", step)
        return pack(run.handle, self.graveler_conn_id, self.task_id, context["dag_run"].dag_id)

    def _await_predecessor(self, repository: Repository, context: Context) -> None:
        """Wait for the publish of the DAG run before, whose task to open its run has succeeded."""
        before = context["ti"].get_previous_dagrun()
        if before is None:
            return
        theirs = {**context, "dag_run": before, "partition_key": before.partition_key}
        try:
            record = repository.runs.get(run_key(theirs, self.name))
        except RunNotFoundError:
            return  # it has skipped the run
        (record,) = repository.runs.on_targets([record])
        latest = record.publishes[-1] if record.publishes else None
        works = before.state in ("running", "queued")
        now = repository.stores.clock.now()
        name, reason = shlex.quote(record.key), record.reason or "no reason given"
        state = f"run {record.key!r} before it is {record.state} ({reason})"
        clear, give_up = "clear the failed tasks of", f"`graveler run abandon {name}`"
        if record.state in (RunState.OPEN, RunState.PUBLISHING):
            works = not record.expired(now)
        elif record.state is RunState.REAPED:
            if record.on_failure == "park" or before.state != "failed":
                return  # it was abandoned
        elif record.state is not RunState.PARKED:
            if latest is None or not (latest.lost or latest.rollback):
                return
            state = f"{latest.into!r} no longer has what run {record.key!r} published"
            clear, give_up = "clear", f"`graveler run open {name}` and {give_up}"
        if works:
            self.log.info("Run %r, on which this one depends, is %s", record.key, record.state)
            raise AirflowRescheduleException(now + _PAUSE)  # type: ignore[no-untyped-call]  # of Airflow
        raise RunStateError(
            f"this run depends on the past, and {state}: {clear} DAG run {before.run_id!r}, or give "
            f"it up with {give_up}, then clear this task"
        )

    def _check_alone(self, context: Context, repo: str) -> None:
        """Raise InvalidInputError if another task of the DAG opens the same run."""
        dag = self.get_dag()
        for other in dag.tasks if dag is not None else ():
            if (
                not isinstance(other, GravelerOpenRunOperator)
                or other.task_id == self.task_id
                or other.name != self.name
            ):
                continue
            theirs = self.render_template(other.repo, context) or other.hook.default_repository
            if theirs == repo and other.hook.location == self.hook.location:
                raise InvalidInputError(
                    f"{other.task_id} opens run {run_key(context, self.name)!r} of repository "
                    f"{repo!r} as well, and one would fence the other: give one of the two a "
                    "group_id of its own, which becomes part of its key"
                )


def deployment(repository: Repository) -> str:
    """Return the id of this deployment of Airflow: that of the settings, else that of a Variable.

    The first caller makes the Variable. Airflow replaces a Variable that exists, so first callers
    take turns at the repository. Without the turn, another one is slow, and is waited for. Those of
    two repositories may make it at the same moment, so the value is read again after a second.
    """
    if given := conf.get("graveler", "deployment", fallback=""):
        return str(given)
    if known := Variable.get(_VARIABLE, default=None):
        return str(known)
    sleep = repository.stores.clock.sleep
    with repository.stores.refs.turn(_VARIABLE) as first:
        for _ in range(0 if first else _WAITS):
            if Variable.get(_VARIABLE, default=None) is not None:
                break
            sleep(1)
        if Variable.get(_VARIABLE, default=None) is None:
            made = uuid4().hex
            Variable.set(_VARIABLE, made, "The id of this deployment in the runs of graveler")
            sleep(1)
        return str(Variable.get(_VARIABLE))


class GravelerPublishRunOperator(GravelerRunOperator):
    """Publishes a run: builds the new tree of the target, runs the gates, and moves the target.

    It is idempotent: for a published run it returns the commit. A refusal of a gate, a conflict,
    missing work of a finished task, and a task that is marked as failed are failures without a
    retry. An incomplete run is never published. Writes of an earlier attempt of skipped tasks are
    undone. The event of every asset in its ``outlets`` names the commit.

    How to use it: ``docs/guides/airflow-operators.md#gravelerpublishrunoperator``.

    Args:
        gates: Checks of the tree that the target would get.
        strategy: ``source-wins`` or ``dest-wins`` for paths in conflict.
        **kwargs: ``run`` and the other arguments of `GravelerRunOperator`.
    """

    ui_color = "#d5e8d4"
    work: Sequence[str] = ()
    """The tasks of the run, none of which may have failed; ``graveler_run`` sets them."""

    def __init__(
        self,
        *,
        gates: Iterable[Gate | Check] = (),
        strategy: Strategy | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        # other things in the outlets, such as datasets of OpenLineage, have no events
        self._assets = listed_assets(
            [x for x in self.outlets if isinstance(x, BaseAsset)], "outlets"
        )
        self.gates = list(as_gates(gates))
        check_strategy(strategy)
        self.strategy = strategy

    def _act(self, run: Run, context: Context) -> str:
        for step in agree_to_publish(context, run, self.work):
            self.log.info("Undone, its task takes no part: %s", step)
        try:
            result = run.publish(self.gates, strategy=self.strategy)
        except GateFailedError as error:
            self._note(run, error.verdicts)
            raise
        latest = run.record.publishes[-1:]
        changed = bool(latest) and latest[0].changed
        made = result.commit.metadata
        made_by = (made.get("graveler.run"), made.get("graveler.attempt"))
        own = result.commit if made_by == (run.key, str(run.attempt)) else None
        self._note(run, result.verdicts, own)
        for verdict in result.verdicts:
            outcome = "passed" if verdict.passed else f"{verdict.severity}: {verdict.reason}"
            self.log.info("Gate %s: %s", verdict.gate, outcome)
        how = "was published before" if result.already else "is published"
        how = how if changed else "has changed nothing"
        self.log.info("Run %r %s: %s is at commit %s", run.key, how, run.into, result.commit.id)
        self._point_to(context, run, own, changed=changed)
        return result.commit.id

    def _note(self, run: Run, verdicts: Iterable[Verdict], commit: Commit | None = None) -> None:
        conn_id = connection_of(self.run)
        with suppress(GravelerError):  # the run is published, or refused, already
            self.lineage.note_judged(conn_id, run, run.record.head, verdicts, self.gates)
            if commit is not None:
                self.lineage.note_commit(conn_id, run.repository, run.into, commit)

    def _point_to(
        self, context: Context, run: Run, commit: Commit | None, *, changed: bool
    ) -> None:
        repo, conn_id = run.handle.repository, connection_of(self.run)
        extra: dict[str, Any] = {
            "repository": repo,
            "ref": run.into,
            "changed": changed,
            "run": run.key,
            "hour": run_metadata(context).get("hour", ""),
        }
        if commit is not None:
            point_to(self, conn_id, repo, commit)
            extra |= {"commit": commit.id, "previous": commit.parents[0]}
        for asset in self._assets:
            accessor = context["outlet_events"][asset]
            if isinstance(asset, AssetAlias):
                accessor.add(create_asset(repo=repo, ref=run.into, conn_id=conn_id), extra)
            else:
                accessor.extra = extra


class GravelerCloseRunOperator(GravelerRunOperator):
    """Ends a run, as the teardown of its opening: a run that is not published is parked.

    The task then fails without a retry. It does not call the ``on_failure_callback`` of the DAG's
    ``default_args``, because the task whose failure prevented the publish has called it. If no task
    has failed and the merge was skipped, the task is skipped too. Neither changes the state of the
    DAG run.

    How to use it: ``docs/guides/airflow-operators.md#gravelercloserunoperator``.

    Args:
        **kwargs: ``run`` and the other arguments of `GravelerRunOperator`.
    """

    ui_color = "#f0e8e4"

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**{"on_failure_callback": None, **kwargs})
        self._opened = self._merge = ""
        self._gates: tuple[str, ...] = ()

    def watch(self, opened: BaseOperator, merge: BaseOperator, gates: Iterable[Any]) -> None:
        """Refuse the complete DAG if it could lose work or hide a failure of `merge`."""
        self._opened, self._merge = opened.task_id, merge.task_id
        self._gates = tuple(gate.task_id for gate in gates)

    def prepare_template(self) -> None:
        """Check the whole DAG: Airflow calls this when it has parsed the file."""
        if self.dag.has_task(self._opened) and self.dag.has_task(self._merge):
            merge = self.dag.get_task(self._merge)
            check_waited_for(self.dag.get_task(self._opened), merge)
            check_failures_show(merge)

    @property
    def on_failure_fail_dagrun(self) -> bool:
        """Always False, because a teardown that can fail the DAG run also decides its success."""
        return False

    @on_failure_fail_dagrun.setter
    def on_failure_fail_dagrun(self, value: bool) -> None:
        if value:
            raise InvalidInputError(
                f"{self.task_id}: with on_failure_fail_dagrun the teardown alone would decide the "
                "state of the DAG run, and failed runs would succeed: leave it off"
            )

    def _act(self, run: Run, context: Context) -> str:
        unsuccessful = self._unsuccessful(context)
        record = run.close(self._reason(context, unsuccessful))
        if record.attempt != run.attempt:
            self.log.info(
                "Run %r is at attempt %d, which another DAG run opened", run.key, record.attempt
            )
        elif record.state in _UNPUBLISHED:
            skipped = bool(unsuccessful) and {*unsuccessful.values()} <= {*NO_PART}
            raise (AirflowSkipException if skipped else AirflowFailException)(
                _unpublished(record, run.on_target)
            )
        return str(record.state)

    def _unsuccessful(self, context: Context) -> dict[str, str]:
        """Return the tasks of the run, or of the whole DAG run, that did not succeed."""
        tasks, group = context["dag"].tasks, self.task_group
        ends = {task.task_id for task in tasks if isinstance(task, GravelerCloseRunOperator)}
        block = {task.task_id for task in group.iter_tasks()} if group else set()
        states = {
            name: state
            for name, state in TaskStates(context).unsuccessful().items()
            if not is_one_of(name, ends)
        }
        own = {name: state for name, state in states.items() if is_one_of(name, block)}
        return own or states

    def _reason(self, context: Context, unsuccessful: Mapping[str, str]) -> str:
        tasks = []
        for task_id, state in unsuccessful.items():
            gate = task_id in self._gates
            refusal = gate and context["ti"].xcom_pull(task_ids=task_id, key=REFUSAL)
            tasks.append(f"{task_id} {state} ({refusal})" if refusal else f"{task_id} {state}")
        what = ", ".join(tasks) or "ended before it was published"
        return f"Airflow run {context['dag_run'].run_id}: {what}"


def _unpublished(record: RunRecord, on_target: str) -> str:
    what = f"run {record.key!r} is not published: it is {record.state}"
    if record.state is RunState.PARKED:
        what += f" on branch {record.branch}"
    state = f"{what} ({record.reason}): {record.into} did not move, {on_target}"
    return f"{state}; {hint(record)}"
