"""Output for people: `airflow graveler runs` and `reap`, and the notifier."""

import json
from datetime import timedelta

import pytest

import graveler
from graveler.base.clock import SystemClock
from graveler.errors import GateFailedError
from graveler.runs.provenance import Origin
from graveler.runs.state import RunState
from tests.real.airflow.home import AIRFLOW


@pytest.fixture(scope="module")
def repository(home):
    with graveler.open(home.lake) as lake:
        yield lake.repository("telling")


@pytest.fixture(scope="module")
def events(repository):
    """Runs with states that the notifier reports."""

    def opened(key, run_id="", **terms):
        origin = Origin("airflow", job="told", run_id=run_id)
        run = repository.runs.open(key, metadata=origin.metadata(), **terms)
        with run.step("s") as step:
            step.put(f"told/{key}", b"x")
        return run

    refused = opened("told 2013-01-01T05:00", "r1")
    with pytest.raises(GateFailedError):
        refused.publish([graveler.gate("no duplicates")(lambda _: "5 rows twice")])
    opened("told r2", "r2").publish()
    opened("told r3 second", "r3").close("Airflow run r3: second.work failed")
    for branch, on_refusal in (("ingest", "hold"), ("landing", "quarantine")):
        ingestion = repository.ingestion(
            branch, gates=[graveler.gate("no bad file")(lambda _: "a.bad")], on_refusal=on_refusal
        )
        ingestion.branch.put(f"input/{branch}/a.bad", b"")
        ingestion.tick("2013-01-01T05:00Z")
    opened("silent", lease=timedelta(seconds=1))
    SystemClock().sleep(1.5)  # the lease and the tolerated difference of clocks


def test_the_runs_are_listed_with_where_they_stand(home, events):
    listed = json.loads(home.run(AIRFLOW, "graveler", "runs", "--repo", "telling", "-o", "json"))
    assert [(run["key"], run["state"]) for run in listed] == [
        ("silent", "OPEN"),
        ("told r3 second", "PARKED"),
        ("told r2", "PUBLISHED"),
        ("told 2013-01-01T05:00", "PARKED"),
    ]
    assert "5 rows twice" in listed[3]["reason"]


def test_reaping_is_a_dry_run_without_apply(home, events, repository):
    answers = ("graveler", "reap", "--repo", "telling", "-o", "json")
    (foreseen,) = json.loads(home.run(AIRFLOW, *answers))
    assert (foreseen["key"], foreseen["from"], foreseen["to"]) == ("silent", "OPEN", "PARKED")
    assert repository.runs.get("silent").state is RunState.OPEN
    assert json.loads(home.run(AIRFLOW, *answers, "--apply")) == [foreseen]
    assert repository.runs.get("silent").state is RunState.PARKED
    assert home.run(AIRFLOW, *answers, "--apply").strip() == "[]"


def test_a_repository_is_made_in_the_lake_of_a_connection(home, lake):
    for _ in range(2):
        made = home.run(AIRFLOW, "graveler", "create", "ordered").splitlines()
        assert made[-1] == "repository ordered"
    assert "ordered" in lake.repositories()


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        ("repository", "repository-not-found: no repository 'trains'"),
        ("connection", "--conn-id nowhere: The conn_id `nowhere` isn't defined"),
        ("lake", "invalid-input: connection 'away' names no lake"),
        ("state", "invalid-input: state='LOST'"),
    ],
)
def test_a_command_reports_wrong_arguments_in_one_line(ended, wrong, says):
    assert ended[wrong].startswith(says)
    assert "\n" not in ended[wrong]


@pytest.fixture(scope="module")
def ended(home):
    return home.ask("commands")


@pytest.fixture(scope="module")
def notified(home, events):
    return home.ask("notifier")


def test_the_notifier_names_the_branch_and_the_gate(notified, repository):
    (text,) = notified["refused"]
    record = repository.runs.get("told 2013-01-01T05:00")
    *output, link = text.splitlines()[1:]
    assert link.endswith("/dags/told/runs/r1")
    assert output == [
        f"PARKED on branch {record.branch} of telling, attempt 1; main has not moved",
        "Refused by no duplicates: 5 rows twice",
    ]
    assert notified["posted"] == [{"text": text}]


def test_the_notifier_names_the_commit_or_the_reason(notified, repository):
    assert repository.commit("main").id in notified["published"][0]
    assert "second.work failed" in notified["failed"][0]


def test_the_notifier_of_a_deadline_works_in_the_triggerer(notified, repository):
    (text,), (away,) = notified["deadline"]
    assert text == notified["refused"][0]
    assert "The lake cannot be read" in away


def test_the_notifier_reports_that_there_is_no_run(notified):
    assert "has opened no graveler run" in notified["unknown"][0]
    assert "The lake cannot be read" in notified["away"][0]


def test_the_notifier_reports_held_hours_of_the_dag_and_why(notified):
    (text,) = notified["ticking"]
    refused = "ingest 2013-01-01T05:00Z was refused: no bad file: a.bad"
    assert text.splitlines()[1:-1] == [
        f"ingest is held, main has not moved: {refused}",
        f"In quarantine on branch quarantine-2013-01-01T05-00: {refused.replace('ingest', 'landing')}",
    ]


def test_the_notifier_posts_to_nothing_but_web_addresses(notified):
    assert notified["no address"] == "webhook: give an http or https address"
    assert len(notified["posted"]) == 1
