"""One Airflow home for all these tests, because its database takes half a minute to create."""

import shutil

import pytest

import graveler
from tests.harness.wires import free_port
from tests.real.airflow.home import AIRFLOW, PROGRAMS, ROOT, Home

REPOSITORIES = ("flights", "scenarios", "telling", "weather")


@pytest.fixture(scope="session")
def home(tmp_path_factory):
    home = Home(tmp_path_factory.mktemp("airflow"), free_port())
    shutil.copytree(ROOT / "tests/real/airflow/dags", home.dags)
    text = (ROOT / "dags/flights_airflow.py").read_text("utf-8")
    dying = (PROGRAMS / "killed_midway.py").read_text("utf-8")
    (home.dags / "flights_airflow.py").write_text(f"{text}\n\n{dying}", "utf-8")
    shutil.copy(ROOT / "dags/weather_airflow.py", home.dags)
    home.marks.mkdir()
    with graveler.open(home.lake, create=True) as lake:
        for name in REPOSITORIES:
            lake.create_repository(name).protection.add("main")
        lake.repository("scenarios").create_branch("other")
    home.run(AIRFLOW, "db", "migrate")
    return home


@pytest.fixture(scope="module")
def airflow(home):
    """A running Airflow. It ends with the module, because idle services slow down other modules."""
    with home.services() as api:
        api.sign_in()
        yield api


@pytest.fixture
def lake(home):
    with graveler.open(home.lake) as lake:
        yield lake


@pytest.fixture
def scenarios(lake):
    return lake.repository("scenarios")
