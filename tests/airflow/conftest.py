"""One Airflow for all these tests: making its database and starting it costs half a minute."""

import shutil

import pytest

import graveler
from graveler.demo.flights import load_flights
from graveler.demo.landing import land
from tests.airflow.home import AIRFLOW, ROOT, Home, free_port

# The DAG file as it is, and behind it: the first try of one hour's transform is killed by the
# kernel between its two tables, with the files of the first written and staged.
KILLED_MIDWAY = """

def _dying(write):
    import os, pathlib, signal
    from airflow.sdk import Variable

    def dies(step, df, path, **options):
        written = write(step, df, path, **options)
        mark = pathlib.Path(Variable.get("marks"), "killed in transform")
        if path == "output/flights/2013/01/01/12:00/" and not mark.exists():
            mark.write_text(written[0].address)
            os.kill(os.getpid(), signal.SIGKILL)
        return written

    return dies

pipeline.write = _dying(pipeline.write)
"""
REPOSITORIES = ("flights", "scenarios", "telling", "weather")
ONCE = (
    "side_by_side",
    "resumed",
    "killed",
    "told_to_stop",
    "hidden",
    "gated",
    "several",
    "mapped",
    "mapped_runs",
    "dropped",
    "changed_its_mind",
)


@pytest.fixture(scope="session")
def home(tmp_path_factory):
    home = Home(tmp_path_factory.mktemp("airflow"), free_port())
    shutil.copytree(ROOT / "tests/airflow/dags", home.dags)
    text = (ROOT / "dags/flights_airflow.py").read_text("utf-8")
    (home.dags / "flights_airflow.py").write_text(text + KILLED_MIDWAY, "utf-8")
    shutil.copy(ROOT / "dags/weather_airflow.py", home.dags)
    home.marks.mkdir()
    with graveler.open(home.lake) as lake:
        for name in REPOSITORIES:
            lake.create_repository(name).protect("main")
        lake.repository("scenarios").create_branch("other")
    home.run(AIRFLOW, "db", "migrate")
    return home


@pytest.fixture(scope="session")
def flights():
    return load_flights()


@pytest.fixture(scope="session")
def airflow(home, flights):
    """A running Airflow, in which every DAG has been started once."""
    for hour in flights.hours(3):
        land(flights, hour, home.landing, damaged=hour.hour == 11)
    with home.services() as api:
        api.sign_in()
        api.backfill("flights_airflow", "2013-01-01T10:00:00Z", "2013-01-01T12:00:00Z")
        api.backfill("weather_airflow", "2013-01-01T10:00:00Z", "2013-01-01T10:00:00Z")
        for dag_id in ONCE:
            api.trigger(dag_id)
        yield api


@pytest.fixture
def lake(home):
    with graveler.open(home.lake) as lake:
        yield lake


@pytest.fixture
def scenarios(lake):
    return lake.repository("scenarios")
