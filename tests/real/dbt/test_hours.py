"""The guide's dbt project, published hour by hour, with real dbt on DuckDB."""

import subprocess
from io import BytesIO
from pathlib import Path

import pyarrow.parquet as parquet
import pytest

import graveler
from graveler import checks
from graveler.config import program_environment
from graveler.errors import GateFailedError
from graveler.runs.state import RunState

ROOT = Path(__file__).parents[3]
DBT = ROOT / ".venv-dbt/bin/dbt"  # `make .venv-dbt/.installed`
PROJECT = ROOT / "docs/examples/dbt"
HEADER = "carrier,flight,origin,dep_delay"
HEALTHY = ["UA,1,EWR,4", "B6,2,JFK,7", "DL,3,LGA,"]
TWICE = ["UA,1,EWR,4", "UA,1,EWR,4"]
WORDS = ["UA,1,EWR,late", "B6,2,JFK,later"]


@pytest.fixture
def repo(tmp_path):
    with graveler.init(tmp_path / "lake") as lake:
        yield lake.create_repository("flights")


@pytest.fixture(scope="module")
def build(folder, results):
    """Return a function that builds the project for an hour with the variables of a step."""

    def build_in(variables, hour):
        results.unlink(missing_ok=True)
        return subprocess.run(
            [DBT, "--no-use-colors", "build", "--vars", f"hour: {hour_folder(hour)}"],
            cwd=PROJECT,
            env=program_environment(
                {
                    "DBT_PROFILES_DIR": str(PROJECT),
                    "DBT_TARGET_PATH": str(folder / "target"),
                    "DBT_LOG_PATH": str(folder / "logs"),
                    **variables,
                }
            ),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
            timeout=120,
        )

    return build_in


@pytest.fixture(scope="module")
def results(folder):
    """The file in which dbt records its results."""
    return folder / "target/run_results.json"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("dbt")  # for all tests: dbt parses the project once


def hour_folder(hour):
    return f"2013/01/01/{hour:02}-00"


def publish(repo, build, results, hour, rows):
    """Publish an hour behind the gate that reads dbt's test results."""
    with repo.run(f"flights {hour:02}:00", gates=checks.dbt_results("dbt/")) as run:
        with run.step("load") as step:
            body = "\n".join([HEADER, *rows, ""]).encode()
            step.put(f"input/{hour_folder(hour)}/flights.csv", body)
        with run.step("dbt") as step:
            done = build(step.environment(), hour)
            step.put(f"dbt/{hour_folder(hour)}/run_results.json", results)
    return done.stdout


def files(repo, ref="main"):
    """Return the paths of a version, without dbt's results."""
    entries = repo.ref(ref).entries()
    return [entry.path for entry in entries if not entry.path.startswith("dbt/")]


def files_of(hour):
    folder = hour_folder(hour)
    outputs = [f"output/{folder}/{name}.parquet" for name in ("delays", "departures")]
    return [f"input/{folder}/flights.csv", *outputs]


def table(repo, path):
    return parquet.read_table(BytesIO(repo.ref("main").get(path))).to_pylist()


def test_an_hour_is_stopped_by_a_dbt_test(repo, build, results):
    publish(repo, build, results, 5, HEALTHY)
    published = table(repo, files_of(5)[1])
    assert sorted((row["origin"], row["flights"], row["mean_delay"]) for row in published) == [
        ("EWR", 1, 4.0),
        ("JFK", 1, 7.0),
    ]
    with (
        pytest.raises(GateFailedError, match="is stale: dbt wrote it in run 'flights 05:00'"),
        repo.run("flights 07:00", gates=checks.dbt_results("dbt/")) as run,
    ):
        run.put(f"dbt/{hour_folder(7)}/run_results.json", results)  # dbt did not start
    with pytest.raises(GateFailedError, match="unique_departures_flight: fail: Got 1 result"):
        publish(repo, build, results, 6, TWICE)
    record = repo.runs.get("flights 06:00")
    assert record.state is RunState.PARKED
    # the failed rows are on the branch
    assert f"output/{hour_folder(6)}/departures.parquet" in files(repo, record.branch)
    rows = record.verdicts[0].facts["results"]
    assert rows["unique_departures_flight"].startswith("fail: Got 1 result")
    assert (rows["departures"], rows["delays"]) == ("success", "skipped")
    assert files(repo) == sorted(files_of(5))


def test_dbt_that_fails_midway_leaves_main_whole(repo, build, results):
    before = repo.branch("main").head
    with pytest.raises(GateFailedError, match="delays: error"):
        publish(repo, build, results, 6, WORDS)
    assert repo.branch("main").head == before
