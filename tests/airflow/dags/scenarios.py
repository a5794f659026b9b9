"""What can happen to the tasks of a run, without Spark."""

import os
import signal
from datetime import UTC, datetime
from pathlib import Path
from time import monotonic
from uuid import uuid4

from airflow.sdk import dag, task

from graveler.clock import SystemClock
from graveler_airflow import TaskStep, graveler_run

MARKS = "{{ var.value.marks }}"
START = datetime(2013, 1, 1, tzinfo=UTC)


def wait_for(mark: Path) -> None:
    deadline = monotonic() + 200
    while not mark.exists():
        assert monotonic() < deadline, f"nobody made {mark}"
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

    # Airflow's stub says that every @task.x makes a task
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
    def goes_on(step: TaskStep):
        os.kill(os.getpid(), signal.SIGTERM)
        step.put("stopped/half", b"half")

    with graveler_run("scenarios", on_failure="drop") as run:
        goes_on(run)


@dag(schedule=None, start_date=START)
def mapped():
    @task.graveler
    def part(step: TaskStep, number: int):
        step.put(f"{step.hour_prefix('mapped')}part-{number}", b"m")

    with graveler_run("scenarios") as run:
        part.partial(step=run).expand(number=[1, 2, 3])


side_by_side()
resumed()
killed()
told_to_stop()
mapped()
