"""``ObjectStoragePath("grav://…")``: the provider's filesystem over a real lake."""

import json
import sys

import pytest

from tests.real.airflow.home import ROOT


@pytest.fixture(scope="module")
def results(home):
    program = ROOT / "tests/real/airflow/programs/filesystem.py"
    lake = home.folder / "stored"
    connection = json.dumps({"conn_type": "graveler", "host": str(lake)})
    output = home.run(
        "/usr/bin/env", f"AIRFLOW_CONN_STORED={connection}", sys.executable, program, lake
    )
    return json.loads(output.splitlines()[-1])


def test_a_path_writes_to_a_branch_and_reads_it_back(results):
    assert results["read"] == "a,b"
    assert results["staged"] == ["input/2026/11/20/15:00/a.csv"]
    assert results["listed"] == ["a.csv", "b.csv"]


def test_a_commit_is_read_as_it_was_and_cannot_be_written(results):
    assert results["pinned"] == ["a.csv"]
    assert results["found"] == ["a.csv"]
    assert results["read only"] in ("OSError", "PermissionError")


def test_what_is_not_there_is_not_found(results):
    assert results["missing"] is False


def test_a_path_travels_through_xcom_with_its_connection(results):
    assert results["travelled"] == "a,b"


def test_a_lake_can_be_given_in_place_of_a_connection(results):
    assert results["given"] == "a,b"
