"""The hourly pipeline under chaos: one step, two parallel steps, one step, and a gate."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

from airflow.providers.standard.sensors.time_delta import TimeDeltaSensor
from airflow.sdk import CronPartitionTimetable, dag, task

from graveler.config import environment
from graveler.gates import gate
from graveler_airflow import TaskStep, graveler_run
from tests.real.chaos.faults import FaultInjector
from tests.real.chaos.hours import expected, run_step

FOLDER = Path(environment("CHAOS_FOLDER"))

hourly = CronPartitionTimetable(
    "0 * * * *", timezone="UTC", run_offset=-1, key_format="%Y-%m-%dT%H:%M"
)


def arm(context):
    """Prepare the kills at conditional writes before the task begins."""
    FaultInjector(FOLDER, context["partition_key"], context["ti"].task_id.split(".")[-1]).arm()


@gate("whole hour", reads="run")
def whole_hour(candidate):
    """The hour has exactly the expected files."""
    hour = datetime.fromisoformat(candidate.run.metadata["hour"])
    FaultInjector(FOLDER, f"{hour:%Y-%m-%dT%H:%M}", "gate").pause(None)
    there = {
        entry.path
        for root in ("input", "left", "right", "curated")
        for entry in candidate.entries(f"{root}/{hour:%Y/%m/%d/%H:%M}/")
    }
    return there == set(expected(hour)) or f"not the files of the hour: {sorted(there)}"


def pipeline(dag_id, *, patience=None, limit=timedelta(seconds=25), defers=False):
    """Make a DAG; `patience` is its dagrun_timeout, `limit` the execution_timeout of its tasks."""

    @dag(
        dag_id=dag_id,
        schedule=hourly,
        start_date=datetime(2013, 1, 1, tzinfo=UTC),
        catchup=False,
        max_active_runs=4,
    )
    def made():
        @task.graveler(retries=1, execution_timeout=limit)
        def work(step: TaskStep, name: str):
            striker = FaultInjector(FOLDER, f"{step.hour:%Y-%m-%dT%H:%M}", name)
            run_step(name, step, step.hour, striker.pause)

        with graveler_run("hours", gates=[whole_hour]) as run:
            ingest, left, right, curate = (
                work.override(task_id=name)(run, name)
                for name in ("ingest", "left", "right", "curate")
            )
            ingest >> [left, right] >> curate
            if defers:
                (
                    TimeDeltaSensor(task_id="wait", delta=timedelta(seconds=1), deferrable=True)
                    >> ingest
                )

    whole = made()
    for operator in whole.tasks:
        operator._pre_execute_hook = arm  # type: ignore[union-attr] # none is mapped
    # set after the block, so that the run reads it without a warning
    whole.dagrun_timeout = patience
    return whole


hours = pipeline("hours")
timed = pipeline("timed", patience=timedelta(seconds=60), limit=timedelta(seconds=300), defers=True)
