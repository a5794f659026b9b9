# The weather of an hour, in plain Python: one task for each airport, and a gate.
from csv import DictReader
from datetime import UTC, datetime
from pathlib import Path

from airflow.sdk import DAG, task

from graveler_airflow import graveler_run, hourly

FIRST, END = datetime(2013, 1, 1, tzinfo=UTC), datetime(2014, 1, 1, 4, tzinfo=UTC)
FULL = task.graveler_gate("airports", reads="run")
with DAG("weather_airflow", schedule=hourly(), start_date=FIRST, end_date=END):

    @task.graveler(retries=2)
    def fetch(step, landing):
        file = Path(landing, f"{step.hour:%Y/%m/%d/%H-%M}", "weather.csv")
        step.put(step.hour_prefix("weather/raw") + file.name, file)
        return list(DictReader(file.read_text().splitlines()))

    @task.graveler
    def airport(step, row):
        step.put(step.hour_prefix("weather/temp") + row["origin"], row["temp"].encode())

    full = FULL(lambda new: len([*new.entries(new.run.hour_prefix("weather/temp"))]) == 3)
    with graveler_run("weather") as run:
        airport.partial(step=run).expand(row=fetch(run, "{{ var.value.flights_landing }}"))
        full(run)
