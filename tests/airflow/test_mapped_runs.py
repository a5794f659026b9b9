"""A run inside a mapped task group: each instance of the group has one of its own."""

from contextlib import closing
from sqlite3 import connect

import pytest

import graveler
from tests.airflow.home import AIRFLOW

DAG_FILE = """
from datetime import UTC, datetime
from airflow.sdk import DAG, task, task_group
from graveler_airflow import graveler_run

with DAG("mapped_runs", schedule=None, start_date=datetime(2013, 1, 1, tzinfo=UTC)):
    @task.graveler
    def work(step, airport):
        step.put(f"airports/{airport}", b"x")

    @task_group
    def each(airport):
        with graveler_run("flights") as run:
            work(run, airport)

    each.expand(airport=["EWR", "JFK"])
"""


@pytest.fixture(scope="module")
def elsewhere(tmp_path_factory, home):
    """Another home: no scheduler may run what is tried here as well."""
    other = type(home)(tmp_path_factory.mktemp("mapped"), home.port)
    names = (made.folder / "airflow.db" for made in (home, other))
    with closing(connect(next(names))) as migrated, closing(connect(next(names))) as copy:
        migrated.backup(copy)
    other.dags.mkdir()
    (other.dags / "mapped_runs.py").write_text(DAG_FILE, "utf-8")
    with graveler.open(other.lake) as lake:
        lake.create_repository("flights").protect("main")
    return other


def test_each_instance_of_a_mapped_task_group_publishes_a_run_of_its_own(elsewhere):
    elsewhere.run(AIRFLOW, "dags", "test", "mapped_runs", "2013-01-01T05:00:00Z")
    with graveler.open(elsewhere.lake) as lake:
        repo = lake.repository("flights")
        runs = sorted(repo.runs.list(), key=lambda record: record.key)
        paths = [entry.path for entry in repo.ref("main").entries()]
    assert [run.key.rpartition(" ")[2] for run in runs] == ["each.flights[0]", "each.flights[1]"]
    assert [(run.state, run.attempt) for run in runs] == [("PUBLISHED", 1)] * 2
    assert paths == ["airports/EWR", "airports/JFK"]
