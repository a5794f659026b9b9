"""The triggerer reports commits of a lake, and wakes tasks that wait for them."""

from pathlib import Path
from typing import Any

from airflow.providers.standard.operators.empty import EmptyOperator
from airflow.sdk import DAG, Variable, task

from graveler_airflow import GravelerCommitSensor, GravelerObjectSensor, graveler_asset

commits = graveler_asset("watched commits", "watched", poll_interval=1)

with DAG("listening", schedule=[commits]):
    EmptyOperator(task_id="listen")  # without a process

with DAG("waiting", schedule=None):
    wait = GravelerCommitSensor(
        task_id="wait", repo="watched", prefix="waited/", deferrable=True, poke_interval=1
    )

    @task
    def read(results):
        paths = [commit["message"] for commit in results["commits"]]
        Path(Variable.get("marks"), "waited for").write_text("\n".join(paths))

    read(wait.output)

with DAG("starting", schedule=None):
    begun: Any = {
        "repo": "watched",
        "deferrable": True,
        "start_from_trigger": True,
        "poke_interval": 1,
    }
    GravelerCommitSensor(task_id="commit", prefix="{{ dag.dag_id }}/", **begun)
    GravelerObjectSensor(task_id="file", prefix="{{ dag_run.dag_id }}/1", **begun)

    @task
    def folder():
        return "starting/"

    named = GravelerObjectSensor(
        task_id="named", prefix="{{ ti.xcom_pull(task_ids='folder') }}", **begun
    )

    @task
    def read_named(found):
        Path(Variable.get("marks"), "named").write_text("\n".join(found["paths"]))

    folder() >> named
    read_named(named.output)
