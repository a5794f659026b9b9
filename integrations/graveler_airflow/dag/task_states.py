"""Which tasks of a DAG run count as done, take no part, or have yet to run."""

from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from airflow.sdk import Context


DONE: Final = ("success",)
"""The work of these tasks must be in what is published."""
NO_PART: Final = ("skipped", "removed")
"""Work that these tasks left in an earlier attempt must not be published."""
TO_RUN: Final = (None, "scheduled", "queued")
"""These tasks have yet to run, or are not in the DAG run at all."""

_UNSUCCESSFUL: Final = ("failed", "upstream_failed", *NO_PART)


class TaskStates:
    """The states of the tasks of one DAG run.

    Each task is asked for by itself, because a task id may look like that of a mapped instance.

    Args:
        context: The context of a task of the DAG run.
    """

    def __init__(self, context: "Context") -> None:
        self._ti = context["ti"]
        self._run = context["dag_run"]
        self._known: dict[str, Mapping[str, str | None]] = {}

    def is_in(self, states: Collection[str | None], task_id: str, step: str) -> bool:
        """Return whether the instance of a task that is this step is in one of the states."""
        if task_id not in self._known:
            self._known[task_id] = self._states([task_id])
        index = step[len(task_id) :].strip("[]")
        return self._known[task_id].get(f"{task_id}_{index}" if index else task_id) in states

    def made_by(
        self, states: Collection[str | None], step: str, metadata: Mapping[str, str]
    ) -> bool:
        """Return whether a task of this DAG that is in one of the states made a step's commit."""
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
        states = self._ti.get_task_states(
            dag_id=run.dag_id, task_ids=task_ids, run_ids=[run.run_id]
        )
        found: Mapping[str, str | None] = states.get(run.run_id, {})
        return found
