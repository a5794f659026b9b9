"""The DAGs of the guide's dbt project, run by `airflow dags test`."""

import json
import shutil
from pathlib import Path

import pytest

import graveler
from tests.real.airflow.home import AIRFLOW, ROOT

BIN = ROOT / ".venv-dbt/bin"  # `make .venv-dbt/.installed`
HEALTHY = "carrier,flight,origin,dep_delay\nUA,1,EWR,4\nB6,2,JFK,7\n"
TWICE = HEALTHY + "UA,1,EWR,4\n"


@pytest.fixture(scope="module")
def location(tmp_path_factory):
    return tmp_path_factory.mktemp("dbt") / "lake"


@pytest.fixture(scope="module")
def published(location):
    """A repository with the main to which the DAGs publish."""
    with graveler.init(location) as lake:
        repo = lake.create_repository("flights")
        repo.protection.add("main")
        yield repo


@pytest.fixture(scope="module")
def run_hour(home, location, published):
    """Run a DAG of the project for an hour; return its output."""
    without = shutil.ignore_patterns("target", "logs", "__pycache__")
    project = Path(
        shutil.copytree(ROOT / "docs/examples/dbt", home.folder / "flights_dbt", ignore=without)
    )
    connection = {"conn_type": "graveler", "host": str(location)}
    variables = {
        "PATH": f"{home.env['PATH']}:{AIRFLOW.parent}:{BIN}",
        "AIRFLOW_CONN_GRAVELER_DEFAULT": json.dumps(connection),
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
    with pytest.raises(AssertionError, match="unique_departures_flight: fail: Got 1 result"):
        run_hour("flights_dbt", "06", TWICE)
    assert files(published, "06") == []


def test_cosmos_publishes_an_hour_model_by_model(published, run_hour):
    run_hour("flights_cosmos", "07", HEALTHY)
    assert files(published, "07") == ["flights.csv", "delays.parquet", "departures.parquet"]
