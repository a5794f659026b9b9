# mypy: ignore-errors
"""Makes DAGs with runs in several shapes; prints errors and warnings."""

import json
import warnings
from datetime import timedelta

from airflow.sdk import (
    DAG,
    Asset,
    AssetAlias,
    AssetOrTimeSchedule,
    CronTriggerTimetable,
    MultipleCronTriggerTimetable,
    task,
)

from graveler_airflow import graveler_asset, graveler_partitions, graveler_run, hourly
from graveler_airflow.dag.context import is_finer_than_hours

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


def aliases():
    mixed = {Asset("one", "s3://lake/one"), AssetAlias("two")}
    with DAG("aliases", schedule=hourly()), graveler_run("flights", asset=AssetAlias("one")):
        pass
    with DAG("set"), graveler_run("flights", asset=mixed):
        pass


def refused_of(**terms):
    try:
        with DAG("terms"), graveler_run("flights", **terms):
            pass
    except ValueError as error:
        return str(error)


def terms():
    one = Asset("one", "s3://lake/one")
    refusals.update(
        condition=refused_of(asset=one | Asset("two", "s3://lake/two")),
        ref=refused_of(asset=[one, Asset.ref(name="two")]),
        text=refused_of(asset="one"),
        strategy=refused_of(strategy="mine"),
        lease=refused_of(lease=30),
        ttl=refused_of(ttl=timedelta(days=-1)),
    )


def finer():
    def several(*crons):
        return MultipleCronTriggerTimetable(*crons, timezone="UTC")

    finer = ["*/15 * * * *", timedelta(minutes=30), several("0 * * * *", "30 * * * *")]
    finer += [several("0 5 * * *", "30 5 * * *"), several("0 5 * * *", "30 4-6 * * *")]
    finer += [AssetOrTimeSchedule(timetable=CronTriggerTimetable("*/15 * * * *", "UTC"), assets=[])]
    coarser = ["30 5 * * *", "@hourly", several("0 5 * * *", "30 17 * * *"), several("0 * * * *")]
    schedules.extend(
        is_finer_than_hours(DAG("finer", schedule=schedule).timetable)
        for schedule in finer + coarser
    )


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


tasks, upstream, schedules, refusals = [], [], [], {}
shapes = (
    *(with_timeout, partitioned, deciding_teardown, unknown_end, past_of_partitions, no_dag),
    *(two_runs, in_groups, aliases, terms, finer),
)
print(
    json.dumps(
        {
            **{act.__name__: outcome(act) for act in shapes},
            "tasks": tasks,
            "up": upstream,
            "schedules": schedules,
            "refusals": refusals,
        }
    )
)
