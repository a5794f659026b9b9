"""The operators by themselves, called twice, late and with what is stale."""

import pytest

PROGRAM = """
import dataclasses, json, os, tempfile
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
import graveler
from airflow.sdk import DAG
from graveler.errors import ThrottledError
from graveler.repository.branches import drop_branch
from graveler_airflow import (
    GravelerCloseRunOperator, GravelerGateOperator, GravelerPublishRunOperator,
    GravelerReapOperator, GravelerRollbackOperator, graveler_run, graveler_task,
)
from graveler_airflow.dag.handles import pack
from graveler_airflow.dag.error_policy import final_failures

states = {"r1": {"a": "failed", "b": "success"}}
ti = SimpleNamespace(
    task_id="work", map_index=-1, try_number=1, run_id="r1",
    run_after=datetime(2013, 1, 1, tzinfo=UTC),
    xcom_push=lambda key, value: None, log_url="",
    get_task_states=lambda dag_id, run_ids, task_ids=None: states,
)
context = {"ti": ti, "dag": DAG("d"), "dag_run": SimpleNamespace(dag_id="d", run_id="r1", run_after=ti.run_after),
           "outlet_events": {}}
found = {}

def outcome(act):
    try:
        result = act()
        return [type(result).__name__, result if isinstance(result, str) else ""]
    except Exception as error:
        return [type(error).__name__, str(error)]

def merge(run, *gates):
    return GravelerPublishRunOperator(task_id="merge", run=pack(run.handle), gates=gates)

def close(run):
    return GravelerCloseRunOperator(task_id="close", run=pack(run.handle))

folder = tempfile.mkdtemp()
os.environ["AIRFLOW_CONN_GRAVELER_DEFAULT"] = json.dumps({"conn_type": "graveler", "host": folder})
with graveler.open(folder, create=True) as lake:
    repo = lake.create_repository("flights")

    def opened(key, path="f", body=b"x", **terms):
        run = repo.runs.open(key, **terms)
        with run.step("s") as step:
            step.put(path, body)
        return run

    twice = merge(opened("twice"))
    found["twice"] = [twice.execute(context), twice.execute(context), repo.commit("main").id]

    refused = opened("refused", "g")
    found["gate"] = outcome(lambda: merge(refused, lambda candidate: "no").execute(context))
    found["after the gate"] = [close(refused).execute(context), repo.runs.get("refused").reason]

    late = opened("clash", "h", b"1")
    merge(opened("other", "h", b"2")).execute(context)
    found["conflict"] = outcome(lambda: merge(late).execute(context))

    stale = opened("again", "i")
    repo.runs.open("again")
    found["stale merge"] = outcome(lambda: merge(stale).execute(context))
    found["stale close"] = [close(stale).execute(context), repo.runs.get("again").attempt]

    failed = opened("failed", "j")
    found["close"] = [close(failed).execute(context) for _ in range(2)]
    found["reason"] = repo.runs.get("failed").reason
    dropped = opened("dropped", "k", on_failure="drop")
    found["drop"] = [close(dropped).execute(context) for _ in range(2)]

    # bad input: what a handle may be when it is used
    gone = opened("gone", "l")
    repo.runs.abandon("gone")
    found["abandoned"] = [outcome(lambda: act(gone).execute(context)) for act in (merge, close)]
    cut = opened("cut", "m"); handle = cut.handle
    drop_branch(repo.stores, handle.branch, lambda there: True)
    found["branch deleted"] = outcome(lambda: merge(cut).execute(context))
    again = opened("cut", "m")
    found["and the next attempt"] = merge(again).execute(context) == repo.commit("main").id
    elsewhere = tempfile.mkdtemp()
    with graveler.open(elsewhere, create=True) as other_lake:
        foreign = other_lake.create_repository("flights").runs.open("cut")
    other_lake = GravelerPublishRunOperator(task_id="m", run=pack(foreign.handle))
    moved = dataclasses.replace(foreign.handle, location=lake.location)
    found["foreign"] = outcome(
        lambda: GravelerPublishRunOperator(task_id="m", run=pack(moved)).execute(context))
    unknown = dataclasses.replace(moved, repository="trains")
    found["no such repository"] = outcome(
        lambda: GravelerPublishRunOperator(task_id="m", run=pack(unknown)).execute(context))
    os.rename(elsewhere, elsewhere + ".away")
    os.mkdir(elsewhere)
    found["away"] = outcome(lambda: other_lake.execute(context))
    found["nothing was made"] = os.listdir(elsewhere)
    os.rmdir(elsewhere)
    os.rename(elsewhere + ".away", elsewhere)
    found["back"] = outcome(lambda: other_lake.execute(context))
    odd = "d \u2028 ../%2e/~^@{} \N{SNOWMAN}" + "x" * 500
    found["odd key"] = merge(opened(odd, "n")).execute(context) == repo.commit("main").id

    judged = opened("judged", "o")
    def gate(*gates):
        return outcome(lambda: GravelerGateOperator(
            task_id="gate", run=pack(judged.handle), gates=gates).execute(context))
    def fine(candidate):
        return candidate.exists("o")
    warned = graveler.gate("careful", severity="warn")(lambda candidate: "hm")
    found["gate task"] = [
        gate(fine)[0], gate(fine, lambda candidate: False),
        GravelerGateOperator(
            task_id="gate", run=pack(judged.handle), gates=[warned]).execute(context),
        repo.runs.get("judged").state, repo.ref("main").exists("o"),
    ]
    merge(judged, fine).execute(context)
    found["reused"] = repo.gates.judgement("main").reused

    taken = opened("taken back", "p")
    published = merge(taken).execute(context)
    back = lambda run: GravelerRollbackOperator(task_id="back", repo="flights", run=run)
    found["rollback"] = [
        *(outcome(lambda: back("taken back").execute(context)) for _ in range(2)),
        repo.commit("main").id, repo.ref("main").exists("p"),
        repo.commit("main").metadata["airflow.task_id"],
    ]
    found["rollback of nothing"] = outcome(lambda: back("nobody").execute(context))

    due = []
    def waits(step):
        repo.stores.clock.sleep(4.5)  # longer than the lease, and by how much clocks may differ
        due.extend(reaped.key for reaped in repo.runs.reap())
        step.put("s", b"s")
        return "done"
    kept = opened("kept alive", "r", lease=timedelta(seconds=3))
    with DAG("alive"):
        task = graveler_task(waits)(pack(kept.handle)).operator
    found["alive"] = [outcome(lambda: task.execute(context)), due]
    merge(kept).execute(context)
    with DAG("alone"):
        task = graveler_task(waits)("no run").operator
    found["without a run"] = outcome(lambda: task.execute(context))

    aside = opened("aside", "t")
    close(aside).execute(context)
    handle = pack(aside.handle, opened_by="flights.open_run")
    with DAG("cleared"):
        task = graveler_task(lambda step: step.put("u", b"u"), task_id="late")(handle).operator
    found["set aside"] = [
        outcome(lambda: act.execute(context)) for act in (
            task,
            GravelerGateOperator(task_id="gate", run=handle, gates=[fine]),
            GravelerPublishRunOperator(task_id="merge", run=handle),
        )
    ]

    silent = opened("silent", "q", lease=timedelta(seconds=3))
    found["reap early"] = GravelerReapOperator(task_id="reap", repo="flights").execute(context)
    repo.stores.clock.sleep(4.2)
    (reaped,) = GravelerReapOperator(task_id="reap", repo="flights").execute(context)
    found["reap"] = [reaped["key"], reaped["from"], reaped["to"]]
    found["silent no more"] = outcome(lambda: merge(silent).execute(context))

    elsewhere = tempfile.mkdtemp()
    with graveler.open(elsewhere, create=True) as other_lake:
        other_lake.create_repository("flights")
    repo_of = {"conn_type": "graveler", "extra": {"repo": "flights"}}
    os.environ["AIRFLOW_CONN_HERE"] = json.dumps({**repo_of, "host": folder})
    os.environ["AIRFLOW_CONN_THERE"] = json.dumps({**repo_of, "host": elsewhere})
    def openings(dag_id, *runs):
        with DAG(dag_id) as dag:
            for terms in runs:
                with graveler_run(**terms):
                    pass
        mine = {"ti": ti, "dag_run": SimpleNamespace(**{**vars(context["dag_run"]), "dag_id": dag_id})}
        return [
            outcome(lambda: task.execute(mine))
            for task in dag.tasks if task.task_id.endswith("open_run")
        ]
    one, default = {"repo": "flights"}, {"graveler_conn_id": "here"}
    found["the same run"] = openings("same", one, default)
    found["runs apart"] = [
        *openings("named", one, {**default, "group_id": "more"}),
        *openings("there", one, {**default, "graveler_conn_id": "there"}),
    ]

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


def test_a_run_opened_to_be_dropped_is_dropped_at_its_end(found):
    assert found["drop"] == ["REAPED", "REAPED"]


def test_an_abandoned_run_is_an_error_for_its_tasks_not_its_end(found):
    (kind, message), close = found["abandoned"]
    assert kind == "AirflowFailException"
    assert message.startswith("fenced")
    assert close == ["str", "REAPED"]


def test_a_deleted_run_branch_ends_the_attempt_not_the_next_one(found):
    kind, message = found["branch deleted"]
    assert kind == "AirflowFailException"
    assert message.startswith("fenced")
    assert found["and the next attempt"] is True


def test_a_handle_of_another_repository_is_refused(found):
    kind, message = found["foreign"]
    assert kind == "AirflowFailException"
    assert message.startswith("fenced")
    kind, message = found["no such repository"]
    assert kind == "AirflowFailException"
    assert message.startswith("repository-not-found: no repository 'trains'")


def test_an_absent_lake_is_tried_again_and_none_is_made(found):
    kind, message = found["away"]
    assert kind == "BackendUnavailableError"
    assert "is its volume mounted" in message
    assert found["nothing was made"] == []
    assert found["back"][0] == "str"


def test_a_key_of_odd_characters_is_published_like_any(found):
    assert found["odd key"] is True


def test_a_gate_task_refuses_without_retry_or_moves_nothing(found):
    passed, refused, warned, state, published = found["gate task"]
    assert passed == "list"
    assert refused[0] == "AirflowFailException"
    assert refused[1].startswith("gate-failed: run 'judged' would be refused: <lambda>")
    assert warned == [{"gate": "careful", "passed": False, "reason": "hm"}]
    assert (state, published) == ("OPEN", False)


def test_the_merge_does_not_repeat_what_the_gate_task_asked(found):
    assert found["reused"] == ["fine"]


def test_a_published_run_is_taken_back_once(found):
    (_, first), (_, second), head, there, task = found["rollback"]
    assert first == second == head
    assert there is False
    assert task == "work"
    kind, message = found["rollback of nothing"]
    assert kind == "AirflowFailException"
    assert message.startswith("run-not-found")


def test_a_silent_run_is_set_aside_and_its_tasks_are_told(found):
    assert found["reap early"] == []
    assert found["reap"] == ["silent", "OPEN", "PARKED"]
    kind, message = found["silent no more"]
    assert kind == "AirflowFailException"
    assert message.startswith("fenced")


def test_a_task_of_an_attempt_set_aside_says_what_to_clear(found):
    for kind, message in found["set aside"]:
        assert kind == "AirflowFailException"
        assert message.startswith(
            "fenced: attempt 1 of run 'aside' is over, the run is PARKED (Airflow run r1: a failed)"
        )
        assert "clear 'flights.open_run' as well" in message


def test_a_task_keeps_its_run_alive_for_as_long_as_it_works(found):
    assert found["alive"] == [["str", "done"], []]


def test_a_task_that_was_given_no_run_says_so(found):
    kind, message = found["without a run"]
    assert kind == "AirflowFailException"
    assert message.startswith("waits was called without a run")


def test_two_tasks_of_a_dag_that_open_one_run_are_refused(found):
    for (kind, message), other in zip(
        found["the same run"], ("graveler.open_run", "flights.open_run"), strict=True
    ):
        assert kind == "AirflowFailException"
        assert message.startswith(f"invalid-input: {other} opens run 'same r1' of repository")
        assert "group_id" in message


def test_runs_of_one_dag_with_own_names_or_lakes_are_opened(found):
    assert [kind for kind, _ in found["runs apart"]] == ["dict"] * 4
