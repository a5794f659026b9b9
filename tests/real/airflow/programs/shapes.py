# mypy: ignore-errors
"""Makes DAGs with runs in several shapes; prints errors and warnings."""

import json
import warnings
from datetime import timedelta

from airflow.sdk import DAG, task

from graveler_airflow import graveler_asset, graveler_partitions, graveler_run, hourly

warnings.filterwarnings("error", module="graveler")


def outcome(act):
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        try:
            act()
            refused = ""
        except Exception as error:
            refused = f"{type(error).__name__}: {error}"
    ours = [str(w.message) for w in warned if w.filename == __file__]
    return {"refused": refused, "warned": ours, "files": [w.filename for w in warned]}


def with_timeout():
    with DAG("slow", dagrun_timeout=timedelta(hours=1)), graveler_run("flights"):
        pass


def partitioned():
    made = {
        "plain": graveler_asset("plain", "flights", watch=False),
        "watched": graveler_asset("watched", "flights"),
        "hours": graveler_partitions("hours", "flights"),
    }
    for name, asset in made.items():
        with DAG(f"makes_{name}", schedule=hourly()), graveler_run("flights", asset=asset):
            pass
    with DAG("unpartitioned"), graveler_run("flights", asset=made["plain"]):
        pass


def deciding_teardown():
    with DAG("lying") as dag:
        with graveler_run("flights"):
            pass
        dag.get_task("flights.close_run").on_failure_fail_dagrun = True


def unknown_end():
    with DAG("odd"), graveler_run("flights", on_failure="keep"):
        pass


def past_of_partitions():
    with DAG("past", schedule=hourly(), default_args={"depends_on_past": True}):
        with graveler_run("flights"):
            pass


def no_dag():
    with graveler_run("flights"):
        pass


def two_runs():
    with DAG("two") as dag:
        with graveler_run("flights"):
            pass
        with graveler_run("weather"):
            pass
    tasks.extend(sorted(dag.task_dict))


def in_groups():
    with DAG("grouped") as dag, graveler_run("flights") as run:

        @task.graveler
        def one(step):
            pass

        @task
        def plain():
            pass

        one(run)
        plain()
    upstream.extend(sorted(dag.get_task("flights.merge").upstream_task_ids))


tasks, upstream = [], []
shapes = (
    *(with_timeout, partitioned, deciding_teardown, unknown_end, past_of_partitions, no_dag),
    *(two_runs, in_groups),
)
print(
    json.dumps({**{act.__name__: outcome(act) for act in shapes}, "tasks": tasks, "up": upstream})
)
