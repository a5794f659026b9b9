"""Tasks whose logs, states and values are tested."""

import sys
from typing import Any

from airflow.sdk import dag, get_current_context, task

from graveler_airflow import TaskStep, graveler_run


def alert(context: Any):
    sys.stdout.write(f"alert of {context['ti'].task_id}: {context.get('exception')}\n")


def has_rows(candidate: Any):
    return f"{candidate.stat('hour/rows.csv').size} rows in the hour"


TERMS: Any = {"on_failure_callback": alert, "retries": 1, "retry_delay": 0}


@dag(schedule=None, default_args=TERMS)
def behaviour():
    @task
    def rows():
        context = get_current_context()
        if context["ti"].try_number == 1:
            context["ti"].xcom_push("half", ["of", "the", "first", "try"])
            raise RuntimeError("after a value was pushed")
        context["ti"].xcom_push("a/b c", "ü" * 30)
        return [1, 2]

    @task
    def double(number: int):
        return {"doubled": [number * 2]}

    @task
    def check(numbers: Any, doubled: Any, ti: Any = None):
        pulled = ti.xcom_pull(task_ids="rows", key="a/b c")
        sys.stdout.write(f"values {numbers} {list(doubled)} {pulled}\n")
        return "s"  # below the threshold, so stored in Airflow's database

    @task.graveler
    def write(step: TaskStep):
        step.put("hour/rows.csv", b"")

    with graveler_run("behaviour", gates=[has_rows], group_id="refused") as run:
        write(run)

    @task.graveler
    def part_1(step: TaskStep):
        raise RuntimeError("half of the hour")

    with graveler_run("behaviour", group_id="failed") as failing:
        part_1(failing)
    with graveler_run("behaviour", graveler_conn_id="unmounted", group_id="away") as away:
        write(away)
    away.operator.retries = 0

    numbers = rows()
    check(numbers, double.expand(number=numbers))


behaviour()
