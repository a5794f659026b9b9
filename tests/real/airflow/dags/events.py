"""What the triggerer does for a lake: it tells of commits, and wakes tasks that wait for them."""

from pathlib import Path

from airflow.sdk import DAG, Variable, task

from graveler_airflow import GravelerCommitSensor, graveler_asset

commits = graveler_asset("watched commits", "watched", poll_interval=1)

with DAG("listening", schedule=[commits]):

    @task
    def listen():
        pass

    listen()

with DAG("waiting", schedule=None):
    wait = GravelerCommitSensor(
        task_id="wait", repo="watched", prefix="waited/", deferrable=True, poke_interval=1
    )

    @task
    def read(results):
        paths = [commit["message"] for commit in results["commits"]]
        Path(Variable.get("marks"), "waited for").write_text("\n".join(paths))

    read(wait.output)
