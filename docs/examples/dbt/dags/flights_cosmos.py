# The dbt project of this folder, hour by hour: Cosmos makes a task of each model.
from datetime import UTC, datetime
from pathlib import Path

from airflow.sdk import DAG, task
from cosmos import DbtTaskGroup, ExecutionConfig, ProfileConfig, ProjectConfig, RenderConfig
from cosmos.constants import InvocationMode, LoadMode, TestBehavior

from graveler_airflow import graveler_run, hourly, step_env

PROJECT = Path(__file__).parents[1]
FIRST, END = datetime(2013, 1, 1, tzinfo=UTC), datetime(2013, 1, 2, tzinfo=UTC)

with DAG("flights_cosmos", schedule=hourly(), start_date=FIRST, end_date=END):

    @task.graveler
    def load(step, landing):
        hour = f"{step.hour:%Y/%m/%d/%H-00}"
        step.put(f"input/{hour}/flights.csv", Path(landing, hour, "flights.csv"))

    with graveler_run("flights") as run:
        group = DbtTaskGroup(
            group_id="dbt",
            project_config=ProjectConfig(PROJECT, manifest_path=PROJECT / "target/manifest.json"),
            profile_config=ProfileConfig(
                "flights", "step", profiles_yml_filepath=PROJECT / "profiles.yml"
            ),
            render_config=RenderConfig(
                load_method=LoadMode.DBT_MANIFEST, test_behavior=TestBehavior.AFTER_ALL
            ),
            execution_config=ExecutionConfig(
                dbt_executable_path=str(PROJECT / "graveler-dbt"),
                invocation_mode=InvocationMode.SUBPROCESS,
            ),
            operator_args={
                "env": step_env(run),
                "append_env": True,
                "vars": {"hour": "{{ logical_date.strftime('%Y/%m/%d/%H-00') }}"},
            },
        )
        load(run, "{{ var.value.flights_landing }}") >> group
