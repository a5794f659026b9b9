"""The tasks of a DAG run that count as done, and the agreement of the run with them.

A run must have the work of exactly the tasks that Airflow calls done. Airflow stores the tasks that
have succeeded, and the run stores the steps that have joined it. The two can differ: a branch may be
dropped while its finished tasks stay finished, or a task that wrote in an earlier attempt is skipped
in this one. Each task pushes the commit of its step as an XCom. From these commits and the states of
the tasks, opening and publishing the run restore the agreement.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final

from graveler.errors import RunStateError
from graveler.lake import Run, RunState, Step
from graveler.reads import Stores
from graveler.runs.history import joined_steps, lost_steps
from graveler_airflow.dag.context import step_name, task_metadata

if TYPE_CHECKING:
    from airflow.sdk import Context

_JOINED: Final = "graveler_joined"

DONE: Final = ("success",)
"""The publish must have the work of tasks in these states."""
NO_PART: Final = ("skipped", "removed")
"""The publish must not have work of an earlier attempt of tasks in these states."""
TO_RUN: Final = (None, "scheduled", "queued")
"""Tasks in these states have not run yet, or are not in the DAG run."""

_UNSUCCESSFUL: Final = ("failed", "upstream_failed", *NO_PART)


class TaskStates:
    """The states of the tasks of one DAG run.

    The states of each task are read separately, because the id of a task may be equal to the name of
    an instance of a mapped task.

    Args:
        context: The context of a task of the DAG run.
    """

    def __init__(self, context: "Context") -> None:
        self._ti = context["ti"]
        self._run = context["dag_run"]
        self._known: dict[str, Mapping[str, str | None]] = {}

    def is_in(self, states: Collection[str | None], task_id: str, step: str) -> bool:
        """Return whether the task instance of this step is in one of the states."""
        if task_id not in self._known:
            self._known[task_id] = self._states([task_id])
        index = step[len(task_id) :].strip("[]")
        return self._known[task_id].get(f"{task_id}_{index}" if index else task_id) in states

    def made_by(
        self, states: Collection[str | None], step: str, metadata: Mapping[str, str]
    ) -> bool:
        """Return whether a task of this DAG in one of the states made a step's commit."""
        task_id = metadata.get("airflow.task_id", "")
        index = metadata.get("airflow.map_index", "")
        return (
            metadata.get("airflow.dag_id") == self._run.dag_id
            and step == (f"{task_id}[{index}]" if index else task_id)
            and self.is_in(states, task_id, step)
        )

    def unsuccessful(self) -> dict[str, str]:
        """Return the state of each task instance that ended without success, sorted by name."""
        return {
            name: state
            for name, state in sorted(self._states().items())
            if state is not None and state in _UNSUCCESSFUL
        }

    def _states(self, task_ids: list[str] | None = None) -> Mapping[str, str | None]:
        run = self._run
        by_run: Mapping[str, Mapping[str, str | None]] = self._ti.get_task_states(
            dag_id=run.dag_id, task_ids=task_ids, run_ids=[run.run_id]
        )
        return by_run.get(run.run_id, {})


def push_joined(context: "Context", steps: Iterable[Step]) -> None:
    """Push the commits with which the steps of this task joined; none if nothing changed."""
    commits = [
        [*_place(step.repository, step.run.key), step.result.id]
        for step in steps
        if step.result is not None
    ]
    if commits:
        value = {"step": step_name(context), "commits": commits}
        context["ti"].xcom_push(key=_JOINED, value=value)


def pushes_joined(task: Any) -> bool:
    """Return whether a task of a DAG, mapped or not, works in steps and pushes their commits."""
    return bool(getattr(getattr(task, "operator_class", task), "works_in_steps", False))


def undo_stale(context: "Context", run: Run) -> list[str]:
    """Undo the steps of tasks that run again or do not take part; return their names.

    The tasks then read only work of succeeded tasks. Steps that no task of this DAG made are kept.
    """
    return _undo(context, run, (*TO_RUN, *NO_PART))


def agree_to_publish(context: "Context", run: Run) -> list[str]:
    """Bring the run into agreement with the DAG run; return the names of the steps undone.

    Raises:
        RunStateError: The work of a task that Airflow calls done is missing from the run.
    """
    _check_nothing_lost(context, run)
    return _undo(context, run, NO_PART)


def _undo(context: "Context", run: Run, states: Collection[str | None]) -> list[str]:
    tasks = TaskStates(context)
    stale = [
        step
        for step, joined in joined_steps(run.repository, run.record).items()
        if joined.changed and tasks.made_by(states, step, joined.commit.metadata)
    ]
    for step in stale:
        run.undo_step(step, metadata=task_metadata(context))
    return stale


def _check_nothing_lost(context: "Context", run: Run) -> None:
    record = run.record
    if record.fence != run.handle.fence or record.state not in (
        RunState.OPEN,
        RunState.PUBLISHING,
    ):
        return  # publishing reports that the attempt is over
    lost = lost_steps(run.repository, record, dict(_joined_by_done_tasks(context, run)))
    if lost:
        raise RunStateError(
            f"run {run.key!r}: the work of {', '.join(lost)} is gone, and Airflow does not repeat "
            "it by itself: its branch was dropped, or its publish was rolled back. Nothing is "
            f"published without it, {record.into!r} has not moved: clear the whole DAG run"
        )


def _joined_by_done_tasks(context: "Context", run: Run) -> Iterator[tuple[str, str]]:
    """Yield the steps of the run whose tasks succeeded, each with its commit."""
    states = TaskStates(context)
    for task in filter(pushes_joined, context["dag"].tasks):
        # one call for all instances of a mapped task
        for value in context["ti"].xcom_pull(task_ids=[task.task_id], key=_JOINED) or ():
            if value is None or not states.is_in(DONE, task.task_id, value["step"]):
                continue
            for *place, commit in value["commits"]:
                if place == _place(run.repository, run.key):
                    yield value["step"], commit


def _place(repository: Stores, key: str) -> list[str]:
    """Return the identity of a run in every process; a location may differ between workers."""
    return [repository.uid, key]
