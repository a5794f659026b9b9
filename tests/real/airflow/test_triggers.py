"""Triggers on a real lake report every commit once, despite restarts, resets and outages."""

import json
import sys

import pytest

from tests.real.airflow.home import ROOT


@pytest.fixture(scope="module")
def results(home):
    program = ROOT / "tests/real/airflow/programs/triggers.py"
    lake = home.folder / "watched"
    connection = json.dumps({"conn_type": "graveler", "host": str(lake)})
    output = home.run(
        "/usr/bin/env", f"AIRFLOW_CONN_WATCHED={connection}", sys.executable, program, lake
    )
    return json.loads(output.splitlines()[-1])


def test_five_commits_between_two_polls_are_five_ordered_events(results):
    made, events = results["five"]
    assert [news["commit"] for news in events] == made
    assert [news["previous"] for news in events][1:] == made[:-1]


def test_an_event_holds_what_a_reader_needs(results):
    first = results["five"][1][0]
    assert first["repository"] == "flights"
    assert first["ref"] == "main"
    assert first["message"] == "adds input/0"
    assert first["metadata"] == {"hour": "2013-01-01T05:00Z"}
    assert first["partitions"] == ["2013-01-01T05:00"]


def test_the_cursor_is_kept_with_the_asset(results):
    kept, head = results["cursor"]
    assert kept == {"graveler flights main": head}


def test_a_triggerer_that_returns_reports_what_it_missed_once(results):
    missed, events = results["restart"]
    assert events == missed


def test_a_published_run_is_one_event(results):
    assert results["run"] == ["run hour 5"]


def test_commits_outside_the_prefix_are_not_reported(results):
    assert results["prefix"] == ["adds output/x"]


def test_a_reset_branch_is_reported_by_its_new_head(results):
    assert results["reset"]["from"] == [True]
    assert results["reset"]["head"]


def test_a_branch_that_was_reset_reports_its_new_commits(results):
    assert results["replaced"] == {
        "told": ["adds new/1", "adds new/2"],
        "from": [True, False],
        "head": True,
    }


def test_an_unknown_cursor_yields_the_head_alone(results):
    events, head = results["lost"]
    assert events == [head]


def test_a_repository_and_a_branch_may_come_later(results):
    assert results["early"] == ["adds first"]


def test_a_branch_may_be_deleted_and_recreated(results):
    assert results["again"] == [[], [["adds second", True]]]


def test_no_commit_is_lost_while_the_lake_is_away(results):
    assert results["outage"] == ["adds after the outage"]


def test_a_task_waits_through_an_outage_of_the_lake(results):
    assert results["outage of a task"] == [["after the outage"]]


def test_an_outage_of_weeks_is_waited_through(results):
    assert results["long outage"] == "waits"


def test_a_cursor_that_cannot_be_kept_does_not_repeat_events(results):
    assert results["unkept"] == ["adds uncertain"]


def test_a_trigger_of_two_assets_has_no_cursor(results):
    assert results["shared"] == ["adds for two"]


def test_more_commits_than_one_batch_come_in_order_and_once(results):
    made, events = results["many"]
    assert events == made


def test_a_waiting_task_gets_one_event_with_the_whole_range(results):
    (range_,), ended = results["once"]
    assert ended
    assert [news["message"] for news in range_["commits"]] == ["adds many/6", "adds many/7"]
    assert range_["to"] == range_["commits"][-1]["commit"]
    assert range_["since"] == range_["commits"][0]["previous"]
    assert not range_["rewound"]


def test_a_waiting_task_misses_nothing_from_before_its_trigger(results):
    made, events = results["begun"]
    assert events == made


def test_a_missing_commit_ends_the_wait_with_an_error(results):
    assert results["wrong"].startswith("since 'unknown': no branch, tag or commit")


@pytest.mark.parametrize(
    ("fault", "kind", "message"),
    [
        ("deleted connection", "AirflowNotFoundException", "The conn_id `deleted` isn't defined"),
        ("wrong connection", "InvalidInputError", "connection 'wrong': the host 'lake' is a rela"),
    ],
)
def test_a_final_error_ends_the_wait_of_a_task(results, fault, kind, message):
    assert results[fault][0] == kind
    assert results[fault][1].startswith(message)
    assert results[f"watcher of {fault}"] is False


def test_files_are_reported_with_their_commit(results):
    (event,), ended, head = results["files"]
    assert ended
    assert event["paths"] == ["landed/1", "landed/2"]
    assert event["commit"] == head


@pytest.mark.parametrize("kind", ["commit", "object"])
def test_a_trigger_travels_through_airflows_database(results, kind):
    assert results[f"round trip {kind}"] == ["graveler_airflow.triggers", True]
