"""Sensors over a real lake: waiting in a worker, in turns and in the triggerer."""

import json
import sys

import pytest

from tests.real.airflow.home import ROOT


@pytest.fixture(scope="module")
def found(home):
    program = ROOT / "tests/real/airflow/programs/sensors.py"
    lake = home.folder / "waited for"
    connection = json.dumps({"conn_type": "graveler", "host": str(lake)})
    said = home.run(
        "/usr/bin/env", f"AIRFLOW_CONN_WATCHED={connection}", sys.executable, program, lake
    )
    return json.loads(said.splitlines()[-1])


def ids(range_):
    return [told["commit"] for told in range_["commits"]]


def test_commits_from_before_the_dag_run_do_not_end_the_wait(found):
    assert found["nothing yet"] is False


def test_the_range_begins_with_the_dag_run_not_the_sensor(found):
    before, first, second = found["made"]
    range_ = found["range"]
    assert (range_["since"], range_["to"]) == (before, second)
    assert ids(range_) == [first, second]
    assert range_["partitions"] == ["2013-01-01T00:00", "2013-01-01T01:00"]
    assert range_["rewound"] is False


def test_only_commits_that_change_the_prefix_count(found):
    assert [told["message"] for told in found["prefix"]["commits"]] == ["adds output/1"]
    assert found["elsewhere"] is False


def test_a_range_can_begin_where_the_last_one_ended(found):
    _, first, second = found["made"]
    assert found["since"]["since"] == first
    assert ids(found["since"])[0] == second


def test_a_since_that_is_no_commit_fails_at_once(found):
    kind, message = found["wrong"]
    assert kind == "AirflowFailException"
    assert "since 'unknown'" in message


def test_a_repository_that_is_not_there_yet_is_waited_for(found):
    assert found["missing"] is False


def test_a_rescheduled_sensor_misses_nothing_between_two_turns(found):
    between, range_ = found["turns"]
    assert ids(range_) == [between]


def test_a_deferred_sensor_hands_the_trigger_the_same_beginning(found):
    said = found["deferred commits"]
    path, kwargs = said["trigger"]
    assert path == "graveler_airflow.triggers.GravelerCommitTrigger"
    assert kwargs["begun"] == said["begun"]
    assert (kwargs["prefix"], kwargs["once"], kwargs["poll_interval"]) == ("deferred/", True, 7)
    assert said["timeout"] == 70
    assert said["returns"] == {"to": "x"}


def test_a_deferred_sensor_for_files_waits_for_the_same_files(found):
    path, kwargs = found["deferred files"]["trigger"]
    assert path == "graveler_airflow.triggers.GravelerObjectTrigger"
    assert (kwargs["prefix"], kwargs["at_least"]) == ("deferred/", 1)


def test_what_is_there_already_is_returned_without_deferring(found):
    assert len(found["not deferred"]) == 64


def test_files_are_returned_with_the_commit_that_pins_them(found):
    assert found["too few"] is False
    commit, event, pinned = found["files"]
    assert event["commit"] == commit
    assert event["paths"] == pinned == ["landed/1", "landed/2"]


def test_one_file_and_new_files_can_be_waited_for(found):
    assert found["one file"] == ["landed/1"]
    assert found["new files"] == ["landed/2", "landed/3"]


def test_waiting_for_no_file_is_refused(found):
    assert found["none"][0] == "InvalidInputError"


def test_folded_commits_are_told_of_partition_by_partition(found):
    returned, keys, extra = found["partitions"]
    assert returned == {
        "2013-01-01T05:00": ["a", "g"],
        "north": ["b"],
        "2013-01-01T05:30": ["c"],
        "2013-01-01T07:00": ["f"],
        "2013-01-01T08:00": ["g"],
        "2013-01-01T09:00": ["g"],
    }
    assert keys == sorted(returned)
    assert extra == {"commits": returned}


def test_commits_about_no_partition_skip_the_task(found):
    assert found["no partitions"] == "none of 2 commits is about a partition"


def test_an_operator_without_an_asset_to_tell_of_is_refused(found):
    assert "give the asset of partitions" in found["no outlet"]
