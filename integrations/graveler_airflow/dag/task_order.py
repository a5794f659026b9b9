"""The order of the tasks of a run, which must not mask a failure.

Airflow marks a DAG run as failed if one of its last tasks has failed. A task that runs despite an
upstream failure (as with ``trigger_rule="all_done"``) masks the failure from all tasks after it.
Inside the block of a run, incomplete work would be published. After the block, a refused run would
count as a success.
"""

from collections.abc import Iterable
from typing import Any, Final

from airflow.sdk import TriggerRule

from graveler.errors import InvalidInputError

_PROPAGATE_FAILURE: Final = (
    TriggerRule.ALL_SUCCESS,
    TriggerRule.NONE_FAILED,
    TriggerRule.NONE_FAILED_MIN_ONE_SUCCESS,
)


def _propagates_failure(task: Any) -> bool:
    return task.trigger_rule in _PROPAGATE_FAILURE


def leaves_of(tasks: Iterable[Any]) -> list[Any]:
    """Return the tasks that none of the others waits for."""
    tasks = list(tasks)
    ids = {task.task_id for task in tasks}
    return [task for task in tasks if not ids & task.downstream_task_ids]


def watched(tasks: Iterable[Any]) -> list[Any]:
    """Return the tasks for which the merge must wait to notice every failure among `tasks`.

    These are the last tasks, and each task whose failure a downstream task would mask.
    """
    tasks = list(tasks)
    by_id = {task.task_id: task for task in tasks}
    last = {task.task_id for task in leaves_of(tasks)}
    return [
        task
        for task in tasks
        if task.task_id in last
        or any(
            not _propagates_failure(by_id[after])
            for after in task.downstream_task_ids & by_id.keys()
        )
    ]


def loosen(setup: Any, tasks: Iterable[Any]) -> None:
    """Let tasks with another trigger rule wait for the setup indirectly.

    A task that is called with the run waits for the opening of the run. Airflow requires the rule
    ``all_success`` for a task that waits for a setup directly. A task with another rule waits for
    tasks that have waited for the setup.
    """
    for task in tasks:
        others = task.upstream_task_ids - {setup.task_id}
        if task.trigger_rule != TriggerRule.ALL_SUCCESS and others:
            setup.downstream_task_ids.discard(task.task_id)
            task.upstream_task_ids.discard(setup.task_id)


def check_waited_for(opened: Any, merge: Any) -> None:
    """Raise InvalidInputError if a task outside the block works in the run while it is published.

    A task after the merge may have the run, because the run then accepts no more writes.

    Args:
        opened: The task that opens the run.
        merge: The task that publishes it.
    """
    before = merge.get_flat_relative_ids(upstream=True)
    after = merge.get_flat_relative_ids(upstream=False)
    block = {task.task_id for task in opened.task_group.iter_tasks()}
    for task in opened.downstream_list:
        if task.task_id in before | after | block or task.is_setup or task.is_teardown:
            continue
        raise InvalidInputError(
            f"{task.task_id} is called with the run of {opened.task_id} outside its block, and "
            f"{merge.task_id} does not wait for it: its work could be missing from what is "
            "published. Call it inside the `with graveler_run(...)` block"
        )


def check_failures_show(merge: Any) -> None:
    """Raise InvalidInputError if a DAG run would succeed although its merge has failed."""
    masking = _masking(merge)
    if masking is not None:
        raise InvalidInputError(
            f"{masking.task_id} (trigger_rule {TriggerRule(masking.trigger_rule).value!r}) runs "
            f"although {merge.task_id} has failed, and no other task comes last: a refused run "
            f"would be a success. Let it follow the tasks before {merge.task_id}, or use "
            "on_failure_callback, or let another task with the rule 'all_success' follow "
            f"{merge.task_id} as well"
        )


def _masking(merge: Any) -> Any:
    """Return a task that masks the failure of `merge`; None if a last task shows the failure."""
    masking = None
    failed, seen = [merge], {merge.task_id}
    while failed:
        after = [other for other in failed.pop().downstream_list if not other.is_teardown]
        if not after:
            return None
        for other in after:
            if not _propagates_failure(other):
                masking = other
            elif other.task_id not in seen:
                seen.add(other.task_id)
                failed.append(other)
    return masking
