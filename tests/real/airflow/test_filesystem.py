"""``ObjectStoragePath("grav://…")``: the provider's filesystem on a real lake."""

import json
import sys

import pytest

from tests.real.airflow.home import ROOT

STAGING = "airflow.providers.common.io.xcom.backend.XComObjectStorageBackend"


@pytest.fixture(scope="module")
def results(home):
    program = ROOT / "tests/real/airflow/programs/filesystem.py"
    lake = home.folder / "stored"
    connections = {
        "stored": {"host": str(lake)},
        "unmounted": {"host": str(home.folder / "unmounted")},
        "wrong": {"host": "lake"},
    }
    output = home.run(
        *(sys.executable, program, lake),
        AIRFLOW__CORE__XCOM_BACKEND=STAGING,
        AIRFLOW__COMMON_IO__XCOM_OBJECTSTORAGE_PATH="grav://stored@flights/dev/xcom/",
        **{
            f"AIRFLOW_CONN_{name.upper()}": json.dumps({"conn_type": "graveler", **fields})
            for name, fields in connections.items()
        },
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


def test_a_pickled_filesystem_needs_no_airflow(results):
    assert results["pickled"] == ["GravelerFileSystem", "GravelerFileSystem"]


@pytest.mark.parametrize(
    ("path", "error"),
    [
        ("no lake", "ConnectionError: [Errno 113] connection 'unmounted': no lake at "),
        ("wrong", "ConnectionError: [Errno 113] connection 'wrong': the host 'lake' is a relative"),
        ("not defined", "AirflowNotFoundException: The conn_id `undefined` isn't defined"),
        ("no connection", "InvalidPathError: [Errno 22] which lake? "),
    ],
)
def test_a_broken_connection_is_an_error_of_every_call(results, path, error):
    assert [raised for raised in results["broken"][path] if not raised.startswith(error)] == []


def test_a_path_without_a_connection_is_told_its_form(results):
    assert "grav://connection@repository/branch/path" in results["broken"]["no connection"][0]


def test_the_xcom_backend_that_never_commits_is_refused(results):
    assert results["xcom"].endswith(
        "set [core] xcom_backend to graveler_airflow.storage.xcom.GravelerXComBackend, which "
        "commits each value"
    )


def test_wrong_settings_of_the_xcom_backend_are_named(results):
    *places, branch = results["settings"].values()
    assert len(places) == 3
    for message in places:
        assert "give grav://connection@repository/branch/folder" in message
    for message in (branch, results["protected"]):
        assert "[common.io] xcom_objectstorage_path = 'grav://stored@flights/" in message
    assert "no branch 'none'" in branch
    assert "protected" in results["protected"]


def test_values_can_be_compressed(results):
    *values, unknown = results["compressions"].values()
    assert values == ["[1, 2]"] * 3
    assert "give one of ['bz2', 'gzip'," in unknown
