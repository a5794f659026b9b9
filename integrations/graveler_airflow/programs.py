"""Tasks that are not Python: ``step_env`` for any operator, ``@task.graveler_bash`` for Bash."""

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from airflow.providers.standard.hooks.subprocess import SubprocessHook
from airflow.sdk import Context
from airflow.sdk.bases.decorator import task_decorator_factory
from airflow.sdk.definitions._internal.mixins import ResolveMixin
from airflow.sdk.exceptions import AirflowException, AirflowSkipException

from graveler.config import is_environment_lake, lake_environment, program_environment
from graveler.errors import InvalidInputError
from graveler.runs.steps.environment import step_variables
from graveler_airflow.dag.handles import TaskStep, connection_of, find_handle, step_handle
from graveler_airflow.decorators import GravelerTask
from graveler_airflow.hook import GravelerHook

if TYPE_CHECKING:
    from airflow.sdk.bases.decorator import TaskDecorator

_SETTINGS = "GRAVELER_SETTINGS"
_NAMES = ("GRAVELER_LAKE", "GRAVELER_REPO", "GRAVELER_RUN", "GRAVELER_STEP", _SETTINGS)
_SKIP = 99


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
    handle = find_handle(run)
    if handle is None:
        raise InvalidInputError(
            f"not a graveler run: {run!r}: pass what `with graveler_run(...) as run` gives"
        )
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
) -> "TaskDecorator":
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
