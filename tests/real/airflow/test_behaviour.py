"""``airflow dags test`` of one DAG: its logs, states and values, as a user sees them."""

import json
import re

import pytest

import graveler
from graveler.lake import RunState
from tests.real.airflow.home import AIRFLOW

BACKEND = "graveler_airflow.storage.xcom.GravelerXComBackend"


@pytest.fixture(scope="module")
def output(home):
    """The output of the DAG run."""
    with graveler.open(home.lake) as lake:
        lake.create_repository("behaviour").create_branch("xcoms")
    with pytest.raises(AssertionError, match="DagRun failed") as failure:
        home.run(
            *(AIRFLOW, "dags", "test", "behaviour"),
            AIRFLOW_CONN_UNMOUNTED=json.dumps(
                {"conn_type": "graveler", "host": str(home.folder / "none")}
            ),
            AIRFLOW__CORE__XCOM_BACKEND=BACKEND,
            AIRFLOW__COMMON_IO__XCOM_OBJECTSTORAGE_PATH="grav://graveler_default@behaviour/xcoms/values",
            AIRFLOW__COMMON_IO__XCOM_OBJECTSTORAGE_THRESHOLD="4",
            AIRFLOW__COMMON_IO__XCOM_OBJECTSTORAGE_COMPRESSION="gzip",
        )
    return str(failure.value)


@pytest.fixture(scope="module")
def repository(home, output):
    with graveler.open(home.lake) as lake:
        yield lake.repository("behaviour")


def test_values_go_from_task_to_task_through_the_lake(output):
    assert f"values [1, 2] [{{'doubled': [2]}}, {{'doubled': [4]}}] {'ü' * 30}" in output


def test_each_value_is_a_commit_that_names_its_task(repository):
    commits = [
        commit
        for commit in repository.log("xcoms")
        if "." not in commit.metadata.get("airflow.task_id", ".")  # not in the block of a run
    ]
    assert sorted(commit.message for commit in commits) == [
        "XCom a/b c of behaviour.rows",
        "XCom half of behaviour.rows",
        "XCom return_value of behaviour.double",
        "XCom return_value of behaviour.double",
        "XCom return_value of behaviour.rows",
    ]
    doubled = [commit for commit in commits if commit.message.endswith("double")]
    assert {commit.metadata["airflow.map_index"] for commit in doubled} == {"0", "1"}
    assert list(repository.branch("xcoms").uncommitted()) == []


def test_what_a_failed_try_pushed_is_deleted(repository):
    paths = [entry.path for entry in repository.branch("xcoms").entries("values/behaviour/")]
    assert {path.split("/", 3)[3] for path in paths if "." not in path.split("/")[3]} == {
        "double/0/return_value.json.gz",
        "double/1/return_value.json.gz",
        "rows/a%2Fb c.json.gz",
        "rows/return_value.json.gz",
    }


@pytest.fixture(scope="module")
def parked(repository):
    return {record.key.rpartition(" ")[2]: record for record in repository.runs.list()}


def test_a_parked_run_shows_in_the_state_of_its_teardown(output, parked):
    messages = re.findall("AirflowFailException: (run .* is not published: .*)", output)
    for group, reason in {
        "refused": "has_rows: 0 rows in the hour",
        "failed": "failed.merge upstream_failed, failed.part_1 failed)",
    }.items():
        record = parked[group]
        assert record.state is RunState.PARKED
        (message,) = (message for message in messages if record.key in message)
        for part in (record.branch, reason, "main did not move", "clear the failed tasks"):
            assert part in message


def test_a_task_that_fails_alerts_and_the_teardown_does_not(output):
    alerts = sorted(re.findall("alert of (.*?):", output))
    assert alerts == ["away.open_run", "failed.part_1", "refused.merge"]


def test_the_reason_of_a_failure_is_printed_once_in_a_log(output):
    log = "\n".join(line for line in output.splitlines() if not line.startswith("alert of"))
    closed = "\n".join(line for line in log.splitlines() if "is not published" in line)
    assert closed.count("0 rows in the hour") == 1
    # from the merge, which is not tried again, and from the teardown
    assert log.count("0 rows in the hour") == 2
    assert log.count("no lake at ") == 1
    assert "in publish" in log  # the function that raised
