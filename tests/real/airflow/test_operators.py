"""Single operators, called twice, called late, and called with stale handles."""

import pytest


@pytest.fixture(scope="module")
def results(home):
    return home.ask("operators")


def test_a_merge_that_runs_again_answers_with_the_same_commit(results):
    first, second, main = results["twice"]
    assert first == second == main


def test_the_events_of_a_publish_name_its_own_commit_or_none(results):
    published, nothing, *again = results["events"]
    extra, added, main, linked = published
    assert (extra["commit"], extra["changed"], linked) == (main, True, True)
    assert added == [["grav://graveler_default@flights/main", extra]] or added == [
        ["grav://flights/main", extra]
    ]
    extra, added, head, linked = nothing
    assert extra["changed"] is linked is False
    assert not {"commit", "previous"} & extra.keys()
    assert (added[0][1], head) == (extra, main)
    for extra, _, head, _ in again:  # the run has written equal files once more
        assert (extra["changed"], extra["commit"]) == (False, head)


def test_a_refusal_of_a_gate_is_not_tried_again(results):
    kind, message = results["gate"]
    assert kind == "AirflowFailException"
    assert "<lambda>: no" in message


def test_closing_keeps_the_reason_that_the_gate_gave(results):
    kind, message = results["after the gate"]
    assert kind == "AirflowFailException"
    assert "it is PARKED on branch run-refused-" in message
    assert "<lambda>: no" in message


def test_a_conflict_is_not_tried_again(results):
    kind, message = results["conflict"]
    assert kind == "AirflowFailException"
    assert message.startswith("merge-conflict")


def test_a_stale_merge_publishes_nothing_and_is_not_tried_again(results):
    kind, message = results["stale merge"]
    assert kind == "AirflowFailException"
    assert message.startswith("fenced")


def test_a_stale_close_leaves_the_newer_attempt_alone(results):
    assert results["stale close"] == ["OPEN", 2]


def test_closing_is_idempotent_and_names_the_failed_tasks(results):
    assert results["close"][0] == results["close"][1]
    kind, message = results["close"][0]
    assert kind == "AirflowFailException"
    assert message.startswith("run 'failed' is not published: it is PARKED on branch run-failed-")
    assert "(Airflow run r1: a failed): main did not move, main has nothing of it;" in message
    assert "clear the failed tasks with 'only failed' off" in message
    assert "`graveler run show failed`" in message
    assert results["reason"] == "Airflow run r1: a failed"


def test_a_busy_store_is_left_to_airflows_retries(results):
    assert results["busy"] == ["ThrottledError", "later"]


def test_what_is_no_run_is_refused(results):
    kind, message = results["no run"]
    assert kind == "AirflowFailException"
    assert "graveler_run" in message


def test_a_run_opened_to_be_dropped_is_dropped_at_its_end(results):
    assert results["drop"][0] == results["drop"][1]
    kind, message = results["drop"][0]
    assert kind == "AirflowFailException"
    assert message.endswith("clear the whole DAG run to do it again: nothing of it is kept")


def test_the_end_of_a_run_is_skipped_if_its_tasks_were(results):
    kind, message = results["skip"]
    assert kind == "AirflowSkipException"
    assert "(Airflow run r1: a skipped, merge skipped)" in message


def test_an_abandoned_run_is_an_error_for_its_tasks(results):
    (kind, message), (closing, end) = results["abandoned"]
    assert kind == closing == "AirflowFailException"
    assert message.startswith("fenced")
    assert "it is REAPED" in end


def test_a_deleted_run_branch_ends_the_attempt_not_the_next_one(results):
    kind, message = results["branch deleted"]
    assert kind == "AirflowFailException"
    assert message.startswith("fenced")
    assert results["and the next attempt"] is True


def test_a_handle_of_another_repository_is_refused(results):
    kind, message = results["foreign"]
    assert kind == "AirflowFailException"
    assert message.startswith("fenced")
    kind, message = results["no such repository"]
    assert kind == "AirflowFailException"
    assert message.startswith("repository-not-found: no repository 'trains'")


def test_an_absent_lake_is_tried_again_and_none_is_made(results):
    kind, message = results["away"]
    assert kind == "BackendUnavailableError"
    assert "is its volume mounted" in message
    assert results["nothing was made"] == []
    assert results["back"][0] == "str"


def test_a_key_of_odd_characters_is_published_like_any(results):
    assert results["odd key"] is True


def test_a_gate_task_refuses_without_retry_or_moves_nothing(results):
    passed, refused, warned, state, published = results["gate task"]
    assert passed == "list"
    assert refused[0] == "AirflowFailException"
    assert refused[1].startswith("gate-failed: run 'judged' would be refused: <lambda>")
    assert warned == [{"gate": "careful", "passed": False, "reason": "hm"}]
    assert (state, published) == ("OPEN", False)


def test_the_merge_reuses_the_verdicts_of_the_gate_task(results):
    assert results["reused"] == ["fine"]


def test_a_run_is_rolled_back_once_beside_a_parked_attempt(results):
    (_, first), (_, second), head, present, task = results["rollback"]
    assert first == second == head
    assert present is False
    assert task == "work"
    kind, message = results["rollback of nothing"]
    assert kind == "AirflowFailException"
    assert message.startswith("run-not-found")


def test_a_silent_run_is_parked_and_its_tasks_are_fenced(results):
    assert results["reap early"] == []
    assert results["reap"] == ["silent", "OPEN", "PARKED"]
    kind, message = results["silent no more"]
    assert kind == "AirflowFailException"
    assert message.startswith("fenced")


def test_maintenance_packs_and_names_a_branch_that_fails(results):
    failed, idle, badly_cut, done, head = results["maintain"]
    assert failed[0] == "BackendUnavailableError"
    assert failed[1].startswith("branch 'main': away")
    assert idle == {"packed": {}, "reaped": [], "marks": []}
    assert badly_cut > 0
    assert done == {"packed": {"main": head}, "reaped": [], "marks": []}


def test_a_task_of_a_parked_attempt_names_what_to_clear(results):
    for kind, message in results["set aside"]:
        assert kind == "AirflowFailException"
        assert message.startswith(
            "fenced: attempt 1 of run 'aside' is over, the run is PARKED (Airflow run r1: a failed)"
        )
        assert "clear 'flights.open_run' as well" in message


def test_a_task_renews_the_lease_while_it_works(results):
    assert results["alive"] == [["str", "done"], []]


def test_a_line_of_the_log_names_each_step_and_each_publish(results):
    lines, branch, joined, published = results["logged"]
    run = "run 'logged'"
    assert [line for line in lines if "run 'logged'" in line.lower()] == [
        f"Step 'puts' of {run}, attempt 1: joined {branch} by commit {joined}",
        f"Step 'reads' of {run}, attempt 1: changed nothing: no commit",
        f"Run 'logged' is published: main is at commit {published}",
        f"Run 'logged' was published before: main is at commit {published}",
    ]


def test_a_task_without_a_run_is_refused(results):
    kind, message = results["without a run"]
    assert kind == "AirflowFailException"
    assert message.startswith("waits was called without a run")
    assert message.endswith("use `airflow dags test`")


def test_two_tasks_of_a_dag_that_open_one_run_are_refused(results):
    for (kind, message), other in zip(
        results["the same run"], ("graveler.open_run", "flights.open_run"), strict=True
    ):
        assert kind == "AirflowFailException"
        assert message.startswith(f"invalid-input: {other} opens run 'same r1' of repository")
        assert "group_id" in message


def test_runs_of_one_dag_with_own_names_or_lakes_are_opened(results):
    assert [kind for kind, _ in results["runs apart"]] == ["dict"] * 4
