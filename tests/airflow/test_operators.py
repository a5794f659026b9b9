"""The operators by themselves, called twice, late and with what is stale."""

import pytest

PROGRAM = """
import json, tempfile
from datetime import UTC, datetime
from types import SimpleNamespace
import graveler
from graveler.errors import ThrottledError
from graveler_airflow import GravelerCloseRunOperator, GravelerPublishRunOperator
from graveler_airflow.binding import pack
from graveler_airflow.failing import final_failures

states = {"r1": {"a": "failed", "b": "success"}}
ti = SimpleNamespace(
    task_id="work", map_index=-1, try_number=1, run_id="r1",
    run_after=datetime(2013, 1, 1, tzinfo=UTC),
    get_task_states=lambda dag_id, run_ids: states,
)
context = {"ti": ti, "dag_run": SimpleNamespace(dag_id="d", run_id="r1", run_after=ti.run_after)}
found = {}

def outcome(act):
    try:
        return [type(act()).__name__, ""]
    except Exception as error:
        return [type(error).__name__, str(error)]

def merge(run, *gates):
    return GravelerPublishRunOperator(task_id="merge", run=pack(run.handle), gates=gates)

def close(run, end="drop"):
    return GravelerCloseRunOperator(task_id="close", run=pack(run.handle), on_failure=end)

with graveler.open(tempfile.mkdtemp()) as lake:
    repo = lake.create_repository("flights")

    def opened(key, path="f", body=b"x"):
        run = repo.runs.open(key)
        with run.step("s") as step:
            step.put(path, body)
        return run

    twice = merge(opened("twice"))
    found["twice"] = [twice.execute(context), twice.execute(context), repo.commit("main").id]

    refused = opened("refused", "g")
    found["gate"] = outcome(lambda: merge(refused, lambda candidate: "no").execute(context))
    found["after the gate"] = [close(refused, "park").execute(context), repo.runs.get("refused").reason]

    late = opened("clash", "h", b"1")
    merge(opened("other", "h", b"2")).execute(context)
    found["conflict"] = outcome(lambda: merge(late).execute(context))

    stale = opened("again", "i")
    repo.runs.open("again")
    found["stale merge"] = outcome(lambda: merge(stale).execute(context))
    found["stale close"] = [close(stale).execute(context), repo.runs.get("again").attempt]

    failed = opened("failed", "j")
    found["close"] = [close(failed, "park").execute(context) for _ in range(2)]
    found["reason"] = repo.runs.get("failed").reason

    def busy():
        with final_failures():
            raise ThrottledError("later")

    found["busy"] = outcome(busy)
    found["no run"] = outcome(lambda: GravelerPublishRunOperator(task_id="m", run="x").execute(context))
print(json.dumps(found))
"""


@pytest.fixture(scope="module")
def found(home):
    return home.ask(PROGRAM)


def test_a_merge_that_runs_again_answers_with_the_same_commit(found):
    first, second, main = found["twice"]
    assert first == second == main


def test_a_refusal_of_a_gate_is_not_tried_again(found):
    kind, message = found["gate"]
    assert kind == "AirflowFailException"
    assert "<lambda>: no" in message


def test_closing_keeps_the_reason_that_the_gate_gave(found):
    state, reason = found["after the gate"]
    assert state == "PARKED"
    assert "<lambda>: no" in reason


def test_a_conflict_is_not_tried_again(found):
    kind, message = found["conflict"]
    assert kind == "AirflowFailException"
    assert message.startswith("merge-conflict")


def test_a_stale_merge_publishes_nothing_and_is_not_tried_again(found):
    kind, message = found["stale merge"]
    assert kind == "AirflowFailException"
    assert message.startswith("fenced")


def test_a_stale_close_leaves_the_newer_attempt_alone(found):
    assert found["stale close"] == ["OPEN", 2]


def test_closing_twice_is_no_error_and_says_which_tasks_failed(found):
    assert found["close"] == ["PARKED", "PARKED"]
    assert found["reason"] == "Airflow run r1: a failed"


def test_a_busy_store_is_left_to_airflows_retries(found):
    assert found["busy"] == ["ThrottledError", "later"]


def test_what_is_no_run_is_refused(found):
    kind, message = found["no run"]
    assert kind == "AirflowFailException"
    assert "graveler_run" in message
