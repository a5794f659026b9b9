# The flights of an hour in two Iceberg tables, which iceberg_tables.py makes. Four hours run at once.
from datetime import UTC, datetime
from pathlib import Path

from airflow.sdk import DAG, task

from graveler import checks, iceberg
from graveler_airflow import graveler_run, hourly

FIRST, END = datetime(2013, 1, 1, tzinfo=UTC), datetime(2014, 1, 1, 4, tzinfo=UTC)
ONCE = checks.unique("raw/", "time_hour", "carrier", "flight", scope="changes")
with DAG("iceberg_airflow", schedule=hourly(), start_date=FIRST, end_date=END, max_active_runs=4):

    @task.graveler(retries=2)
    def load(step, landing):
        file = Path(landing, f"{step.hour:%Y/%m/%d/%H-%M}", "flights.csv")
        raw = step.put(step.hour_prefix("raw") + file.name, file)
        tables = iceberg.GravelerCatalog.of(step)
        columns = (flights := tables.load_table("db.flights")).schema().as_arrow()
        flights.append(rows := step.read(raw.path, "pyarrow").select(columns.names).cast(columns))
        delays = rows.group_by(["time_hour", "origin"]).aggregate([("dep_delay", "mean")])
        tables.load_table("db.delays").append(delays)

    with graveler_run("flights", gates=[ONCE]) as run:
        load(run, "{{ var.value.get('flights_landing', 'landing') }}")
