"""Triggers over a real lake: every commit once, through restarts, resets and outages."""

import json
import sys

import pytest

from tests.real.airflow.home import ROOT


@pytest.fixture(scope="module")
def found(home):
    program = ROOT / "tests/real/airflow/programs/triggers.py"
    lake = home.folder / "watched"
    connection = json.dumps({"conn_type": "graveler", "host": str(lake)})
    said = home.run(
        "/usr/bin/env", f"AIRFLOW_CONN_WATCHED={connection}", sys.executable, program, lake
    )
    return json.loads(said.splitlines()[-1])


def test_five_commits_between_two_polls_are_five_ordered_events(found):
    made, told = found["five"]
    assert [news["commit"] for news in told] == made
    assert [news["previous"] for news in told][1:] == made[:-1]


def test_an_event_says_what_a_reader_of_the_commit_needs(found):
    first = found["five"][1][0]
    assert first["repository"] == "flights"
    assert first["ref"] == "main"
    assert first["message"] == "adds input/0"
    assert first["metadata"] == {"hour": "2013-01-01T05:00Z"}
    assert first["partitions"] == ["2013-01-01T05:00"]


def test_the_cursor_is_kept_with_the_asset(found):
    kept, head = found["cursor"]
    assert kept == {"graveler flights main": head}


def test_a_triggerer_that_returns_reports_what_it_missed_once(found):
    missed, told = found["restart"]
    assert told == missed


def test_a_published_run_is_one_event(found):
    assert found["run"] == ["run hour 5"]


def test_commits_outside_the_prefix_are_not_told_of(found):
    assert found["prefix"] == ["adds output/x"]


def test_a_branch_that_was_reset_is_told_of_by_where_it_is_now(found):
    assert found["reset"]["from"] == [True]
    assert found["reset"]["head"]


def test_a_branch_that_was_reset_reports_its_new_commits(found):
    assert found["replaced"] == {
        "told": ["adds new/1", "adds new/2"],
        "from": [True, False],
        "head": True,
    }


def test_an_unknown_cursor_is_answered_with_the_head_alone(found):
    told, head = found["lost"]
    assert told == [head]


def test_a_repository_and_a_branch_may_come_later(found):
    assert found["early"] == ["adds first"]


def test_a_branch_may_be_deleted_and_made_anew(found):
    assert found["again"] == [[], [["adds second", True]]]


def test_a_lake_that_was_away_is_read_again_and_nothing_is_lost(found):
    assert found["outage"] == ["adds after the outage"]


def test_an_outage_of_weeks_is_waited_through(found):
    assert found["long outage"] == "waits"


def test_a_cursor_that_cannot_be_kept_does_not_repeat_events(found):
    assert found["unkept"] == ["adds uncertain"]


def test_a_trigger_of_two_assets_goes_without_a_cursor(found):
    assert found["shared"] == ["adds for two"]


def test_more_commits_than_one_batch_come_in_order_and_once(found):
    made, told = found["many"]
    assert told == made


def test_a_waiting_task_gets_one_event_with_the_whole_range(found):
    (range_,), ended = found["once"]
    assert ended
    assert [news["message"] for news in range_["commits"]] == ["adds many/6", "adds many/7"]
    assert range_["to"] == range_["commits"][-1]["commit"]
    assert range_["since"] == range_["commits"][0]["previous"]
    assert not range_["rewound"]


def test_a_waiting_task_misses_nothing_from_before_its_trigger(found):
    made, told = found["begun"]
    assert told == made


def test_a_commit_that_is_not_there_ends_the_wait_with_an_error(found):
    assert found["wrong"].startswith("since 'unknown': no branch, tag or commit")


def test_files_are_told_of_with_the_commit_to_read_them_from(found):
    (event,), ended, head = found["files"]
    assert ended
    assert event["paths"] == ["landed/1", "landed/2"]
    assert event["commit"] == head


@pytest.mark.parametrize("kind", ["commit", "object"])
def test_a_trigger_travels_through_airflows_database(found, kind):
    assert found[f"round trip {kind}"] == ["graveler_airflow.triggers", True]
