"""``ObjectStoragePath("grav://…")``: the provider's filesystem over a real lake."""

import json
import sys

import pytest

from tests.real.airflow.home import ROOT


@pytest.fixture(scope="module")
def found(home):
    program = ROOT / "tests/real/airflow/programs/filesystem.py"
    lake = home.folder / "stored"
    connection = json.dumps({"conn_type": "graveler", "host": str(lake)})
    said = home.run(
        "/usr/bin/env", f"AIRFLOW_CONN_STORED={connection}", sys.executable, program, lake
    )
    return json.loads(said.splitlines()[-1])


def test_a_path_writes_to_a_branch_and_reads_it_back(found):
    assert found["read"] == "a,b"
    assert found["staged"] == ["input/2026/11/20/15:00/a.csv"]
    assert found["listed"] == ["a.csv", "b.csv"]


def test_a_commit_is_read_as_it_was_and_cannot_be_written(found):
    assert found["pinned"] == ["a.csv"]
    assert found["found"] == ["a.csv"]
    assert found["read only"] in ("OSError", "PermissionError")


def test_what_is_not_there_is_not_found(found):
    assert found["missing"] is False


def test_a_path_travels_through_xcom_with_its_connection(found):
    assert found["travelled"] == "a,b"


def test_a_lake_can_be_given_in_place_of_a_connection(found):
    assert found["given"] == "a,b"
