"""Runs whose tasks fail, retry, skip and are cleared, without Spark."""

import json
import os
import signal
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from time import monotonic
from typing import Any
from uuid import uuid4

from airflow.providers.standard.operators.trigger_dagrun import TriggerDagRunOperator
from airflow.sdk import DAG, Asset, CronDataIntervalTimetable, dag, task, task_group
from airflow.sdk.exceptions import AirflowSkipException

from graveler.base.clock import SystemClock
from graveler_airflow import TaskStep, graveler_run

MARKS = "{{ var.value.marks }}"
START = datetime(2013, 1, 1, tzinfo=UTC)


def wait_for(mark: Path) -> None:
    deadline = monotonic() + 200
    while not mark.exists():
        assert monotonic() < deadline, f"{mark} was not made"
        SystemClock().sleep(0.1)


@dag(schedule=None, start_date=START)
def side_by_side():
    @task.graveler
    def left(step: TaskStep, marks: str):
        step.put("side/left-1", b"l")
        Path(marks, "left begun").touch()
        wait_for(Path(marks, "right begun"))
        step.put("side/left-2", b"l")

    @task.graveler
    def right(step: TaskStep, marks: str):
        step.put("side/right-1", b"r")
        Path(marks, "right begun").touch()
        wait_for(Path(marks, "seen"))
        step.put("side/right-2", b"r")

    @task.graveler(priority_weight=100)
    def look(step: TaskStep, marks: str):
        Path(marks, "seen").write_text("\n".join(entry.path for entry in step.entries("side/")))

    with graveler_run("scenarios") as run:
        left(run, MARKS) >> look(run, MARKS)
        right(run, MARKS)


@dag(schedule=None, start_date=START)
def resumed():
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

    @task.graveler_gate(prefix="resumed/")
    def both_are_there(candidate):
        return {entry.path.split("/")[1] for entry in candidate.entries("resumed/")} == {
            "first",
            "second",
        }

    # in Airflow's stub, every @task.x makes a task
    with graveler_run("scenarios", gates=[both_are_there]) as run:  # type: ignore[list-item]
        first(run, MARKS) >> second(run, MARKS)


@dag(schedule=None, start_date=START)
def killed():
    @task.graveler
    def before(step: TaskStep):
        step.put("killed/before", b"whole")

    @task.graveler
    def dies(step: TaskStep):
        step.put("killed/half", b"half")
        os.kill(os.getpid(), signal.SIGKILL)

    with graveler_run("scenarios") as run:
        before(run) >> dies(run)


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
def hidden():
    @task.graveler
    def fails(step: TaskStep):
        raise RuntimeError("half of it written")

    @task.graveler
    def works(step: TaskStep):
        step.put("hidden/half", b"half")

    @task(trigger_rule="all_done")
    def clean_up():
        pass

    with graveler_run("scenarios") as run:
        [fails(run), works(run)] >> clean_up()


@dag(schedule=None, start_date=START)
def gated():
    @task.graveler
    def writes(step: TaskStep):
        step.put("gated/empty", b"")

    @task.graveler_gate(prefix="gated/", severity="warn")
    def is_small(candidate):
        return "it might be larger"

    @task.graveler_gate(prefix="gated/", retries=3)
    def is_not_empty(candidate):
        return all(entry.size for entry in candidate.entries("gated/"))

    with graveler_run("scenarios") as run:
        writes(run)
        is_small(run)
        is_not_empty(run)


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
def mapped():
    @task.graveler
    def part(step: TaskStep, number: int):
        step.put(f"{step.hour_prefix('mapped')}part-{number}", b"m")

    with graveler_run("scenarios") as run:
        part.partial(step=run).expand(number=[1, 2, 3])


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
def dropped():
    @task.graveler
    def first(step: TaskStep):
        step.put("dropped/first", b"f")

    @task.graveler
    def second(step: TaskStep, marks: str):
        step.put("dropped/second", b"s")
        if not Path(marks, "second mended").exists():
            raise RuntimeError("half of it written")

    with graveler_run("scenarios", on_failure="drop") as run:
        first(run) >> second(run, MARKS)


@dag(schedule=None, start_date=START)
def changed_its_mind():
    @task.branch
    def choose(marks: str):
        return "scenarios.left" if not Path(marks, "decided").exists() else "scenarios.right"

    @task
    def numbers(marks: str):
        return [1, 2, 3] if not Path(marks, "decided").exists() else [1, 2]

    @task.graveler
    def write(step: TaskStep, name: str):
        step.put(f"changed/{name}", name.encode())
        step.put("changed/same", b"of whichever")

    @task.graveler
    def part(step: TaskStep, number: int):
        step.put(f"changed/part-{number}", b"m")

    @task.graveler(trigger_rule="none_failed_min_one_success")
    def last(step: TaskStep, marks: str):
        if not Path(marks, "decided").exists():
            raise RuntimeError("not as it should be")

    with graveler_run("scenarios") as run:
        either = [write.override(task_id=name)(run, name) for name in ("left", "right")]
        end = last(run, MARKS)
        choose(MARKS) >> either >> end
        part.partial(step=run).expand(number=numbers(MARKS)) >> end


@dag(schedule=None, start_date=START)
def region():
    @task
    def given(dag_run: Any = None):
        return dag_run.conf["run"]

    @task.graveler
    def load(step: TaskStep, name: str):
        step.put(f"regions/{name}", name.encode())

    load(given(), "{{ dag_run.conf['name'] }}")  # type: ignore[arg-type]


def start_regions(dag_id: str, *, named: bool):
    with DAG(dag_id, schedule=None, start_date=START), graveler_run("scenarios") as run:
        for name in ("north", "south"):
            TriggerDagRunOperator(
                task_id=name,
                trigger_dag_id="region",
                trigger_run_id=f"{name}-{run['attempt']}",
                reset_dag_run=True,
                conf={
                    "run": run,
                    "name": f"{dag_id}/{name}",
                    **({"graveler_name": name} if named else {}),
                },
                wait_for_completion=True,
                poke_interval=1,
            )


@dag(schedule=None, start_date=START)
def torn_down():
    @task
    def start():
        pass

    @task.graveler
    def works(step: TaskStep, marks: str):
        step.put("torn/work", b"w")
        if not Path(marks, "torn mended").exists():
            raise RuntimeError("half of it written")

    @task.graveler
    def stop(step: TaskStep):
        step.put("torn/stop", b"s")

    with graveler_run("scenarios") as run:
        first = start().as_setup()
        first >> works(run, MARKS) >> stop(run).as_teardown(setups=first)  # type: ignore[arg-type]


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


side_by_side()
resumed()
killed()
told_to_stop()
hidden()
gated()
several()
mapped()
mapped_runs()
dropped()
changed_its_mind()
region()
chained()
start_regions("handed_over", named=True)
start_regions("handed_over_twice", named=False)
torn_down()
