"""That a run holds the work of those tasks that Airflow calls done, and of no others.

Airflow remembers which tasks have succeeded, the run which steps have joined it, and the two can
drift apart: a branch is dropped and its finished tasks stay finished, or a task that wrote before
is skipped this time. Each task leaves the commit by which it joined as an XCom; by that, and by
the states of the tasks, the opening of the run and its merge bring the two together again.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final

from graveler.errors import RunStateError
from graveler.lake import Run, RunState, Step
from graveler.runs.steps.history import joined_steps, lost_steps
from graveler_airflow.dag.context import step_name, task_metadata

if TYPE_CHECKING:
    from airflow.sdk import Context

__all__ = [
    "JOINED",
    "NOT_TAKING_PART",
    "TO_RUN",
    "check_nothing_lost",
    "take_back",
    "tell",
    "tells",
]

JOINED: Final = "graveler_joined"
"""The XCom in which a task says by which commits its step joined the runs it worked in."""
NOT_TAKING_PART: Final = ("skipped", "removed")
"""States of tasks whose work, of another time, shall not be published."""
TO_RUN: Final = (None, "scheduled", "queued")
"""States of tasks that have yet to run, or are not in the DAG run at all."""

_SUCCESS: Final = "success"


def tell(context: "Context", steps: Iterable[Step]) -> None:
    """Leave by which commits the steps of this task joined; nothing where they wrote nothing."""
    commits = [[*_place(step.run), step.result.id] for step in steps if step.result is not None]
    if commits:
        told = {"step": step_name(context), "commits": commits}
        context["ti"].xcom_push(key=JOINED, value=told)


def tells(task: Any) -> bool:
    """Return whether a task of a DAG, mapped or not, does so when it has run."""
    return bool(getattr(getattr(task, "operator_class", task), "works_in_steps", False))


def _place(handle: Any) -> list[str]:
    return [handle.location, handle.repository, handle.key]


def take_back(context: "Context", run: Run, states: Collection[str | None]) -> list[str]:
    """Take back what tasks that are in one of these states did in the run; return their steps.

    What a task reads, and what is published, is then what those left that have succeeded. Steps
    that no task of this DAG made are left alone.
    """
    now = _States(context)
    taken = []
    for step, joined in joined_steps(run.repository, run.record).items():
        said = joined.commit.metadata
        if joined.changed and now.of(said, step) in states:
            run.take_back(step, metadata=task_metadata(context))
            taken.append(step)
    return taken


def check_nothing_lost(context: "Context", run: Run, tasks: Iterable[Any]) -> None:
    """Refuse to publish a run that is without the work of a task that Airflow calls done.

    Raises:
        RunStateError: There are such tasks.
    """
    record = run.record
    if record.fence != run.handle.fence or record.state not in (
        RunState.OPEN,
        RunState.PUBLISHING,
    ):
        return  # publishing knows what to say
    lost = lost_steps(run.repository, record, dict(_done(context, run, tasks)))
    if lost:
        raise RunStateError(
            f"run {run.key!r}: the work of {', '.join(lost)} is gone, and Airflow will not do it "
            f"again by itself: the branch it had joined was dropped, or its publish was taken "
            f"back. Nothing is published without it, {record.into!r} has not moved: clear the "
            "whole DAG run"
        )


def _done(context: "Context", run: Run, tasks: Iterable[Any]) -> Iterator[tuple[str, str]]:
    """Yield the steps that worked in the run and succeeded, and by which commit each joined."""
    now = _States(context)
    for task in tasks:
        # one call for all instances of a mapped task
        for told in context["ti"].xcom_pull(task_ids=[task.task_id], key=JOINED) or ():
            if told is None or now.state(task.task_id, told["step"]) != _SUCCESS:
                continue
            for *place, commit in told["commits"]:
                if place == _place(run.handle):
                    yield told["step"], commit


class _States:
    """The states of the tasks of this DAG run, asked for task by task: ids may contain anything."""

    def __init__(self, context: "Context") -> None:
        self._ti = context["ti"]
        self._run = context["dag_run"]
        self._known: dict[str, Mapping[str, str | None]] = {}

    def of(self, made: Mapping[str, str], step: str) -> str | None:
        """Return the state of the task that made a commit; "" if it is none of this DAG."""
        task_id = made.get("airflow.task_id", "")
        index = made.get("airflow.map_index", "")
        if made.get("airflow.dag_id") != self._run.dag_id:
            return ""
        return self.state(task_id, step) if step == _named(task_id, index) else ""

    def state(self, task_id: str, step: str) -> str | None:
        """Return the state of the instance of a task that is this step; None for none."""
        if task_id not in self._known:
            run = self._run
            found = self._ti.get_task_states(
                dag_id=run.dag_id, task_ids=[task_id], run_ids=[run.run_id]
            )
            self._known[task_id] = found.get(run.run_id, {})
        index = step[len(task_id) :].strip("[]")
        return self._known[task_id].get(f"{task_id}_{index}" if index else task_id)


def _named(task_id: str, index: str) -> str:
    return f"{task_id}[{index}]" if index else task_id
