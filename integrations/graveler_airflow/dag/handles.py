"""The handle of a run, which tasks pass as an XCom, and the step of a task that has the handle."""

import logging
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime
from typing import Self

from airflow.sdk import Context

from graveler.base.names import hour_folder
from graveler.errors import (
    AlreadyExistsError,
    FencedError,
    GravelerError,
    InvalidInputError,
    RunStateError,
)
from graveler.lake import Run, RunHandle, RunState, Step
from graveler.runs.steps.environment import StepHandle
from graveler_airflow.dag.context import (
    HANDOVER_NAME,
    is_finer_than_hours,
    run_folder,
    run_hour,
    step_name,
    step_owner,
    task_metadata,
)
from graveler_airflow.hook import GravelerHook
from graveler_common.lakes import open_lake

_log = logging.getLogger(__name__)

_MARK = "graveler.run"
_CONNECTION = "graveler.conn_id"
_OPENED_BY = "graveler.opened_by"
_DAG = "graveler.dag_id"
_LIVE = (RunState.OPEN, RunState.PUBLISHING)


def pack(
    handle: RunHandle, conn_id: str = "", opened_by: str = "", dag_id: str = ""
) -> dict[str, str]:
    """Return a handle as the value of an XCom; it holds no secret.

    It names the connection and not the location of the lake, which each worker looks up.
    """
    if conn_id:
        handle = replace(handle, location="")
    return {_MARK: handle.to_json(), _CONNECTION: conn_id, _OPENED_BY: opened_by, _DAG: dag_id}


def find_handle(value: object) -> RunHandle | None:
    """Return the handle that `pack` put into `value`, or None if there is none."""
    if not isinstance(value, Mapping) or _MARK not in value:
        return None
    return RunHandle.from_json(str(value[_MARK]))


def needed_handle(value: object) -> RunHandle:
    """Return the handle that `pack` put into `value`, or raise InvalidInputError."""
    handle = find_handle(value)
    if handle is None:
        raise InvalidInputError(
            f"not a graveler run: {value!r}: pass what `with graveler_run(...) as run` gives"
        )
    return handle


def connection_of(value: object) -> str:
    """Return the connection through which the run of a packed handle was opened, or ""."""
    return str(value.get(_CONNECTION, "")) if isinstance(value, Mapping) else ""


def step_handle(value: Mapping[str, str], context: Context) -> StepHandle:
    """Return the step of a task in the run of a packed handle."""
    return StepHandle(
        step_name(context, value.get(_DAG, "")),
        context["ti"].try_number,
        task_metadata(context),
        owner=step_owner(context),
    )


@contextmanager
def attached(value: object) -> Iterator[Run]:
    """Open the lake and the run of a packed handle for a ``with`` block."""
    handle = needed_handle(value)
    if conn_id := connection_of(value):
        handle = replace(handle, location=GravelerHook(conn_id).location)
    with open_lake(handle.location) as lake:
        run = lake.repository(handle.repository).runs.attach(handle)
        try:
            yield run
        except (FencedError, RunStateError) as error:
            raise _explained(error, run, value) from error


def _explained(
    error: FencedError | RunStateError, run: Run, value: object
) -> FencedError | RunStateError:
    """Return an error that names the task to clear, if the attempt is over and no newer one is open."""
    try:
        record = run.record
    except GravelerError:
        return error
    if record.attempt != run.attempt or record.state in _LIVE:
        return error
    packed = value if isinstance(value, Mapping) else {}
    opener = packed.get(_OPENED_BY) or "the task that opens it"
    dag = f" of DAG {packed[_DAG]!r}" if packed.get(_DAG) else ""
    return FencedError(
        f"attempt {run.attempt} of run {run.key!r} is over, the run is {record.state} "
        f"({record.reason or 'no reason given'}): clear {opener!r}{dag} as well, which opens the next "
        "attempt; clearing tasks of that DAG without 'only failed' does"
    )


@contextmanager
def working_step(
    value: object, context: Context, metadata: Mapping[str, str] | None = None
) -> Iterator["TaskStep"]:
    """Work in the task's step of the run of a packed handle, for a ``with`` block.

    Leaving the block joins the step to the run and writes one line to the task's log. An exception
    drops the step. The lease is renewed meanwhile.
    """
    with attached(value) as run, run.renewing():
        named = step_handle(value, context)  # type: ignore[arg-type]  # a packed handle
        try:
            step = run.step(
                named.name,
                try_number=named.try_number,
                metadata={**(metadata or {}), **named.metadata},
                owner=named.owner,
            )
        except AlreadyExistsError as error:
            raise AlreadyExistsError(
                f"step {named.name!r} of run {run.key!r}: {error}: give each hand-over of the run a name, "
                f'as in conf={{"run": …, "{HANDOVER_NAME}": "north"}}; or, to repeat the same work, a '
                "trigger_run_id with run['attempt'] in it, and reset_dag_run=True"
            ) from error
        with TaskStep.of(step, context) as bound:
            yield bound
        if bound.result is None:
            how = "changed nothing: no commit"
        else:
            how = f"joined {run.branch} by commit {bound.result.id}"
        _log.info("Step %r of run %r, attempt %d: %s", bound.step, run.key, run.attempt, how)


class TaskStep(Step):
    """The step of a run that a ``@task.graveler`` function works in, with the run's hour.

    It has every method of a step: ``put``, ``get``, ``list``, ``delete`` for files, ``read`` and
    ``write`` for frames. The work of the function joins the run's branch in one commit when it
    returns, and is dropped if it raises.
    """

    context: Context

    @classmethod
    def of(cls, step: Step, context: Context) -> Self:
        """Return `step` with the context of the task that works in it."""
        bound = cls.__new__(cls)
        vars(bound).update(vars(step))
        bound.context = context
        return bound

    @property
    def hour(self) -> datetime:
        """The hour of the DAG run, in UTC."""
        return run_hour(self.context)

    def hour_prefix(self, root: str) -> str:
        """Return ``<root>/YYYY/MM/DD/hh:mm/``, the folder of the run's hour."""
        dag = self.context.get("dag")
        if dag is not None and is_finer_than_hours(dag.timetable):
            _log.warning(
                "DAG %r has several runs in an hour, which share the folder of hour_prefix: "
                "if each run should have its own, use partition_prefix",
                dag.dag_id,
            )
        return f"{root.rstrip('/')}/{hour_folder(self.hour)}/"

    def partition_prefix(self, root: str) -> str:
        """Return the folder of the DAG run, for schedules that are finer than an hour.

        It is ``<root>/YYYY/MM/DD/hh:mm/`` with the minute of the run, or ``<root>/<partition>/`` if
        the partition is no time.
        """
        return f"{root.rstrip('/')}/{run_folder(self.context)}/"
