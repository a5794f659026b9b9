"""The decorators of tasks that work in a step of a run, and ``step_env`` for any other operator."""

from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack
from dataclasses import replace
from typing import Any

from airflow.providers.standard.hooks.subprocess import SubprocessHook
from airflow.providers.standard.operators.python import PythonOperator
from airflow.sdk import Context
from airflow.sdk.bases.decorator import DecoratedOperator, TaskDecorator, task_decorator_factory
from airflow.sdk.definitions._internal.mixins import ResolveMixin
from airflow.sdk.exceptions import AirflowException, AirflowFailException, AirflowSkipException

from graveler.config import is_environment_lake, lake_environment, program_environment
from graveler.runs.steps.environment import step_variables
from graveler_airflow.dag.handles import (
    TaskStep,
    connection_of,
    find_handle,
    needed_handle,
    step_handle,
    working_step,
)
from graveler_airflow.failures import final_failures
from graveler_airflow.hook import GravelerHook
from graveler_airflow.lineage.work import TaskWork
from graveler_airflow.links import LINKS, point_to
from graveler_airflow.operators.base import ReportsLineage

_SETTINGS = "GRAVELER_SETTINGS"
_NAMES = ("GRAVELER_LAKE", "GRAVELER_REPO", "GRAVELER_RUN", "GRAVELER_STEP", _SETTINGS)
_CALL = ("python_callable", "op_args", "op_kwargs")
_SKIP = 99


class GravelerTask(ReportsLineage, DecoratedOperator, PythonOperator):
    """Runs a function in a step of the run that it is called with."""

    custom_operator_name = "@task.graveler"
    operator_extra_links = LINKS
    template_fields: Sequence[str] = ("templates_dict", "op_args", "op_kwargs")

    def __init__(self, **kwargs: Any) -> None:
        call = {name: kwargs[name] for name in _CALL if name in kwargs}
        super().__init__(kwargs_to_upstream=call, **kwargs)
        self._working = False
        self._stopping = False

    def execute(self, context: Context) -> Any:
        """Call the function with a step in place of each run; join the steps."""
        steps: list[tuple[str, TaskStep]] = []  # each with the connection of its run
        self.lineage = TaskWork()
        with final_failures(), ExitStack() as stack:
            stack.callback(self._note, steps)  # also for a task that fails

            def bind(value: Any) -> Any:
                """Return a step for a run, and any other value unchanged."""
                if find_handle(value) is None:
                    return value
                step = stack.enter_context(working_step(value, context))
                steps.append((connection_of(value), step))
                return step

            self.op_args = [bind(value) for value in self.op_args]
            self.op_kwargs = {name: bind(value) for name, value in self.op_kwargs.items()}
            if not steps:
                raise AirflowFailException(
                    f"{self.task_id} was called without a run: pass what "
                    "`with graveler_run(...) as run` gives. `airflow tasks test` runs a task alone, so "
                    "none has opened the run: use `airflow dags test`"
                )
            self._working = True
            try:
                result = super().execute(context)
            finally:
                self._working = False
            if self._stopping:
                raise self._stopped()
        conn_id, first = steps[0]
        if first.result is not None:
            point_to(self, conn_id, first.repository.name, first.result)
        return result

    def _note(self, steps: Sequence[tuple[str, TaskStep]]) -> None:
        for conn_id, step in steps:
            self.lineage.note_step(conn_id, step)

    def on_kill(self) -> None:
        """Stop the function, because after SIGTERM Airflow would let it finish as a success.

        Airflow calls this from its signal handler, so the error is raised inside the function. Even
        if the function catches it, its work is dropped.
        """
        self._stopping = True
        super().on_kill()
        if self._working:
            self._working = False
            raise self._stopped()

    def _stopped(self) -> AirflowException:
        return AirflowException(f"{self.task_id} received a signal to stop: its work is dropped")


def graveler_task(
    python_callable: Callable[..., Any] | None = None,
    multiple_outputs: bool | None = None,
    **kwargs: Any,
) -> TaskDecorator:
    """Make a task of a function that works in a step of a run: ``@task.graveler``.

    In place of the run that ``graveler_run`` gives, the function receives a `TaskStep`.
    Parallel tasks do not see each other's unfinished work, and a retry replaces the work of an
    earlier try.

    Args:
        python_callable: The function.
        multiple_outputs: As for every ``@task``.
        **kwargs: Arguments of the operator: ``retries``, ``execution_timeout``, ``pool``, …
    """
    return task_decorator_factory(
        python_callable=python_callable,
        multiple_outputs=multiple_outputs,
        decorated_operator_class=GravelerTask,
        **kwargs,
    )


class _StepVariable(ResolveMixin):
    """One variable of the step of a task, known when the task runs."""

    def __init__(self, run: Any, name: str) -> None:
        self._run = run
        self._name = name

    def __str__(self) -> str:
        return f"{self._name} of {self._run}"

    def iter_references(self) -> Iterable[Any]:
        """Yield the task that opens the run, which becomes upstream."""
        if isinstance(self._run, ResolveMixin):
            yield from self._run.iter_references()

    def resolve(self, context: Context) -> str:
        """Return the value for the task of the context."""
        run = self._run.resolve(context) if isinstance(self._run, ResolveMixin) else self._run
        return _variables(run, context).get(self._name, "")


def _variables(run: Any, context: Context) -> dict[str, str]:
    handle = needed_handle(run)
    conn_id = connection_of(run)
    location = GravelerHook(conn_id).location if conn_id else handle.location
    settings = ""
    if is_environment_lake(location):
        variables = lake_environment(location)
        settings = variables[location.removeprefix("env:")]
        location = f"env:{_SETTINGS}"
    variables = step_variables(replace(handle, location=""), step_handle(run, context))
    return {**variables, "GRAVELER_LAKE": location, _SETTINGS: settings}


def step_env(run: Any) -> dict[str, Any]:
    """Return the variables with which the program of any operator works in a step of the run.

    They go into a templated field of the operator: ``env`` of BashOperator, ``environment`` of
    DockerOperator, ``env_vars`` of KubernetesPodOperator and SparkSubmitOperator, or an argument of
    a ``@task.virtualenv`` or ``@task.external_python`` function. The program opens the step and
    joins it with ``graveler.attach()``, or with ``graveler run exec -- COMMAND`` if the command exits
    with 0::

        BashOperator(
            task_id="transform",
            bash_command="graveler run exec -- ./transform.sh",
            env=step_env(run),
            append_env=True,
        )

    A retry replaces the writes of an earlier try of the task. For a lake whose settings are in the
    connection, ``GRAVELER_SETTINGS`` has them with their secrets, which Airflow masks.

    Args:
        run: The run of ``graveler_run``.
    """
    return {name: _StepVariable(run, name) for name in _NAMES}


class _GravelerBashTask(GravelerTask):
    """Runs the command that a function returns, in a step of the run."""

    custom_operator_name = "@task.graveler_bash"

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self._hook = SubprocessHook()

    def execute_callable(self) -> Any:
        """Run the command; its last line is the task's XCom."""
        command = super().execute_callable()
        if not isinstance(command, str) or not command.strip():
            raise TypeError(f"{self.task_id} returned {command!r}: return the command as text")
        values = (*self.op_args, *self.op_kwargs.values())
        step = next(value for value in values if isinstance(value, TaskStep))
        result = self._hook.run_command(
            ["bash", "-c", command], env=program_environment(step.environment())
        )
        if result.exit_code == _SKIP:
            raise AirflowSkipException(f"the command exited with {_SKIP}: its work is dropped")
        if result.exit_code:
            raise AirflowException(
                f"the command exited with {result.exit_code}: its work is dropped"
            )
        return result.output

    def on_kill(self) -> None:
        """Stop the command and drop its work."""
        self._hook.send_sigterm()  # type: ignore[no-untyped-call]  # of Airflow
        super().on_kill()


def graveler_bash_task(
    python_callable: Callable[..., Any] | None = None, **kwargs: Any
) -> TaskDecorator:
    """Make a task of a function that returns a Bash command: ``@task.graveler_bash``.

    The function receives a `TaskStep`, as for ``@task.graveler``. The command works in that step: the
    ``graveler`` command and ``grav://`` addresses below ``$GRAVELER_URL`` write to its branch. Its
    work joins the run if it exits with 0. Exit code 99 skips the task. Any other exit code fails it.

    ::

        @task.graveler_bash
        def transform(run):
            return f"graveler put result.csv :{run.hour_prefix('output')}"

    Args:
        python_callable: The function.
        **kwargs: Arguments of the operator: ``retries``, ``execution_timeout``, ``pool``, …
    """
    return task_decorator_factory(
        python_callable=python_callable,
        decorated_operator_class=_GravelerBashTask,
        **kwargs,
    )
