# The flights of an hour in two Iceberg tables, which iceberg_tables.py makes. Four hours run at once.
from datetime import UTC, datetime
from pathlib import Path

from airflow.sdk import DAG, task

from graveler import checks
from graveler_airflow import graveler_run, hourly

FIRST, END = datetime(2013, 1, 1, tzinfo=UTC), datetime(2014, 1, 1, 4, tzinfo=UTC)
ONCE = checks.unique("time_hour", "carrier", "flight", table="db.flights", scope="changes")
with DAG("iceberg_airflow", schedule=hourly(), start_date=FIRST, end_date=END, max_active_runs=4):

    @task.graveler(retries=2)
    def load(step, landing):
        file = Path(landing, f"{step.hour:%Y/%m/%d/%H-%M}", "flights.csv")
        raw = step.put(step.hour_prefix("raw") + file.name, file)
        flights = step.table("db.flights")
        rows = step.read(raw.path, "pyarrow").select(flights.schema.names).cast(flights.schema)
        flights.append(rows)
        delays = rows.group_by(["time_hour", "origin"]).aggregate([("dep_delay", "mean")])
        step.table("db.delays").append(delays)

    with graveler_run("flights", gates=[ONCE]) as run:
        load(run, "{{ var.value.get('flights_landing', 'landing') }}")
