"""The flights of an hour, by Airflow: the demo's pipeline, its steps as tasks.

The connection `graveler_default` says where the lake is; the variable `flights_landing` names
the folder where the hours arrive.
"""

from datetime import UTC, datetime, timedelta
from pathlib import Path

from airflow.sdk import CronPartitionTimetable, dag, task

from graveler.demo import GATES, pipeline
from graveler_airflow import TaskStep, graveler_run

LANDING = "{{ var.value.get('flights_landing', 'landing') }}"

hourly = CronPartitionTimetable(
    "0 * * * *",
    timezone="UTC",
    run_offset=-1,  # the run of 16:00 is about the hour that began at 15:00
    key_format="%Y-%m-%dT%H:%M",
)


@dag(
    schedule=hourly,
    start_date=datetime(2013, 1, 1, tzinfo=UTC),
    catchup=False,
    max_active_runs=4,
    # no dagrun_timeout: it would skip the teardown that sets a failed run aside
    default_args={"retries": 2, "execution_timeout": timedelta(minutes=30)},
)
def flights_airflow():
    @task.graveler
    def ingest(step: TaskStep, landing: str):
        pipeline.ingest(step, step.hour, Path(landing))

    @task.graveler
    def transform(step: TaskStep):
        pipeline.transform(step, step.hour, step.spark)

    with graveler_run("flights", gates=GATES) as run:
        ingest(run, LANDING) >> transform(run)


flights_airflow()
