"""Ingestion branches in Airflow: ticks, releases, and waiting for an hour."""

import pytest


@pytest.fixture(scope="module")
def found(home):
    return home.ask("ingesting")


def test_a_tick_publishes_the_hour_once_for_any_number_of_tries(found):
    first, second = found["published"]
    assert first == second
    assert first["hour"] == "2013-01-01T05:00Z"
    assert first["state"] == "published"
    assert first["published"] == found["head"]
    assert found["link"].endswith(f"ref={found['head']}")


def test_the_commit_says_which_task_published_it(found):
    said = found["metadata"]
    assert (said["airflow.dag_id"], said["airflow.task_id"], said["airflow.try"]) == (
        "d",
        "tick",
        "1",
    )
    assert said["hour"] == "2013-01-01T05:00Z"


def test_a_held_hour_fails_without_retry_and_passes_when_mended(found):
    assert found["held"].startswith("AirflowFailException: gate-failed: ingest is held: ")
    assert found["mended"] == "published"


def test_an_hour_without_writes_is_held_for_its_task_and_sensor(found):
    task, sensor = found["behind it"]
    assert task.startswith("AirflowFailException: gate-failed: ingest is held: ")
    assert sensor == "TaskDeferred"
    assert found["behind it, mended"] == ["empty", None]


def test_an_hour_set_aside_lets_the_task_succeed_and_is_reported(found):
    assert found["quarantined"]["state"] == "quarantined"
    assert found["quarantined"]["quarantined"] == ["quarantine-2013-01-01T07-00"]
    assert found["quarantined"]["refused"]


def test_a_release_publishes_once_or_is_refused_for_good(found):
    assert found["refused"].startswith("AirflowFailException: gate-failed: ")
    assert found["released"] == [found["released head"]] * 2


def test_the_sensor_waits_in_the_triggerer_for_the_hour(found):
    assert found["nothing yet"] is None
    name, arguments = found["trigger"]
    assert name == "graveler_airflow.triggers.GravelerIngestTrigger"
    assert arguments["hour"] == "2013-01-01T05:00:00+00:00"
    assert found["event"] == found["waited"]
    assert found["event"]["commit"] == found["head"]
    assert found["held: not published"] == "TaskDeferred"


def test_an_hour_in_which_nothing_came_is_over_for_the_sensor(found):
    assert found["empty"]["state"] == "empty"
    assert found["waited for empty"]["commit"] is None
