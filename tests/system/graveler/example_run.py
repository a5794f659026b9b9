"""A run that works, is judged and is published, and a branch that is merged and tagged.

The connection ``graveler_default`` names a lake with the repository ``events``. Airflow starts the
file as a DAG, and ``pytest tests/system/graveler/example_run.py`` runs it as a test.
"""

from datetime import UTC, datetime

from airflow.sdk import DAG, task

from graveler_airflow import (
    GravelerCommitOperator,
    GravelerCreateBranchOperator,
    GravelerDeleteBranchOperator,
    GravelerHook,
    GravelerMergeOperator,
    GravelerObjectSensor,
    graveler_run,
)

DAG_ID = "example_run"


@task.graveler_gate(prefix="example/")
def has_rows(candidate):
    return all(entry.size for entry in candidate.entries("example/"))


with DAG(
    DAG_ID, schedule=None, start_date=datetime(2013, 1, 1, tzinfo=UTC), tags=["graveler"]
) as dag:

    @task.graveler
    def load(step):
        step.put("example/rows.csv", b"1\n")

    with graveler_run("events") as run:
        load(run)
        has_rows(run)
    published = dag.get_task("events.merge")

    found = GravelerObjectSensor(task_id="found", repo="events", prefix="example/", timeout=60)
    branch = GravelerCreateBranchOperator(
        task_id="create_branch", repo="events", branch="example", exist_ok=True
    )

    @task
    def remove():
        with GravelerHook().repository("events") as repo:
            repo.branch("example").delete("example/rows.csv")

    commit = GravelerCommitOperator(
        task_id="commit", repo="events", branch="example", message="remove the example"
    )
    merge = GravelerMergeOperator(task_id="merge", repo="events", source="example", into="main")
    tear_down = GravelerDeleteBranchOperator(
        task_id="tear_down", repo="events", branch="example"
    ).as_teardown(setups=branch)

    published >> found >> branch >> remove() >> commit >> merge >> tear_down


def test_run():
    assert dag.test().state == "success"
