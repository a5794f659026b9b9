"""``graveler_run``: the tasks of a DAG between opening a run and publishing it."""

import warnings
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any, Final

from airflow.sdk import TaskGroup

from graveler.gates.gate import Check, Gate
from graveler_airflow.hook import GravelerHook
from graveler_airflow.operators import (
    GravelerCloseRunOperator,
    GravelerMergeOperator,
    GravelerOpenRunOperator,
)

__all__ = ["graveler_run"]

# what a second try cannot mend fails at once: these are for a busy or absent store
_RETRIES: Final[dict[str, Any]] = {"retries": 3, "retry_delay": timedelta(seconds=10)}


@contextmanager
def graveler_run(  # noqa: PLR0913 - all but the repository have a default
    repo: str,
    *,
    into: str = "main",
    gates: Iterable[Gate | Check] = (),
    on_failure: str = "park",
    strategy: str | None = None,
    group_id: str | None = None,
    graveler_conn_id: str = GravelerHook.default_conn_name,
) -> Iterator[Any]:
    """Put the tasks of a ``with`` block into a graveler run of their own.

    The block becomes a task group: ``open_run``, then the block's tasks, then ``merge``, which
    asks the gates about what `into` would become and moves it in one step. ``close_run`` is
    the teardown: where the DAG run did not get as far as publishing, it sets the run aside, and
    `into` has not moved. The merge decides whether the DAG run succeeded.

    ::

        with graveler_run("flights", gates=[no_empty_hours]) as run:
            ingest(run) >> transform(run)

    Args:
        repo: The repository.
        into: The branch to publish to.
        gates: Checks on what it would become; functions of a ``graveler.Candidate``.
        on_failure: ``park`` keeps what was committed for the next attempt of the same DAG run
            and for a look, ``drop`` removes it.
        strategy: ``source-wins`` or ``dest-wins`` where paths conflict.
        group_id: Name of the task group; the repository's where not given.
        graveler_conn_id: The connection that says where the lake is.

    Yields:
        The run, to call ``@task.graveler`` functions with: what `GravelerOpenRunOperator` will
        have returned, and what the function will find a `TaskStep` in the place of.
    """
    with TaskGroup(group_id or repo) as group:
        opened = GravelerOpenRunOperator(
            task_id="open_run",
            repo=repo,
            into=into,
            graveler_conn_id=graveler_conn_id,
            **_RETRIES,
        )
        closing = GravelerCloseRunOperator(
            task_id="close_run", run=opened.output, on_failure=on_failure, **_RETRIES
        )
        closing.as_teardown(setups=opened)
        _check(opened)
        with closing:
            yield opened.output
            work = [leaf for leaf in group.get_leaves() if leaf not in (opened, closing)]
            merge = GravelerMergeOperator(
                task_id="merge", run=opened.output, gates=gates, strategy=strategy, **_RETRIES
            )
            merge.set_upstream(work)


def _check(opened: GravelerOpenRunOperator) -> None:
    dag = opened.dag
    if dag.dagrun_timeout is not None:
        warnings.warn(
            f"DAG {dag.dag_id!r} has a dagrun_timeout: when it strikes, Airflow skips "
            "teardowns, and the run stays open until its next attempt; give the tasks an "
            "execution_timeout instead",
            stacklevel=4,  # the with statement in the DAG's file
        )
