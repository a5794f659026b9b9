"""The DAGs of the guide's dbt project, run by `airflow dags test`."""

import shutil
from pathlib import Path

import pytest

import graveler
from tests.harness.wires import free_port
from tests.real.airflow.home import AIRFLOW, ROOT, Home

pytestmark = [pytest.mark.slow, pytest.mark.service("airflow")]

BIN = ROOT / ".venv-dbt/bin"  # `make .venv-dbt/.installed`
HEALTHY = "carrier,flight,origin,dep_delay\nUA,1,EWR,4\nB6,2,JFK,7\n"


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    home = Home(tmp_path_factory.mktemp("dbt"), free_port())
    home.run(AIRFLOW, "db", "migrate")
    return home


@pytest.fixture(scope="module")
def published(home):
    """A repository with the main to which the DAGs publish."""
    with graveler.init(home.lake) as lake:
        repo = lake.create_repository("flights")
        repo.protection.add("main")
        yield repo


@pytest.fixture(scope="module")
def run_hour(home, published):
    """Run a DAG of the project for an hour; return its output."""
    without = shutil.ignore_patterns("target", "logs", "__pycache__")
    project = Path(
        shutil.copytree(ROOT / "docs/examples/dbt", home.folder / "flights_dbt", ignore=without)
    )
    variables = {
        "PATH": f"{home.env['PATH']}:{AIRFLOW.parent}:{BIN}",
        "AIRFLOW__CORE__DAGS_FOLDER": str(project / "dags"),
    }
    parse = (BIN / "dbt", "--quiet", "parse", "--project-dir", project, "--profiles-dir", project)
    home.run(*parse, GRAVELER_URL="grav://flights/main", **variables)

    def run(dag, hour, rows):
        file = home.landing / f"2013/01/01/{hour}-00/flights.csv"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(rows)
        return home.run(AIRFLOW, "dags", "test", dag, f"2013-01-01T{hour}:00:00Z", **variables)

    return run


def files(repo, hour):
    hours = (f"{folder}/2013/01/01/{hour}-00/" for folder in ("dbt", "input", "output"))
    return [
        entry.path.rpartition("/")[2]
        for prefix in hours
        for entry in repo.ref("main").entries(prefix)
    ]


def test_dbt_publishes_an_hour_by_one_task(published, run_hour):
    run_hour("flights_dbt", "05", HEALTHY)
    assert files(published, "05") == [
        "run_results.json",
        "flights.csv",
        "delays.parquet",
        "departures.parquet",
    ]


def test_cosmos_publishes_an_hour_model_by_model(published, run_hour):
    run_hour("flights_cosmos", "07", HEALTHY)
    assert files(published, "07") == ["flights.csv", "delays.parquet", "departures.parquet"]
