"""One home of Airflow for all these tests: making its database costs half a minute."""

import shutil

import pytest

import graveler
from tests.real.airflow.home import AIRFLOW, ROOT, Home, free_port

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


@pytest.fixture(scope="session")
def home(tmp_path_factory):
    home = Home(tmp_path_factory.mktemp("airflow"), free_port())
    shutil.copytree(ROOT / "tests/real/airflow/dags", home.dags)
    text = (ROOT / "dags/flights_airflow.py").read_text("utf-8")
    (home.dags / "flights_airflow.py").write_text(text + KILLED_MIDWAY, "utf-8")
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
    """A running Airflow, which ends with the module: idle services would slow down the others."""
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
