"""Writers, hourly ticks, a sensor and hourly reports: all of Airflow with an ingestion branch."""

import shutil
from dataclasses import dataclass
from pathlib import Path

import pytest

import graveler
from graveler.errors import NotFoundError
from tests.harness.wires import free_port
from tests.real.airflow.home import AIRFLOW, Home

pytestmark = [pytest.mark.slow, pytest.mark.service("airflow")]

FIVE, SIX, SEVEN = (f"2013-01-01T0{hour}:00" for hour in (5, 6, 7))


def path(hour, name):
    return f"input/{hour.replace('-', '/').replace('T', '/')}/{name}"


@dataclass(frozen=True)
class Scheduling(Home):
    """A home whose scheduler also starts runs for schedules and events."""

    @property
    def env(self):
        return {**super().env, "AIRFLOW__SCHEDULER__USE_JOB_SCHEDULE": "True"}


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    home = Scheduling(tmp_path_factory.mktemp("ingestion"), free_port())
    shutil.copytree(Path(__file__).parent / "dags", home.dags)
    home.marks.mkdir()
    home.run(AIRFLOW, "db", "migrate")
    return home


@pytest.fixture(scope="module")
def repo(home):
    with graveler.open(home.lake, create=True) as lake:
        made = lake.create_repository("sales")
        made.protection.add("main")
        made.create_branch("ingest")
        yield made


@pytest.fixture(scope="module")
def airflow(home, repo):
    with home.services() as api, home.service("triggerer"):
        api.sign_in()
        yield api


@pytest.fixture(scope="module")
def stage(repo):
    def stage(hour, *names):
        for name in names:
            repo.branch("ingest").put(path(hour, name), name.encode())

    return stage


@pytest.fixture(scope="module")
def run(airflow):
    """Start a run by hand, and wait for its end."""

    def run(dag, partition=None, **params):
        run_id = airflow.trigger(dag, partition, **params)
        url = f"/api/v2/dags/{dag}/dagRuns/{run_id}"

        def over():
            return airflow.call("GET", url)["state"] in ("success", "failed")

        airflow.wait(over, f"{run_id} of {dag}")
        return airflow.call("GET", url)["state"]

    return run


@pytest.fixture(scope="module")
def mark(airflow, home):
    """Wait until a task has left a mark with a text."""

    def mark(name, text):
        file = home.marks / name
        airflow.wait(lambda: file.exists() and file.read_text() == text, f"{name}: {text}")

    return mark


def test_hours_are_ticked_reported_late_quarantined_and_released(
    airflow, home, repo, stage, run, mark
):
    waiting = airflow.trigger("wait", SEVEN)
    airflow.wait(
        lambda: airflow.tasks("wait", waiting)["wait"][0] == "deferred", "the sensor to defer"
    )

    stage(FIVE, "a")
    assert run("tick", FIVE) == "success"
    mark(f"report of {FIVE}", "a")

    stage(FIVE, "late")
    stage(SIX, "a")
    assert run("tick", SIX) == "success"
    mark(f"report of {SIX}", "a")
    mark(f"report of {FIVE}", "a late")

    stage(SEVEN, "a", "x.bad")
    assert run("tick", SEVEN) == "success"
    (kept,) = repo.ingestion().quarantined()
    with pytest.raises(NotFoundError):
        repo.ref("main").stat(path(SEVEN, "a"))
    assert airflow.tasks("wait", waiting)["wait"][0] == "deferred"

    repo.branch(kept.name).delete(path(SEVEN, "x.bad"))
    assert run("release", name=kept.name) == "success"
    mark(f"report of {SEVEN}", "a")
    mark(f"waited for {SEVEN}Z", repo.commit("main").id)
    assert airflow.finished("wait") == {SEVEN: "success"}

    published = [
        commit.metadata["hour"]
        for commit in repo.log("main", first_parent=True)
        if "graveler.ingest" in commit.metadata
    ]
    assert published == [f"{hour}Z" for hour in (SEVEN, SIX, FIVE)]
    by = repo.commit("main").metadata
    assert (by["airflow.dag_id"], by["released"]) == ("release", kept.name)
