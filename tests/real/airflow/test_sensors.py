"""Sensors on a real lake: they wait in a worker, by reschedules, and in the triggerer."""

import json
import sys

import pytest

from tests.real.airflow.home import ROOT


@pytest.fixture(scope="module")
def results(home):
    program = ROOT / "tests/real/airflow/programs/sensors.py"
    lake = home.folder / "waited for"
    connection = json.dumps({"conn_type": "graveler", "host": str(lake)})
    output = home.run(
        "/usr/bin/env", f"AIRFLOW_CONN_WATCHED={connection}", sys.executable, program, lake
    )
    return json.loads(output.splitlines()[-1])


def ids(range_):
    return [events["commit"] for events in range_["commits"]]


def test_commits_from_before_the_dag_run_do_not_end_the_wait(results):
    assert results["nothing yet"] is False


def test_the_range_begins_with_the_dag_run_not_the_sensor(results):
    before, first, second = results["made"]
    range_ = results["range"]
    assert (range_["since"], range_["to"]) == (before, second)
    assert ids(range_) == [first, second]
    assert range_["partitions"] == ["2013-01-01T00:00", "2013-01-01T01:00"]
    assert range_["rewound"] is False


def test_only_commits_that_change_the_prefix_count(results):
    assert [events["message"] for events in results["prefix"]["commits"]] == ["adds output/1"]
    assert results["elsewhere"] is False


def test_a_range_can_begin_where_the_last_one_ended(results):
    _, first, second = results["made"]
    assert results["since"]["since"] == first
    assert ids(results["since"])[0] == second


def test_a_since_that_is_no_commit_fails_at_once(results):
    kind, message = results["wrong"]
    assert kind == "AirflowFailException"
    assert "since 'unknown'" in message


def test_a_missing_repository_is_waited_for(results):
    assert results["missing"] is False


def test_a_rescheduled_sensor_misses_nothing_between_two_turns(results):
    between, range_ = results["turns"]
    assert ids(range_) == [between]


def test_a_deferred_sensor_hands_the_trigger_the_same_beginning(results):
    output = results["deferred commits"]
    path, kwargs = output["trigger"]
    assert path == "graveler_airflow.triggers.GravelerTrigger"
    assert kwargs["begun"] == output["begun"]
    assert kwargs["waits_for"] == "commits"
    assert (kwargs["prefix"], kwargs["poll_interval"]) == ("deferred/", 7)
    assert output["timeout"] == 70
    assert output["returns"] == {"to": "x"}


def test_a_deferred_sensor_for_files_waits_for_the_same_files(results):
    path, kwargs = results["deferred files"]["trigger"]
    assert path == "graveler_airflow.triggers.GravelerTrigger"
    assert (kwargs["waits_for"], kwargs["prefix"], kwargs["at_least"]) == ("files", "deferred/", 1)


def test_what_exists_already_is_returned_without_deferring(results):
    assert len(results["not deferred"]) == 64


def test_files_are_returned_with_the_commit_that_pins_them(results):
    assert results["too few"] is False
    commit, event, pinned = results["files"]
    assert event["commit"] == commit
    assert event["paths"] == pinned == ["landed/1", "landed/2"]


def test_one_file_and_new_files_can_be_waited_for(results):
    assert results["one file"] == ["landed/1"]
    assert results["new files"] == ["landed/2", "landed/3"]


def test_waiting_for_no_file_is_refused(results):
    assert results["none"][0] == "InvalidInputError"


def test_folded_commits_are_reported_by_partition(results):
    returned, keys, extra = results["partitions"]
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


def test_commits_about_no_partition_skip_the_task(results):
    assert results["chosen hours"] == ["2013-01-01T01:00"]
    assert "about 3 partitions, more than 2" in str(results["too many"])
    assert "its tree is gone" in str(results["expired"])
    assert results["no partitions"] == "none of 2 commits is about a partition"


def test_an_operator_without_an_asset_is_refused(results):
    assert "give the asset of partitions" in results["no outlet"]


def test_a_sensor_that_starts_in_the_triggerer_takes_only_text(results):
    kind, message = results["starting with a task"]
    assert kind == "InvalidInputError"
    assert "with start_from_trigger it is text: give a template such as {{ ti.xcom_pull" in message
    assert results["starting"]["prefix"] == "{{ ds }}/"
    assert results["not starting"] is False
