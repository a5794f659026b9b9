"""Ingestion branches in Airflow: ticks, releases, and sensors for an hour."""

import pytest


@pytest.fixture(scope="module")
def results(home):
    return home.ask("ingestion")


def test_a_tick_publishes_the_hour_once_for_any_number_of_tries(results):
    first, second = results["published"]
    assert first == second
    assert first["hour"] == "2013-01-01T05:00Z"
    assert first["state"] == "published"
    assert first["published"] == results["head"]
    assert results["link"].endswith(f"ref={results['head']}")


def test_the_commit_names_the_task_that_published_it(results):
    output = results["metadata"]
    assert (output["airflow.dag_id"], output["airflow.task_id"], output["airflow.try"]) == (
        "d",
        "tick",
        "1",
    )
    assert output["hour"] == "2013-01-01T05:00Z"


def test_a_held_hour_fails_without_retry_and_passes_when_mended(results):
    assert results["held"].startswith("AirflowFailException: gate-failed: ingest is held: ")
    assert results["mended"] == "published"


def test_an_hour_without_writes_is_held_for_its_task_and_sensor(results):
    task, sensor = results["behind it"]
    assert task.startswith("AirflowFailException: gate-failed: ingest is held: ")
    assert sensor == "TaskDeferred"
    assert results["behind it, mended"] == ["empty", None]


def test_a_quarantined_hour_is_reported_and_the_task_succeeds(results):
    assert results["quarantined"]["state"] == "quarantined"
    assert results["quarantined"]["quarantined"] == ["quarantine-2013-01-01T07-00"]
    assert results["quarantined"]["refused"]


def test_a_release_publishes_once_or_is_refused_for_good(results):
    assert results["refused"].startswith("AirflowFailException: gate-failed: ")
    assert results["released"] == [results["released head"]] * 2


def test_the_sensor_waits_in_the_triggerer_for_the_hour(results):
    assert results["nothing yet"] is None
    name, arguments = results["trigger"]
    assert name == "graveler_airflow.triggers.GravelerTrigger"
    assert arguments["hour"] == "2013-01-01T05:00:00+00:00"
    assert results["event"] == results["waited"]
    assert results["event"]["commit"] == results["head"]
    assert results["held: not published"] == "TaskDeferred"


def test_an_hour_in_which_nothing_came_is_over_for_the_sensor(results):
    assert results["empty"]["state"] == "empty"
    assert results["waited for empty"]["commit"] is None
