"""Airflow tasks as jobs on the cluster, in steps of a run."""

import shutil
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

import graveler
from graveler.frames.spark.java import find_java
from graveler.runs.state import RunState
from tests.harness.servers.spark import connect_server, write_settings
from tests.harness.wires import free_port
from tests.long.cluster.waiting import mark_in
from tests.real.airflow.home import AIRFLOW, Home

HERE = Path(__file__).parent


@dataclass(frozen=True)
class Submitting(Home):
    """A home whose tasks find spark-submit, a master and a server of Spark Connect."""

    master: str
    connect: str

    @property
    def settings(self):
        return self.folder / "spark.conf"

    @property
    def env(self):
        return {
            **super().env,
            "PATH": f"{Path(sys.executable).parent}:{super().env['PATH']}",
            "AIRFLOW__CORE__DAGBAG_IMPORT_TIMEOUT": "300",
            "JAVA_HOME": str(find_java()),
            "PYSPARK_PYTHON": sys.executable,
            "SPARK_MASTER": self.master,
            "SPARK_CONNECT": self.connect,
            "SPARK_SETTINGS": str(self.settings),
            "SPARK_JOB": str(HERE / "job.py"),
        }


@pytest.fixture(scope="module")
def home(cluster, tmp_path_factory):
    folder = tmp_path_factory.mktemp("airflow")
    settings = write_settings(folder / "spark.conf", **{"spark.cores.max": "1"})
    with connect_server(cluster, settings) as url:
        home = Submitting(folder, free_port(), cluster.url, url)
        shutil.copytree(HERE / "dags", home.dags)
        home.marks.mkdir()
        (home.marks / "left waits").touch()
        (home.marks / "failed fails").touch()
        home.run(AIRFLOW, "db", "migrate")
        yield home


@pytest.fixture(scope="module")
def repo(home):
    with graveler.open(home.lake, create=True) as lake:
        made = lake.create_repository("flights")
        made.protection.add("main")
        yield made


@pytest.fixture(scope="module")
def airflow(home, repo):
    with home.services() as api:
        api.sign_in()
        yield api


def test_a_retry_publishes_once_and_fences_a_driver_left_alive(airflow, home, repo):
    before = repo.commit("main")
    run_id = airflow.trigger("submitted")
    assert list(airflow.finished("submitted").values()) == ["success"]
    assert airflow.tasks("submitted", run_id)["flights.left"] == ("success", 2)
    head = repo.commit("main")
    assert head.parents[0] == before.id  # main moved once
    assert rows(repo, "left/") == 1_000
    assert rows(repo, "connected/") == 500
    (home.marks / "go").touch()  # the driver of the first try continues
    assert mark_in(home.marks, "left fenced") == "FencedError"
    assert repo.commit("main") == head


def test_a_job_that_fails_never_touches_main(airflow, repo):
    before = repo.commit("main")
    airflow.trigger("failing")
    assert list(airflow.finished("failing").values()) == ["failed"]
    assert repo.commit("main") == before
    (parked,) = repo.runs.list(RunState.PARKED)
    assert list(repo.ref(parked.branch).entries("failed/")) == []


def rows(repo, folder):
    return sum(int(entry.metadata["graveler.rows"]) for entry in repo.ref("main").entries(folder))
