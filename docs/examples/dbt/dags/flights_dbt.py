# The dbt project of this folder, hour by hour: `dbt build` is one task, its tests are the gate.
from datetime import UTC, datetime
from pathlib import Path

from airflow.sdk import DAG, task

from graveler import checks
from graveler_airflow import graveler_run, hourly

PROJECT = Path(__file__).parents[1]
FIRST, END = datetime(2013, 1, 1, tzinfo=UTC), datetime(2013, 1, 2, tzinfo=UTC)

with DAG("flights_dbt", schedule=hourly(), start_date=FIRST, end_date=END):

    @task.graveler
    def load(step, landing):
        hour = f"{step.hour:%Y/%m/%d/%H-00}"
        step.put(f"input/{hour}/flights.csv", Path(landing, hour, "flights.csv"))

    @task.graveler_bash
    def models(step):
        hour = f"{step.hour:%Y/%m/%d/%H-00}"
        return f"""
            export DBT_PROJECT_DIR={PROJECT} DBT_PROFILES_DIR={PROJECT} DBT_TARGET_PATH=$PWD/target
            dbt build --vars 'hour: {hour}' || [ $? -eq 1 ] || exit 2
            graveler put target/run_results.json :dbt/{hour}/
        """

    with graveler_run("flights", gates=[checks.dbt_results("dbt/")]) as run:
        load(run, "{{ var.value.flights_landing }}") >> models(run)
