# The flights of an hour, by Spark. The variable `flights_landing` is the folder of arriving hours.
from datetime import UTC, datetime, timedelta
from pathlib import Path

from airflow.sdk import DAG, task

from graveler.demo import GATES, pipeline
from graveler_airflow import TaskStep, graveler_run, hourly

FIRST, END = datetime(2013, 1, 1, tzinfo=UTC), datetime(2014, 1, 1, 4, tzinfo=UTC)

with DAG("flights_airflow", schedule=hourly(), start_date=FIRST, end_date=END, max_active_runs=4):

    @task.graveler(retries=2, execution_timeout=timedelta(minutes=30))
    def ingest(step: TaskStep, landing: str):
        pipeline.ingest(step, step.hour, Path(landing))

    @task.graveler(retries=2)
    def transform(step: TaskStep):
        pipeline.transform(step, step.hour)

    with graveler_run("flights", gates=GATES) as run:
        ingest(run, "{{ var.value.get('flights_landing', 'landing') }}") >> transform(run)
