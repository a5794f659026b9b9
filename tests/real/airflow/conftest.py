"""Airflow in this process, with one home for all these tests.

Its import takes two seconds, so tests of operators, DAGs and triggers share it. Tests of its services
and commands start programs in the same home.
"""

import json
import shutil
import tempfile
import warnings
from importlib import import_module
from pathlib import Path

import pytest

import graveler
from tests.harness.wires import free_port
from tests.real.airflow.home import PROGRAMS, ROOT, Home

HOME = Home(Path(tempfile.mkdtemp(prefix="graveler-airflow-")), port=0)
VARIABLES = {
    **{name: value for name, value in HOME.env.items() if name.startswith("AIRFLOW")},
    "AIRFLOW__GRAVELER__DEPLOYMENT": "programs",  # outside of a task there are no Variables
    "AIRFLOW__API__BASE_URL": "https://airflow.example/",
}

with pytest.MonkeyPatch.context() as patch, warnings.catch_warnings():
    for name, value in VARIABLES.items():
        patch.setenv(name, value)
    warnings.simplefilter("ignore")  # warnings of graveler are errors in the tests below
    from airflow.utils.db import initdb

    import graveler_airflow

    for name in (
        "airflow.api_fastapi.app",
        "airflow.dag_processing.dagbag",
        "airflow.providers.standard.operators.bash",
        "airflow.providers.standard.operators.trigger_dagrun",
    ):
        import_module(name)
    assert [getattr(graveler_airflow, name) for name in graveler_airflow.__all__]


def pytest_itemcollected(item):
    item.add_marker(pytest.mark.filterwarnings("ignore", "error:::graveler"))


def pytest_sessionfinish():
    shutil.rmtree(HOME.folder, ignore_errors=True)


@pytest.fixture(scope="module", autouse=True)
def variables():
    """The environment of an Airflow in this process. It ends with the module."""
    with pytest.MonkeyPatch.context() as patch:
        for name, value in VARIABLES.items():
            patch.setenv(name, value)
        yield patch


@pytest.fixture(scope="session")
def home():
    shutil.copytree(ROOT / "tests/real/airflow/dags", HOME.dags)
    text = (ROOT / "dags/flights_airflow.py").read_text("utf-8")
    dying = (PROGRAMS / "killed_midway.py").read_text("utf-8")
    (HOME.dags / "flights_airflow.py").write_text(f"{text}\n\n{dying}", "utf-8")
    shutil.copy(ROOT / "dags/weather_airflow.py", HOME.dags)
    HOME.marks.mkdir()
    with graveler.open(HOME.lake, create=True) as lake:
        for name in ("flights", "scenarios", "weather"):
            lake.create_repository(name).protection.add("main")
        lake.repository("scenarios").create_branch("other")
    initdb()
    return Home(HOME.folder, free_port())


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


@pytest.fixture(scope="module")
def connect(variables):
    """Return a function that makes a connection of Airflow, and returns its hook."""

    def connect(name="graveler_default", conn_type="graveler", **fields):
        text = json.dumps({"conn_type": conn_type, **fields})
        variables.setenv(f"AIRFLOW_CONN_{name.upper()}", text)
        return graveler_airflow.GravelerHook(name)

    return connect


@pytest.fixture(scope="module")
def own(connect, tmp_path_factory):
    """A new lake, which the default connection names during the module."""
    folder = tmp_path_factory.mktemp("lake")
    connect(host=str(folder), extra={"repo": "flights"})
    with graveler.open(folder, create=True) as lake:
        yield lake


@pytest.fixture(scope="module")
def repo(own):
    """The repository of the default connection."""
    return own.create_repository("flights")
