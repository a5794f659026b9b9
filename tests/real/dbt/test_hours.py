"""The dbt project of the guide, published hour by hour, with real dbt on DuckDB."""

import subprocess
from io import BytesIO
from pathlib import Path

import pyarrow.parquet as parquet
import pytest

import graveler
from graveler.config import program_environment
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
def build(tmp_path_factory):
    """Return what builds the project for an hour with the variables of a step."""

    folder = tmp_path_factory.mktemp("dbt")  # of all tests: dbt parses a project once

    def build_in(variables, hour):
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


def hour_folder(hour):
    return f"2013/01/01/{hour:02}-00"


def publish(repo, build, hour, rows):
    """Run an hour to its end; return what dbt printed."""
    with repo.run(f"flights {hour:02}:00") as run:
        with run.step("load") as step:
            body = "\n".join([HEADER, *rows, ""]).encode()
            step.put(f"input/{hour_folder(hour)}/flights.csv", body)
        with run.step("dbt") as step:
            done = build(step.environment(), hour)
            if done.returncode:
                raise RuntimeError(done.stdout)
    return done.stdout


def files(repo, ref="main"):
    return [entry.path for entry in repo.ref(ref).entries()]


def files_of(hour):
    folder = hour_folder(hour)
    outputs = [f"output/{folder}/{name}.parquet" for name in ("delays", "departures")]
    return [f"input/{folder}/flights.csv", *outputs]


def table(repo, path):
    return parquet.read_table(BytesIO(repo.ref("main").get(path))).to_pylist()


def test_an_hour_is_stopped_by_a_dbt_test(repo, build):
    publish(repo, build, 5, HEALTHY)
    with pytest.raises(RuntimeError, match="FAIL 1 unique_departures_flight"):
        publish(repo, build, 6, TWICE)
    publish(repo, build, 7, HEALTHY)
    assert files(repo) == sorted(files_of(5) + files_of(7))
    rows = table(repo, files_of(7)[1])
    assert sorted((row["origin"], row["flights"], row["mean_delay"]) for row in rows) == [
        ("EWR", 1, 4.0),
        ("JFK", 1, 7.0),
    ]
    record = repo.runs.get("flights 06:00")
    assert record.state is RunState.PARKED
    assert files(repo, record.branch)[-1] == max(files_of(5))
    publish(repo, build, 6, HEALTHY)
    assert files(repo) == sorted(files_of(5) + files_of(6) + files_of(7))


def test_dbt_that_fails_midway_leaves_main_whole(repo, build):
    publish(repo, build, 5, HEALTHY)
    before = repo.branch("main").head
    with pytest.raises(RuntimeError) as stopped:
        publish(repo, build, 6, WORDS)
    assert "OK created sql external model main.departures" in str(stopped.value)
    assert "ERROR creating sql external model main.delays" in str(stopped.value)
    assert repo.branch("main").head == before


def test_dbt_with_stale_variables_writes_nothing(repo, build):
    with repo.run("flights 05:00") as run:
        with run.step("load") as step:
            step.put(files_of(5)[0], "\n".join([HEADER, *HEALTHY, ""]).encode())
        with run.step("dbt") as step:
            variables = step.environment()
        done = build(variables, 5)
    assert done.returncode
    assert files(repo) == files_of(5)[:1]


def test_dbt_outside_of_a_step_names_the_variable(build):
    done = build({}, 5)
    assert done.returncode
    assert "GRAVELER_URL" in done.stdout
