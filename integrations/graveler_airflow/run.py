"""``graveler_run``: the tasks of a DAG between opening a run and publishing it."""

import warnings
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any, Unpack

from airflow.sdk import AssetAlias, CronPartitionTimetable, TaskGroup, TriggerRule

from graveler.errors import InvalidInputError
from graveler.gates.gate import Check, Gate, as_gates
from graveler.repository.strategies import Strategy
from graveler_airflow.assets import is_partitioned, listed_assets
from graveler_airflow.dag.task_order import is_given, leaves_of, loosen, open_first, watched
from graveler_airflow.operators.gates import GravelerGateOperator
from graveler_airflow.operators.runs import (
    GravelerCloseRunOperator,
    GravelerOpenRunOperator,
    GravelerPublishRunOperator,
    OpeningTerms,
)

# for a store that is busy or unreachable; errors for which a retry does not help fail at once
_RETRIES: dict[str, Any] = {"retries": 3, "retry_delay": timedelta(seconds=10)}
# parking a run must not wait for other tasks
_URGENT: dict[str, Any] = {"priority_weight": 1000, "weight_rule": "absolute"}


@contextmanager
def graveler_run(
    repo: str = "",
    *,
    gates: Iterable[Gate | Check] = (),
    strategy: Strategy | None = None,
    asset: Any = None,
    pool: str | None = None,
    group_id: str | None = None,
    **terms: Unpack[OpeningTerms],
) -> Iterator[Any]:
    """Put the tasks of a ``with`` block into one graveler run.

    The block becomes a task group: ``open_run``, then the block's tasks, then ``merge``, which
    runs the gates on the new tree of the target and moves the target in one step. ``close_run`` is
    the teardown: if the DAG run has not published, it parks the run, and the target has not moved.
    The merge decides whether the DAG run succeeds.

    ::

        with graveler_run("flights", gates=[no_empty_hours]) as run:
            ingest(run) >> transform(run)

    The merge waits for every task of the block. A failed task prevents it, even if a downstream
    task has a ``trigger_rule`` that ignores the failure; a skipped task does not.

    Args:
        repo: The repository; the connection's if not given.
        gates: Checks of the tree that the target would get: functions of a ``graveler.Candidate``.
            Gates that are tasks of the block (``@task.graveler_gate``) are added automatically.
        strategy: ``source-wins`` or ``dest-wins`` for paths in conflict.
        asset: One asset or alias, or several; publishing makes an event that names the commit. The event
            of an alias is about the asset of the target.
        pool: The pool of the merge; with one slot, runs publish one after the other.
        group_id: The name of the task group; the repository's if not given. It is part of the
            run's key, so that a DAG may have several runs in one repository.
        **terms: Any of ``into``, ``on_failure``, ``lease``, ``ttl`` and ``graveler_conn_id``, as for
            `GravelerOpenRunOperator`.

    Yields:
        The run, which is the argument of ``@task.graveler`` functions. It is the output of
        `GravelerOpenRunOperator`; the function receives a `TaskStep` instead. A call after the
        block is refused when Airflow parses the file.

    Raises:
        InvalidInputError: The DAG has ``fail_fast``, which turns its failures into successes.
        TypeError: There is no such argument.
    """
    if unknown := sorted(terms.keys() - OpeningTerms.__annotations__.keys()):
        raise TypeError(
            f"graveler_run() has no arguments {unknown}: give {sorted(OpeningTerms.__annotations__)}"
        )
    usual = repo or "graveler"
    with TaskGroup(group_id or usual) as group:
        opened = GravelerOpenRunOperator(
            task_id="open_run",
            repo=repo,
            name=str(group.group_id) if group.group_id != usual else "",
            **terms,
            **_RETRIES,
        )
        closing = GravelerCloseRunOperator(
            task_id="close_run", run=opened.output, **_RETRIES, **_URGENT
        )
        closing.as_teardown(setups=opened)
        assets = listed_assets(asset, "asset")
        _check_dag(opened, assets)
        with closing:
            yield opened.output
            # a setup or teardown without the run is not work, and a gate of an outer run judges after
            # this run has published
            work = [
                task
                for task in group.iter_tasks()
                if task is not closing
                and not _is_gate_of_outer(task, group)
                and (not (task.is_setup or task.is_teardown) or is_given(task, opened))
            ]
            ids = {task.task_id for task in work}
            for task in work:
                # Airflow lets no mapped task of a teardown's context wait for the setup
                if hasattr(task, "partial_kwargs") and not task.upstream_task_ids & ids:
                    task.set_upstream(opened)
            checks = [task for task in work if _opening(task) is opened]
            _order(checks, [task for task in work if task not in checks])
            merge = GravelerPublishRunOperator(
                task_id="merge",
                run=opened.output,
                gates=_merged(gates, checks),
                strategy=strategy,
                outlets=assets,
                trigger_rule=TriggerRule.ALL_SUCCESS,  # overrides the default_args
                **({"pool": pool} if pool else {}),
                **_RETRIES,
            )
            merge.work = [task.task_id for task in work]
            merge.set_upstream(watched(work))
            if work:
                merge.trigger_rule = TriggerRule.NONE_FAILED
        merge.set_downstream(closing)  # Airflow drops it when blocks are nested
        open_first(opened, group)
        loosen(opened, group.iter_tasks())  # leaving the block may have put the merge after it
        closing.watch(opened, merge, checks)
        opened.is_complete = True


def _opening(gate: Any) -> Any:
    """Return the task that opens the run of a gate; None for tasks that are not gates."""
    if not isinstance(gate, GravelerGateOperator):
        return None
    return getattr(gate.run, "operator", None)


def _is_gate_of_outer(task: Any, group: TaskGroup) -> bool:
    opened = _opening(task)
    return opened is not None and not group.has_task(opened)


def _order(checks: list[Any], others: list[Any]) -> None:
    """Let a gate without an explicit order judge after all other tasks."""
    ids = {task.task_id for task in others}
    for check in checks:
        opens = (isinstance(task, GravelerOpenRunOperator) for task in check.upstream_list)
        if all(opens) and not check.downstream_task_ids & ids:
            check.set_upstream(leaves_of(others))


def _merged(gates: Iterable[Gate | Check], checks: list[Any]) -> list[Gate]:
    named = list(as_gates(gates))
    for gate in (gate for check in checks for gate in check.gates):
        if gate not in named:
            named.append(gate)
    return named


def _check_dag(opened: GravelerOpenRunOperator, assets: list[Any]) -> None:
    """Refuse a DAG whose failures or past Airflow ignores, and warn of what may surprise."""
    dag = opened.dag
    if dag.fail_fast:
        raise InvalidInputError(
            f"DAG {dag.dag_id!r} has fail_fast: Airflow skips the other tasks when one has failed, "
            "and a DAG run whose last task was skipped is a success, with nothing published: leave "
            "it off; tasks downstream of a failed one do not run anyway"
        )
    if dag.dagrun_timeout is not None:
        _warn(
            f"DAG {dag.dag_id!r} has a dagrun_timeout: when it expires, Airflow skips "
            "teardowns, and the run stays open until its next attempt; give the tasks an "
            "execution_timeout instead"
        )
    if not isinstance(dag.timetable, CronPartitionTimetable):
        return
    if opened.depends_on_past:
        raise InvalidInputError(
            f"DAG {dag.dag_id!r} has partitions and depends_on_past, and Airflow ignores it for "
            "partitions: set max_active_runs=1, or use CronDataIntervalTimetable"
        )
    for asset in assets:
        # a watcher's events have no partition, and the events of an alias have other assets
        if not (isinstance(asset, AssetAlias) or asset.watchers or is_partitioned(asset)):
            _warn(
                f"DAG {dag.dag_id!r} has partitions, and so have the events of asset "
                f"{asset.name!r}: Airflow starts no DAG of schedule=[{asset.name}] by them. Make the "
                "asset by graveler_partitions(…) and schedule DAGs on "
                "PartitionedAssetTimetable(assets=…), or leave asset= out and schedule them on "
                "graveler_asset(…), which watches the branch"
            )


def _warn(text: str) -> None:
    warnings.warn(text, stacklevel=5)  # the with statement in the DAG's file
