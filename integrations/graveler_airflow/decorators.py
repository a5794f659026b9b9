"""``@task.graveler``: a function that works in a step of a run."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

from airflow.providers.standard.operators.python import PythonOperator
from airflow.sdk import Context
from airflow.sdk.bases.decorator import DecoratedOperator, task_decorator_factory
from airflow.sdk.exceptions import AirflowException, AirflowFailException

from graveler_airflow.dag.handles import TaskStep, connection_of, find_handle, working_step
from graveler_airflow.hook import final_failures
from graveler_airflow.lineage.work import ReportsLineage, TaskWork
from graveler_airflow.links import LINKS, point_to

if TYPE_CHECKING:
    from airflow.sdk.bases.decorator import TaskDecorator


class GravelerTask(ReportsLineage, DecoratedOperator, PythonOperator):
    """Runs a function in a step of the run that it is called with."""

    custom_operator_name = "@task.graveler"
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
            point_to(self, conn_id=conn_id, repo=first.repository.name, commit=first.result)
        return result

    def _note(self, steps: Sequence[tuple[str, TaskStep]]) -> None:
        """Note the reads and writes of the steps for lineage."""
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
) -> "TaskDecorator":
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
