"""``@task.graveler`` and ``@task.graveler_gate``."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

from airflow.providers.standard.operators.python import PythonOperator
from airflow.sdk import Context
from airflow.sdk.bases.decorator import DecoratedOperator, task_decorator_factory
from airflow.sdk.exceptions import AirflowException, AirflowFailException

from graveler.gates import gate as graveler_gate
from graveler_airflow.binding import TaskStep, attached, find_handle
from graveler_airflow.failing import final_failures

if TYPE_CHECKING:
    from airflow.sdk.bases.decorator import TaskDecorator

__all__ = ["graveler_gate", "graveler_task"]


class _GravelerTask(DecoratedOperator, PythonOperator):
    """Runs a function in a step of the run that it is called with."""

    custom_operator_name = "@task.graveler"
    template_fields: Sequence[str] = ("templates_dict", "op_args", "op_kwargs")

    def __init__(
        self,
        *,
        python_callable: Callable[..., Any],
        op_args: Sequence[Any] = (),
        op_kwargs: Mapping[str, Any] | None = None,
        **kwargs: Any,
    ) -> None:
        called: dict[str, Any] = {
            "python_callable": python_callable,
            "op_args": op_args,
            "op_kwargs": op_kwargs or {},
        }
        super().__init__(kwargs_to_upstream=called, **called, **kwargs)
        self._killed = False

    def execute(self, context: Context) -> Any:
        with final_failures(), ExitStack() as steps:
            bound = 0

            def bind(value: Any) -> Any:
                nonlocal bound
                if find_handle(value) is None:
                    return value
                bound += 1
                return steps.enter_context(_step(steps, value, context))

            self.op_args = [bind(value) for value in self.op_args]
            self.op_kwargs = {name: bind(value) for name, value in self.op_kwargs.items()}
            if not bound:
                raise AirflowFailException(
                    f"{self.task_id} was called without a run: give it what "
                    "`with graveler_run(...) as run` gives"
                )
            result = super().execute(context)
            if self._killed:
                raise AirflowException(f"{self.task_id} was told to stop: nothing of it is kept")
            return result

    def on_kill(self) -> None:
        """Remember it: after SIGTERM Airflow lets the function end, and calls that a success."""
        self._killed = True
        super().on_kill()


def _step(stack: ExitStack, value: Any, context: Context) -> TaskStep:
    ti = context["ti"]
    run = stack.enter_context(attached(value))
    # the instances of a mapped task are steps of their own
    suffix = "" if ti.map_index is None or ti.map_index < 0 else f"[{ti.map_index}]"
    step = run.step(
        f"{ti.task_id}{suffix}",
        try_number=ti.try_number,
        metadata={"airflow.run_id": ti.run_id},
    )
    return TaskStep.of(step, context)


def graveler_task(
    python_callable: Callable[..., Any] | None = None,
    multiple_outputs: bool | None = None,
    **kwargs: Any,
) -> "TaskDecorator":
    """Make a task of a function that works in a step of a run: ``@task.graveler``.

    Where the function is called with the run that ``graveler_run`` gives, it gets a
    `TaskStep`. Tasks side by side do not see each other's unfinished work, and a retry
    replaces what an earlier try did.

    Args:
        python_callable: The function.
        multiple_outputs: As of any ``@task``.
        **kwargs: Arguments of the operator: ``retries``, ``execution_timeout``, ``pool``, …
    """
    return task_decorator_factory(
        python_callable=python_callable,
        multiple_outputs=multiple_outputs,
        decorated_operator_class=_GravelerTask,
        **kwargs,
    )
