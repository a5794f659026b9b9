"""All of Airflow with an ingestion branch: its triggerer reports commits, and wakes tasks.

Writers, hourly ticks, sensors and hourly reports share only the lake. The triggerer restarts.
"""

import shutil
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from sqlite3 import connect

import pytest

import graveler
from graveler.errors import NotFoundError
from tests.harness.wires import free_port
from tests.real.airflow.home import Home

pytestmark = [pytest.mark.slow, pytest.mark.service("airflow")]

FIVE, SIX, SEVEN = (f"2013-01-01T0{hour}:00" for hour in (5, 6, 7))
STARTING = ("commit", "file", "named")
"""The sensors of the DAG `starting`."""


def path(hour, name):
    return f"input/{hour.replace('-', '/').replace('T', '/')}/{name}"


@dataclass(frozen=True)
class Scheduling(Home):
    """A home whose scheduler also starts runs for schedules and events."""

    @property
    def env(self):
        return {**super().env, "AIRFLOW__SCHEDULER__USE_JOB_SCHEDULE": "True"}


@pytest.fixture(scope="module")
def own_home(tmp_path_factory, home):
    made = Scheduling(tmp_path_factory.mktemp("ingestion"), free_port())
    shutil.copytree(Path(__file__).parent / "dags", made.dags)
    made.marks.mkdir()
    copies = (connect(each.folder / "airflow.db") for each in (home, made))
    with closing(next(copies)) as migrated, closing(next(copies)) as copy:
        migrated.backup(copy)
    return made


@pytest.fixture(scope="module")
def lake(own_home):
    with graveler.open(own_home.lake, create=True) as lake:
        yield lake


@pytest.fixture(scope="module")
def repo(lake):
    made = lake.create_repository("sales")
    made.protection.add("main")
    made.create_branch("ingest")
    return made


@pytest.fixture(scope="module")
def airflow(own_home, repo):
    with own_home.services() as api:
        api.sign_in()
        yield api


@pytest.fixture(scope="module")
def run(airflow):
    """Start a run by hand, and wait for its success."""

    def run(dag, partition=None, **params):
        run_id = airflow.trigger(dag, partition, **params)
        url = f"/api/v2/dags/{dag}/dagRuns/{run_id}"

        def over():
            return airflow.call("GET", url)["state"] in ("success", "failed")

        airflow.wait(over, f"{run_id} of {dag}")
        assert airflow.call("GET", url)["state"] == "success"

    return run


@pytest.fixture(scope="module")
def mark(airflow, own_home):
    """Wait until a task has left a mark with a text."""

    def mark(name, text):
        file = own_home.marks / name
        airflow.wait(lambda: file.exists() and file.read_text() == text, f"{name}: {text}")

    return mark


@pytest.fixture(scope="module")
def deferred(airflow):
    """Start a run, and wait until sensors of it are deferred."""

    def deferred(dag, *names, partition=None):
        run_id = airflow.trigger(dag, partition)

        def waits():
            tasks = airflow.tasks(dag, run_id)
            return {tasks[name][0] for name in names} == {"deferred"}

        airflow.wait(waits, f"the sensors of {dag} to defer")
        return run_id

    return deferred


@pytest.fixture(scope="module")
def events(airflow):
    """Return the commits of a repository that the triggerer has reported."""

    def events(repository):
        results = airflow.call("GET", "/api/v2/assets/events?limit=100")["asset_events"]
        in_order = sorted(results, key=lambda event: event["id"])
        payloads = [event["extra"].get("payload", {}) for event in in_order]
        return [each["commit"] for each in payloads if each.get("repository") == repository]

    return events


@pytest.fixture(scope="module")
def made():
    """The commits of the watched repository."""
    return []


@pytest.fixture(scope="module")
def commit(lake, made):
    def commit(path):
        main = lake.repository("watched").branch("main")
        main.put(path, path.encode())
        made.append(main.commit(path, metadata={"hour": "2013-01-01T05:00Z"}).id)

    return commit


@pytest.fixture(scope="module")
def stage(repo):
    def stage(hour, *names):
        for name in names:
            repo.branch("ingest").put(path(hour, name), name.encode())

    return stage


@pytest.fixture(scope="module")
def waiting(airflow, own_home, lake, commit, deferred, stage, run, mark):
    """Sensors that wait for what came and for what is to come, when the triggerer ends."""
    with own_home.service("triggerer"):
        deferred("waiting", "wait")
        run_id = deferred("wait", "wait", partition=SEVEN)
        starting = deferred("starting", *STARTING)
        processes = airflow.processes("starting", starting)
        assert {processes[name] for name in STARTING} == {None}  # they wait without a worker
        lake.create_repository("watched")
        for name in ("input/0", "input/1", "starting/1"):
            commit(name)
        stage(FIVE, "a")
        run("tick", FIVE)
        mark(f"report of {FIVE}", "a")
        assert list(airflow.finished("starting").values()) == ["success"]
        mark("named", "starting/1")  # what a sensor waits for may come from an XCom
    return run_id


@pytest.fixture(scope="module")
def triggerer(own_home, waiting, commit):
    """The triggerer is started again after two commits."""
    for name in ("waited/1", "input/3"):
        commit(name)
    with own_home.service("triggerer"):
        yield


def test_every_commit_is_an_asset_event_in_order_none_is_lost(airflow, triggerer, made, events):
    airflow.wait(lambda: {*made} <= {*events("watched")}, "five events")
    assert len(made) == 5
    assert list(dict.fromkeys(events("watched"))) == made  # it may report a commit again


def test_a_deferred_task_resumes_for_a_commit_missed_meanwhile(airflow, triggerer, mark):
    mark("waited for", "waited/1")
    assert list(airflow.finished("waiting").values()) == ["success"]


def test_hours_are_ticked_reported_late_quarantined_and_released(
    airflow, repo, waiting, triggerer, stage, run, mark
):
    stage(FIVE, "late")
    stage(SIX, "a")
    run("tick", SIX)
    mark(f"report of {SIX}", "a")
    mark(f"report of {FIVE}", "a late")

    stage(SEVEN, "a", "x.bad")
    run("tick", SEVEN)
    (kept,) = repo.ingestion().quarantined()
    with pytest.raises(NotFoundError):
        repo.ref("main").stat(path(SEVEN, "a"))
    assert airflow.tasks("wait", waiting)["wait"][0] == "deferred"
    repo.branch(kept.name).delete(path(SEVEN, "x.bad"))
    run("release", name=kept.name)
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
