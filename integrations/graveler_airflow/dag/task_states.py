"""The tasks of a DAG run that count as done, and the agreement of the run with them.

A run must have the work of exactly the tasks that Airflow calls done. The lake remembers the last join of
each step, with the DAG run and the task that made it. From these joins and the states of the tasks, opening
and publishing the run restore the agreement; a run is not published while a task of it has failed.
"""

import re
from collections.abc import Collection, Container, Mapping
from functools import cached_property

from airflow.sdk import Context

from graveler.errors import RefNotFoundError, RunNotFoundError, RunStateError
from graveler.lake import Repository, Run, RunState
from graveler.runs.history import joined_steps
from graveler_airflow.dag.context import task_metadata
from graveler_common.history import own_commits

DONE = ("success",)
"""The publish must have the work of tasks in these states."""
NO_PART = ("skipped", "removed")
"""The publish must not have work of an earlier attempt of tasks in these states."""
TO_RUN = (None, "scheduled", "queued")
"""Tasks in these states have not run yet, or are not in the DAG run."""

_FAILED = ("failed", "upstream_failed")
_UNSUCCESSFUL = (*_FAILED, *NO_PART)
_UNKNOWN = "unknown"
_INDEX = re.compile(r"_(\d+)$")
_BRACKETS = re.compile(r"\[\d+\]$")


class TaskStates:
    """The states of the tasks of one DAG run.

    The states of each task are read separately, because the id of a task may be equal to the name of
    an instance of a mapped task.
    """

    def __init__(self, context: Context) -> None:
        self._context = context
        self._ti = context["ti"]
        self._run = context["dag_run"]
        self._known: dict[str, Mapping[str, str | None]] = {}

    def of_step(self, step: str, metadata: Mapping[str, str]) -> str | None:
        """Return the state that decides about a step: that of its task, or of the task that triggered.

        It is ``unknown`` for a step that no task of the DAG run made or triggered.
        """
        task_id = metadata.get("airflow.task_id", "")
        index = metadata.get("airflow.map_index", "")
        dag_id = metadata.get("airflow.dag_id", "")
        if dag_id == self._run.dag_id and step == (f"{task_id}[{index}]" if index else task_id):
            return self._of(task_id, index)
        return self._triggered.get((dag_id, metadata.get("airflow.run_id", "")), _UNKNOWN)

    def _of(self, task_id: str, index: str = "") -> str | None:
        if task_id not in self._known:
            self._known[task_id] = self._states([task_id])
        return self._known[task_id].get(f"{task_id}_{index}" if index else task_id)

    @cached_property
    def _triggered(self) -> Mapping[tuple[str, str], str | None]:
        """The DAG runs that tasks of the DAG run have triggered, with the states of these tasks."""
        found: dict[tuple[str, str], str | None] = {}
        for task in self._context["dag"].tasks:
            given = getattr(task, "partial_kwargs", None) or vars(task)
            if "trigger_dag_id" not in given:
                continue
            self._of(task.task_id)
            for name, state in self._known[task.task_id].items():
                index = name.removeprefix(task.task_id).removeprefix("_")
                run_id = self._ti.xcom_pull(
                    task_ids=task.task_id,
                    key="trigger_run_id",
                    map_indexes=int(index) if index else -1,
                )
                found[str(given["trigger_dag_id"]), str(run_id)] = state
        return found

    def unsuccessful(self) -> dict[str, str]:
        """Return the state of each task instance that ended without success, sorted by name."""
        plain = self._context["dag"].task_dict
        return {
            name if name in plain else _INDEX.sub(r"[\1]", name): state
            for name, state in sorted(self._states().items())
            if state is not None and state in _UNSUCCESSFUL
        }

    def _states(self, task_ids: list[str] | None = None) -> Mapping[str, str | None]:
        run = self._run
        by_run: Mapping[str, Mapping[str, str | None]] = self._ti.get_task_states(
            dag_id=run.dag_id, task_ids=task_ids, run_ids=[run.run_id]
        )
        return by_run.get(run.run_id, {})


def is_one_of(instance: str, task_ids: Container[str]) -> bool:
    """Return whether a task instance, which may have an index of a mapped task, is one of these."""
    return instance in task_ids or _BRACKETS.sub("", instance) in task_ids


def keeps_nothing(context: Context, repository: Repository, key: str) -> bool:
    """Return whether the next attempt of a run would undo all that is on the run's branch.

    Such an attempt starts from the present head of the target.
    """
    try:
        record = repository.runs.get(key)
        own = [*own_commits(repository, record.branch, key)]
    except (RunNotFoundError, RefNotFoundError):
        return False
    tasks = TaskStates(context)
    return all("graveler.step" in commit.metadata for commit in own) and all(
        tasks.of_step(step, joined.commit.metadata) in (*TO_RUN, *NO_PART)
        for step, joined in joined_steps(repository.stores, record).items()
        if joined.changed
    )


def undo_stale(context: Context, run: Run) -> list[str]:
    """Undo the steps of tasks that run again or do not take part; return their names.

    The tasks then read only work of succeeded tasks. Steps that no task of this DAG made are kept.
    """
    return _undo(context, run, (*TO_RUN, *NO_PART))


def agree_to_publish(context: Context, run: Run, work: Container[str]) -> list[str]:
    """Bring the run into agreement with the DAG run; return the names of the steps undone."""
    _check_complete(context, run, work)
    return _undo(context, run, NO_PART)


def _undo(context: Context, run: Run, states: Collection[str | None]) -> list[str]:
    tasks = TaskStates(context)
    stale = [
        step
        for step, joined in joined_steps(run.repository, run.record).items()
        if joined.changed and tasks.of_step(step, joined.commit.metadata) in states
    ]
    for step in stale:
        run.undo_step(step, metadata=task_metadata(context))
    return stale


def _check_complete(context: Context, run: Run, work: Container[str]) -> None:
    record = run.record
    if record.fence != run.handle.fence or record.state not in (
        RunState.OPEN,
        RunState.PUBLISHING,
    ):
        return  # publishing reports that the attempt is over
    tasks, joins = TaskStates(context), run.last_joins()
    states = {step: tasks.of_step(step, commit.metadata) for step, commit in joins.items()}
    # a user may mark a task as failed after it has succeeded, and clear only tasks after it
    index = context["ti"].map_index
    own = f"[{index}]" if index is not None and index >= 0 else ""  # each mapped group has its run
    seen = {
        name: state
        for name, state in tasks.unsuccessful().items()
        if is_one_of(name, work) and name.endswith(own)
    }
    failed = {name: state for name, state in (states | seen).items() if state in _FAILED}
    if failed:
        raise RunStateError(
            f"run {run.key!r}: Airflow shows that "
            f"{', '.join(f'{name} is {state}' for name, state in sorted(failed.items()))}: {record.into!r} "
            "has not moved: clear them with the tasks after them; or mark them as successful, and clear "
            "this task"
        )
    done = {step: commit.id for step, commit in joins.items() if states[step] in DONE}
    if lost := run.lost_steps(done):
        raise RunStateError(
            f"run {run.key!r}: the work of {', '.join(lost)} is gone, and Airflow does not repeat "
            "it by itself: its branch was dropped, or its publish was rolled back. Nothing is "
            f"published without it, {record.into!r} has not moved: clear the whole DAG run"
        )
