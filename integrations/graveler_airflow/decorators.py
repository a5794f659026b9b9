"""``@task.graveler``: a function that works in a step of a run."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any, ClassVar

from airflow.providers.standard.operators.python import PythonOperator
from airflow.sdk import BaseOperator, Context
from airflow.sdk.bases.decorator import DecoratedOperator, task_decorator_factory
from airflow.sdk.exceptions import AirflowException, AirflowFailException

from graveler_airflow.dag.context import step_name, task_metadata
from graveler_airflow.dag.error_policy import final_failures
from graveler_airflow.dag.handles import TaskStep, attached, connection_of, find_handle
from graveler_airflow.dag.xcom_state import tell
from graveler_airflow.lineage.links import LINKS, point_to

if TYPE_CHECKING:
    from airflow.sdk.bases.decorator import TaskDecorator

__all__ = ["graveler_task"]


class _GravelerTask(DecoratedOperator, PythonOperator):
    """Runs a function in a step of the run that it is called with."""

    custom_operator_name = "@task.graveler"
    works_in_steps: ClassVar[bool] = True
    operator_extra_links = LINKS
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
        self._working = False
        self._told_to_stop = False

    def execute(self, context: Context) -> Any:
        with final_failures(), _Steps(context) as steps:
            self.op_args = [steps.bind(value) for value in self.op_args]
            self.op_kwargs = {name: steps.bind(value) for name, value in self.op_kwargs.items()}
            if not steps.bound:
                raise AirflowFailException(
                    f"{self.task_id} was called without a run: give it what "
                    "`with graveler_run(...) as run` gives"
                )
            self._working = True
            try:
                result = super().execute(context)
            finally:
                self._working = False
            if self._told_to_stop:
                raise self._stopped()
        tell(context, [step for _, step in steps.bound])
        steps.point(self)
        return result

    def on_kill(self) -> None:
        """Stop the function: after SIGTERM Airflow would let it end, and call that a success.

        Airflow calls this from its signal handler, so that what is raised here is raised where
        the function is. Should the function swallow it, nothing of it is kept all the same.
        """
        self._told_to_stop = True
        super().on_kill()
        if self._working:
            self._working = False
            raise self._stopped()

    def _stopped(self) -> AirflowException:
        return AirflowException(f"{self.task_id} was told to stop: nothing of it is kept")


class _Steps(ExitStack):
    """The steps of a task, one for each run that it was called with; each joins its own."""

    def __init__(self, context: Context) -> None:
        super().__init__()
        self.bound: list[tuple[str, TaskStep]] = []
        self._context = context

    def bind(self, value: Any) -> Any:
        """Return a step in place of a run, anything else as it is."""
        if find_handle(value) is None:
            return value
        run = self.enter_context(attached(value))
        self.enter_context(run.renewing())
        step = run.step(
            step_name(self._context),
            try_number=self._context["ti"].try_number,
            metadata=task_metadata(self._context),
        )
        bound = self.enter_context(TaskStep.of(step, self._context))
        self.bound.append((connection_of(value), bound))
        return bound

    def point(self, operator: BaseOperator) -> None:
        """Let the task's links lead to the commit by which its first step joined the run."""
        conn_id, step = self.bound[0]
        if step.result is not None:
            repo = step.repository.name
            point_to(operator, conn_id=conn_id, repo=repo, commit=step.result)


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
