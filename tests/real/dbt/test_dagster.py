"""The guide's dbt project as assets of Dagster, on the branch of the run."""

import runpy

import dagster as dg
import pytest

import graveler as engine
from dagster_graveler.resource import forget_runs
from graveler.lake.shared import close_lakes

HEALTHY = "carrier,flight,origin,dep_delay\nUA,1,EWR,4\nB6,2,JFK,7\n"
TWICE = HEALTHY + "UA,1,EWR,4\n"

pytestmark = [  # Dagster's own uses
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::dagster.BetaWarning"),
]


@pytest.fixture
def repo(tmp_path):
    with engine.init(tmp_path / "lake") as lake:
        repo = lake.create_repository("flights")
        repo.protection.add("main")
        yield repo
    forget_runs()
    close_lakes()


@pytest.fixture
def job(project, dbt, repo, tmp_path, monkeypatch):
    monkeypatch.setenv("GRAVELER_LAKE", str(tmp_path / "lake"))
    monkeypatch.setenv("FLIGHTS_LANDING", str(tmp_path / "landing"))
    monkeypatch.setenv("DBT_EXECUTABLE", str(dbt))
    defs = runpy.run_path(str(project / "definitions.py"))["defs"]
    return defs.resolve_job_def("flights_job")


def land(folder, hour, rows):
    file = folder / f"2013/01/01/{hour}-00/flights.csv"
    file.parent.mkdir(parents=True)
    file.write_text(rows)


def test_dbt_builds_on_the_branch_and_its_test_stops_an_hour(job, repo, tmp_path):
    land(tmp_path / "landing", "05", HEALTHY)
    land(tmp_path / "landing", "06", TWICE)
    with dg.DagsterInstance.ephemeral() as instance:
        done, failed = (
            job.execute_in_process(instance=instance, partition_key=key, raise_on_error=False)
            for key in ("2013-01-01-05:00", "2013-01-01-06:00")
        )
    assert done.success
    assert [entry.path for entry in repo.ref("main").entries()] == [
        "input/2013/01/01/05-00/flights.csv",
        "output/2013/01/01/05-00/delays.parquet",
        "output/2013/01/01/05-00/departures.parquet",
    ]
    assert {key.name: key.asset_key.to_user_string() for key in _checks(done, passed=True)} == {
        "not_null_departures_flight": "departures",
        "unique_departures_flight": "departures",
        "not_null_delays_origin": "delays",
        "accepted_values_delays_origin__EWR__JFK__LGA": "delays",
    }
    assert not failed.success
    assert [key.name for key in _checks(failed, passed=False)] == ["unique_departures_flight"]
    branch = repo.runs.get("dagster flights_job 2013-01-01-06:00").branch
    on_branch = [entry.path for entry in repo.ref(branch).entries("output/2013/01/01/06")]
    assert on_branch == []  # the step of dbt is discarded


def _checks(result, *, passed):
    return [
        check.asset_check_key
        for check in result.get_asset_check_evaluations()
        if check.passed == passed
    ]
