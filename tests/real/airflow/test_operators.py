"""The operators by themselves, called twice, late and with what is stale."""

import pytest


@pytest.fixture(scope="module")
def found(home):
    return home.ask("operators")


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
