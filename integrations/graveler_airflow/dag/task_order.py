"""Which task of a run waits for which, so that no failure goes under.

Airflow calls a DAG run failed if one of its last tasks has failed. A task that runs *in spite
of* a failure before it (``trigger_rule="all_done"``, say) ends it there: nothing after it knows.
Inside the block of a run that would publish half of the work; behind it, it would turn a run
that was refused green.
"""

from collections.abc import Iterable
from typing import Any, Final

from airflow.sdk import TriggerRule

from graveler.errors import InvalidInputError

__all__ = ["check_failures_show", "check_waited_for", "leaves_of", "loosen", "watched"]

_PASSES_FAILURE_ON: Final = (
    TriggerRule.ALL_SUCCESS,
    TriggerRule.NONE_FAILED,
    TriggerRule.NONE_FAILED_MIN_ONE_SUCCESS,
)


def _passes_failure_on(task: Any) -> bool:
    return task.trigger_rule in _PASSES_FAILURE_ON


def leaves_of(tasks: Iterable[Any]) -> list[Any]:
    """Return those of the tasks that none of the others waits for."""
    tasks = list(tasks)
    ids = {task.task_id for task in tasks}
    return [task for task in tasks if not ids & task.downstream_task_ids]


def watched(tasks: Iterable[Any]) -> list[Any]:
    """Return the tasks that the merge must wait for, to miss no failure among `tasks`.

    These are the last ones, and each whose failure a task behind it would hide.
    """
    tasks = list(tasks)
    by_id = {task.task_id: task for task in tasks}
    last = {task.task_id for task in leaves_of(tasks)}
    return [
        task
        for task in tasks
        if task.task_id in last
        or any(
            not _passes_failure_on(by_id[behind])
            for behind in task.downstream_task_ids & by_id.keys()
        )
    ]


def loosen(setup: Any, tasks: Iterable[Any]) -> None:
    """Let tasks with a trigger rule of their own wait for the setup through others only.

    A task that is called with the run waits for the opening of the run, and Airflow wants the
    rule ``all_success`` of whatever waits for a setup directly. One that joins branches has
    another, and waits for tasks that have waited for the setup.
    """
    for task in tasks:
        waits_for_others = task.upstream_task_ids - {setup.task_id}
        if task.trigger_rule != TriggerRule.ALL_SUCCESS and waits_for_others:
            setup.downstream_task_ids.discard(task.task_id)
            task.upstream_task_ids.discard(setup.task_id)


def check_waited_for(opened: Any, merge: Any) -> None:
    """Raise InvalidInputError if a task outside the block works in the run while it is published.

    One that comes after the merge cannot: the run takes no more writes then.

    Args:
        opened: The task that opens the run.
        merge: The task that publishes it.
    """
    ordered = {*_reached(merge, "upstream_list"), *_reached(merge, "downstream_list")}
    block = {task.task_id for task in opened.task_group.iter_tasks()}
    for task in opened.downstream_list:
        if task.task_id in ordered | block or task.is_setup or task.is_teardown:
            continue
        raise InvalidInputError(
            f"{task.task_id} is called with the run of {opened.task_id} outside of its block, and "
            f"{merge.task_id} does not wait for it: its work could be missing from what is "
            "published. Call it inside the `with graveler_run(...)` block"
        )


def _reached(task: Any, along: str) -> set[str]:
    found: set[str] = set()
    to_follow = [task]
    while to_follow:
        others = [task for task in getattr(to_follow.pop(), along) if task.task_id not in found]
        found |= {task.task_id for task in others}
        to_follow += others
    return found


def check_failures_show(merge: Any) -> None:
    """Raise InvalidInputError if a DAG run would be green although its merge has failed."""
    hiding = _hiding(merge)
    if hiding is not None:
        raise InvalidInputError(
            f"{hiding.task_id} (trigger_rule {TriggerRule(hiding.trigger_rule).value!r}) runs although "
            f"{merge.task_id} has failed, and nothing else comes after that: a refused run would "
            f"be a success. Let it follow the tasks before {merge.task_id}, or use "
            "on_failure_callback, or let another task with the rule 'all_success' follow "
            f"{merge.task_id} as well"
        )


def _hiding(merge: Any) -> Any:
    """Return a task that hides the failure of `merge`, None if some last task shows it."""
    hiding = None
    failed, looked_at = [merge], {merge.task_id}
    while failed:
        behind = [other for other in failed.pop().downstream_list if not other.is_teardown]
        if not behind:
            return None
        for other in behind:
            if not _passes_failure_on(other):
                hiding = other
            elif other.task_id not in looked_at:
                looked_at.add(other.task_id)
                failed.append(other)
    return hiding
