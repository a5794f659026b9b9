"""The order of the tasks of a run, which must not mask a failure.

Airflow marks a DAG run as failed if one of its last tasks has failed. A task that runs despite an
upstream failure (as with ``trigger_rule="all_done"``) masks the failure from all tasks after it.
Inside the block of a run, incomplete work would be published. After the block, a refused run would
count as a success.
"""

from collections.abc import Iterable, Iterator
from inspect import signature
from typing import Any

from airflow.sdk import TriggerRule, XComArg

from graveler.errors import InvalidInputError

_PROPAGATE_FAILURE = (
    TriggerRule.ALL_SUCCESS,
    TriggerRule.NONE_FAILED,
    TriggerRule.NONE_FAILED_MIN_ONE_SUCCESS,
)
_NEED_ANOTHER_END = (
    TriggerRule.ALL_FAILED,
    TriggerRule.ALL_SKIPPED,
    TriggerRule.ONE_FAILED,
)
_WAITS = ("wait_for_completion", "wait_for_termination")
_MAPPED = ("expand_input", "op_kwargs_expand_input")


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
    last = {task.task_id for task in leaves_of(task for task in tasks if not task.is_teardown)}
    for task in tasks:
        if task.is_setup and task.task_id in last:
            raise InvalidInputError(
                f"{task.task_id} is a setup that is given the run, and no task of the block follows it: "
                "let one follow, because Airflow lets no merge wait for a setup"
            )
    last |= {task.task_id for task in leaves_of(tasks)}
    return [
        task
        for task in tasks
        if (task.task_id in last and not task.is_setup)
        or any(
            not (task.is_setup or _propagates_failure(by_id[after]))
            for after in task.downstream_task_ids & by_id.keys()
        )
    ]


def loosen(setup: Any, tasks: Iterable[Any]) -> None:
    """Let tasks with another trigger rule wait for the setup indirectly.

    A task that is called with the run waits for the opening of the run. Airflow requires the rule
    ``all_success`` for a task that waits for a setup directly. A task with another rule waits for
    tasks that have waited for the setup. If it waits for setups alone, the rules that a success
    satisfies are equal.
    """
    for task in tasks:
        if task.trigger_rule == TriggerRule.ALL_SUCCESS or task.is_teardown:
            continue
        others = [other for other in task.upstream_list if other is not setup]
        if any(setup.task_id in other.get_flat_relative_ids(upstream=True) for other in others):
            _disconnect(setup, task)
        elif (
            setup in task.upstream_list
            and all(other.is_setup for other in others)
            and task.trigger_rule not in _NEED_ANOTHER_END
        ):
            task.trigger_rule = TriggerRule.ALL_SUCCESS


def _disconnect(before: Any, after: Any) -> None:
    before.downstream_task_ids.discard(after.task_id)
    after.upstream_task_ids.discard(before.task_id)


def open_first(opened: Any, block: Any) -> None:
    """Let the opening of a run wait for no task of its block, as Airflow's teardowns would have it."""
    for task in opened.upstream_list:
        if block.has_task(task):
            _disconnect(task, opened)


def check_rules(setup: Any, tasks: Iterable[Any]) -> None:
    """Raise InvalidInputError for a task after the setup whose trigger rule Airflow does not accept."""
    for task in tasks:
        if task.trigger_rule != TriggerRule.ALL_SUCCESS and not task.is_teardown:
            raise InvalidInputError(
                f"{task.task_id} (trigger_rule {TriggerRule(task.trigger_rule).value!r}) waits for "
                f"{setup.task_id}, and Airflow accepts only the rule 'all_success' there: leave the "
                f"rule out, or let {task.task_id} follow another task of the run"
            )


def is_given(task: Any, opened: Any) -> bool:
    """Return whether a task, mapped or not, has the run that `opened` opens in its arguments.

    A template has it if it has the id of `opened` in quotes.
    """
    given = [getattr(task, field, None) for field in task.template_fields]
    if hasattr(task, "partial_kwargs"):
        inputs = (getattr(task, name, None) for name in _MAPPED)
        given = [task.partial_kwargs, *(getattr(each, "value", None) for each in inputs)]
    if any(operator is opened for operator, _ in XComArg.iter_xcom_references(given)):
        return True
    return any(
        f"{quote}{opened.task_id}{quote}" in text for text in _texts(given) for quote in "'\""
    )


def _texts(given: Any) -> Iterator[str]:
    """Yield the texts in lists and dicts of any depth."""
    if isinstance(given, str):
        yield given
    elif isinstance(given, dict):
        yield from _texts(list(given.values()))
    elif isinstance(given, list | tuple):
        for each in given:
            yield from _texts(each)


def _not_waiting(task: Any) -> str:
    values = vars(task)
    if hasattr(task, "partial_kwargs"):
        arguments = signature(task.operator_class.__init__).parameters.values()
        values = {item.name: item.default for item in arguments} | task.partial_kwargs
    return next((name for name in _WAITS if values.get(name) is False), "")


def check_waited_for(opened: Any, merge: Any) -> None:
    """Raise InvalidInputError if a task may work in the run while it is published.

    A task after the merge may have the run, because the run then accepts no more writes.
    """
    before = merge.get_flat_relative_ids(upstream=True)
    after = merge.get_flat_relative_ids(upstream=False)
    for task in opened.dag.tasks:
        if task is merge or task.task_id in after or not is_given(task, opened):
            continue
        if argument := _not_waiting(task):
            raise InvalidInputError(
                f"{task.task_id} is given the run of {opened.task_id} and does not wait for what it "
                f"starts, so {merge.task_id} cannot wait for it either: set {argument}=True"
            )
        if task.task_id not in before:
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
