"""Runs whose tasks fail, retry, skip and are cleared, without Spark."""

import json
import os
import signal
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import uuid4

from airflow.providers.standard.operators.trigger_dagrun import TriggerDagRunOperator
from airflow.sdk import Asset, CronDataIntervalTimetable, dag, task, task_group
from airflow.sdk.exceptions import AirflowSkipException

from graveler.base.clock import SystemClock
from graveler_airflow import TaskStep, graveler_run

MARKS = "{{ var.value.marks }}"
START = datetime(2013, 1, 1, tzinfo=UTC)


@dag(schedule=None, start_date=START)
def resumed():
    @task
    def start():
        pass

    @task.graveler
    def first(step: TaskStep, marks: str):
        step.put(f"resumed/first/{uuid4()}", b"appended")
        with Path(marks, "first").open("a") as log:
            log.write("ran\n")

    @task.graveler(retries=1)
    def second(step: TaskStep, marks: str):
        step.put(f"resumed/second/{uuid4()}", b"appended")
        if not Path(marks, "mended").exists():
            raise RuntimeError("half of it written")

    @task.graveler
    def stop(step: TaskStep):
        step.put("resumed/stop", b"s")

    with graveler_run("scenarios") as run:
        begun = start().as_setup()
        end = stop(run).as_teardown(setups=begun)  # type: ignore[arg-type]
        begun >> first(run, MARKS) >> second(run, MARKS) >> end


@dag(schedule=None, start_date=START)
def killed():
    @task.graveler
    def before(step: TaskStep):
        step.put("killed/before", b"whole")

    @task.graveler
    def dies(step: TaskStep):
        step.put("killed/half", b"half")
        os.kill(os.getpid(), signal.SIGKILL)

    @task(trigger_rule="all_done")
    def clean_up():
        pass

    with graveler_run("scenarios") as run:
        before(run) >> dies(run) >> clean_up()


@dag(schedule=None, start_date=START)
def changed_its_mind():
    @task
    def numbers(marks: str):
        return [1, 2] if not Path(marks, "decided").exists() else [1]

    @task.graveler
    def part(step: TaskStep, number: int):
        step.put(f"changed/part-{number}", b"m")

    @task.graveler
    def skips(step: TaskStep, marks: str):
        step.put("changed/skipped", b"of the first attempt")
        if Path(marks, "decided").exists():
            raise AirflowSkipException

    @task.graveler(trigger_rule="none_failed")
    def last(step: TaskStep, marks: str):
        if not Path(marks, "decided").exists():
            raise RuntimeError("not as it should be")

    with graveler_run("scenarios") as run:
        [part.partial(step=run).expand(number=numbers(MARKS)), skips(run, MARKS)] >> last(
            run, MARKS
        )


@dag(schedule=None, start_date=START)
def told_to_stop():
    @task.graveler
    def stops(step: TaskStep, marks: str):
        step.put("stopped/half", b"half")
        os.kill(os.getpid(), signal.SIGTERM)
        Path(marks, "went on").touch()

    @task.graveler
    def goes_on(step: TaskStep):
        with suppress(Exception):
            os.kill(os.getpid(), signal.SIGTERM)
        step.put("stopped/other half", b"half")

    with graveler_run("scenarios", on_failure="drop") as run:
        stops(run, MARKS)
        goes_on(run)


@dag(schedule=None, start_date=START)
def several():
    @task.graveler
    def part(step: TaskStep, name: str):
        step.put(f"several/{name}", name.encode())
        return {"name": name, "size": len(name)}

    @task.graveler
    def copied(ours: TaskStep, theirs: TaskStep, row: Any):
        ours.put("several/told", json.dumps(row).encode())
        theirs.put("other/told", json.dumps(row).encode())

    @task.graveler
    def nothing_to_do(step: TaskStep):
        step.put("several/never", b"never")
        raise AirflowSkipException

    other = graveler_run("scenarios", into="other", group_id="other", on_failure="drop")
    with graveler_run("scenarios", asset=Asset("scenarios", "s3://lake/main")) as run, other as two:
        copied(run, two, part.override(task_id="again", retries=1)(run, "p"))
        nothing_to_do(run)


@dag(schedule=None, start_date=START)
def mapped_runs():
    @task.graveler
    def work(step: TaskStep, airport: str):
        step.put(f"airports/{airport}", b"x")

    @task_group
    def each(airport: str):
        with graveler_run("scenarios") as run:
            work(run, airport)

    each.expand(airport=["EWR", "JFK"])


@dag(schedule=None, start_date=START)
def region():
    @task
    def given(dag_run: Any = None):
        return dag_run.conf["run"]

    @task.graveler
    def load(step: TaskStep, name: str):
        step.put(f"regions/{name}", name.encode())

    load(given(), "{{ dag_run.conf['name'] }}")  # type: ignore[arg-type]


@dag(schedule=None, start_date=START)
def handed_over():
    with graveler_run("scenarios") as run:
        for name in ("north", "south"):
            TriggerDagRunOperator(
                task_id=name,
                trigger_dag_id="region",
                trigger_run_id=f"{name}-{run['attempt']}",
                reset_dag_run=True,
                conf={"run": run, "name": name, "graveler_name": name},
                wait_for_completion=True,
                poke_interval=1,
            )


@dag(
    schedule=CronDataIntervalTimetable("0 * * * *", timezone="UTC"),
    start_date=START,
    end_date=START + timedelta(days=1),
    catchup=False,
    max_active_runs=3,
    default_args={"depends_on_past": True},
)
def chained():
    @task.graveler
    def count(step: TaskStep):
        before = step.get("chained") if step.exists("chained") else b""
        step.put("chained", before + b"1")

    @task
    def slow():
        SystemClock().sleep(2)

    with graveler_run("scenarios") as run:
        count(run) >> slow()


resumed()
killed()
changed_its_mind()
handed_over()
told_to_stop()
several()
mapped_runs()
region()
chained()
