# mypy: ignore-errors
"""Output for people: `airflow graveler runs`, `reap` and `create`, and the notifier."""

import asyncio
import json
import threading
from datetime import timedelta
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest
from airflow.cli.cli_parser import get_parser
from airflow.sdk import DAG

import graveler
from graveler.errors import GateFailedError
from graveler.runs.provenance import Origin
from graveler.runs.state import RunState
from graveler_airflow import GravelerIngestOperator, GravelerNotifier


@pytest.fixture(scope="module")
def told(repo):
    """A repository with runs and ingestions in the states that are reported."""

    def opened(key, run_id="", **terms):
        origin = Origin("airflow", job="told", run_id=run_id)
        run = repo.runs.open(key, metadata=origin.metadata(), **terms)
        with run.step("s") as step:
            step.put(f"told/{key}", b"x")
        return run

    refused = opened("told 2013-01-01T05:00", "r1")
    with pytest.raises(GateFailedError):
        refused.publish([graveler.gate("no duplicates")(lambda _: "5 rows twice")])
    opened("told r2", "r2").publish()
    opened("told r3 second", "r3").close("Airflow run r3: second.work failed")
    for branch, on_refusal in (("ingest", "hold"), ("landing", "quarantine")):
        ingestion = repo.ingestion(
            branch, gates=[graveler.gate("no bad file")(lambda _: "a.bad")], on_refusal=on_refusal
        )
        ingestion.branch.put(f"input/{branch}/a.bad", b"")
        ingestion.tick("2013-01-01T05:00Z")
    opened("silent", lease=timedelta(milliseconds=1))
    return repo


@pytest.fixture
def command(home, told, connect, capsys):
    """Return a function that runs ``airflow graveler`` in this process; it returns the output."""
    connect("away")

    def command(*words):
        args = get_parser().parse_args(["graveler", *words])
        args.func(args)
        return capsys.readouterr().out

    return command


def test_the_runs_are_listed_with_where_they_stand(command):
    listed = json.loads(command("runs", "-o", "json"))
    states = {run["key"]: run["state"] for run in listed}
    assert states["told r2"] == "PUBLISHED"
    assert states["told r3 second"] == states["told 2013-01-01T05:00"] == "PARKED"
    assert "5 rows twice" in listed[3]["reason"]


def test_reaping_is_a_dry_run_without_apply(command, told):
    answers = ("reap", "--repo", "flights", "-o", "json")
    (foreseen,) = json.loads(command(*answers))
    assert (foreseen["key"], foreseen["from"], foreseen["to"]) == ("silent", "OPEN", "PARKED")
    assert told.runs.get("silent").state is RunState.OPEN
    assert json.loads(command(*answers, "--apply")) == [foreseen]
    assert told.runs.get("silent").state is RunState.PARKED
    assert command(*answers, "--apply").strip() == "[]"


def test_a_repository_is_made_in_the_lake_of_a_connection(command, own):
    for _ in range(2):
        assert command("create", "ordered").splitlines()[-1] == "repository ordered"
    assert "ordered" in own.repositories()


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ("runs --repo trains", "repository-not-found: no repository 'trains'"),
        ("reap --conn-id nowhere", "--conn-id nowhere: The conn_id `nowhere` isn't defined"),
        ("runs --conn-id away --repo flights", "invalid-input: connection 'away' names no lake"),
        ("runs --state lost", "invalid-input: state='LOST'"),
    ],
)
def test_a_command_reports_wrong_arguments_in_one_line(command, words, says):
    with pytest.raises(SystemExit) as ended:
        command(*words.split())
    assert str(ended.value.code).startswith(says)
    assert "\n" not in ended.value.code


@pytest.fixture
def chat():
    """The address of a web hook, and what was posted to it."""
    posted = []

    class Chat(BaseHTTPRequestHandler):
        def do_POST(self):
            posted.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            self.send_response(204)
            self.end_headers()

        def log_message(self, *args):
            pass

    with HTTPServer(("127.0.0.1", 0), Chat) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/hook", posted
        server.shutdown()


def notified(run_id, dag=None, **options):
    """Return the one text of the notifier about a DAG run."""
    texts = []
    notifier = GravelerNotifier(send=texts.append, repo="{{ 'fli' + 'ghts' }}", **options)
    notifier({"dag": dag or DAG("told"), "run_id": run_id})
    (text,) = texts
    return text


def test_the_notifier_names_the_branch_and_the_gate(told, chat):
    address, posted = chat
    text = notified("r1", webhook=address)
    record = told.runs.get("told 2013-01-01T05:00")
    *output, link = text.splitlines()[1:]
    assert link.endswith("/dags/told/runs/r1")
    assert output == [
        f"PARKED on branch {record.branch} of flights, attempt 1; main has not moved",
        "Refused by no duplicates: 5 rows twice",
    ]
    assert posted == [{"text": text}]
    with pytest.raises(ValueError, match=r"^webhook: give an http or https address"):
        notified("r2", webhook="file:///etc/passwd")


def test_the_notifier_names_the_commit_or_the_reason(told):
    assert told.runs.get("told r2").commit in notified("r2")
    assert "second.work failed" in notified("r3")


def test_the_notifier_reports_that_there_is_no_run(home, told):
    assert "has opened no graveler run" in notified("r4")
    assert "The lake cannot be read" in notified("r5", graveler_conn_id="nowhere")


def test_the_notifier_of_a_deadline_works_in_the_triggerer(told):
    texts = []
    notifier = GravelerNotifier(send=texts.append, repo="flights")
    known = {"dag_run": {"dag_id": "told", "dag_run_id": "r1"}, "deadline": {"id": "d"}}
    asyncio.run(notifier.async_notify(known))
    assert texts == [notified("r1")]


def test_the_notifier_reports_held_hours_of_the_dag_and_why(told):
    with DAG("ticking") as dag:
        for task_id, branch in (("a", "ingest"), ("b", "landing"), ("c", "{{ ds }}")):
            GravelerIngestOperator(task_id=task_id, repo="flights", branch=branch)
        GravelerIngestOperator(task_id="other", repo="weather", branch="elsewhere")
    refused = "ingest 2013-01-01T05:00Z was refused: no bad file: a.bad"
    landing = refused.replace("ingest", "landing")
    assert notified("r6", dag).splitlines()[1:-1] == [
        f"ingest is held, main has not moved: {refused}",
        f"In quarantine on branch quarantine-2013-01-01T05-00: {landing}",
    ]
