"""What Airflow calls done, and what the run holds: brought together by its opening and its merge.

Airflow's side is played: a dictionary of states, one of XComs. `test_run_for_real` has the real one.
"""

import pytest


@pytest.fixture(scope="module")
def found(home):
    return home.ask("agreement")


def test_a_run_that_lost_half_of_its_work_is_not_published(found):
    (kind, message), main, state = found["dropped"]
    assert kind == "AirflowFailException"
    assert message.startswith("run-state: run 'dropped r1': the work of first is gone")
    assert message.endswith("'main' has not moved: clear the whole DAG run")
    assert (main, state) == ([], "REAPED")


def test_a_run_cleared_whole_is_published_and_remerging_is_done(found):
    assert found["dropped, cleared whole"] == ["published", ["a", "b"]]
    assert found["merged twice"] == ["published", ["a", "b"]]


def test_a_merge_after_a_rollback_does_not_publish_nothing(found):
    (kind, message), main = found["rolled back"]
    assert kind == "AirflowFailException"
    assert "the work of first, second is gone" in message
    assert main == []


def test_what_an_earlier_publish_left_on_the_target_is_found(found):
    assert found["published before"] == ["published", ["a", "c"]]
    assert found["only the merge again"] == ["published", ["a", "c"]]


def test_a_task_marked_successful_by_hand_lacks_nothing(found):
    assert found["marked success"] == ["published", ["a"]]


def test_a_new_attempt_begins_with_the_work_of_finished_tasks(found):
    assert found["to run again"] == ["a"]
    assert found["goes on"] == ["published", ["a", "c"]]


def test_work_of_tasks_that_left_the_dag_is_not_published(found):
    """Also where another task writes just what a skipped one had written before."""
    assert found["changed its mind"] == ["published", ["kept", "part-0", "part-1", "right", "same"]]


def test_a_task_that_skips_on_its_second_try_leaves_nothing(found):
    assert found["skips on its second try"] == ["published", ["b"]]


def test_steps_that_no_task_made_stay(found):
    assert found["steps of no task"] == ["published", ["b", "script"]]


def test_operators_that_write_report_steps_as_functions_do(found):
    assert found["told by an operator"] is True
    kind, message = found["operator's work gone"]
    assert kind == "AirflowFailException"
    assert "the work of delete is gone" in message


def test_the_instances_of_a_mapped_task_are_missed_one_by_one(found):
    kind, message = found["mapped"]
    assert kind == "AirflowFailException"
    assert "the work of part[0] is gone" in message
    assert found["who tells"] == [True, False]
