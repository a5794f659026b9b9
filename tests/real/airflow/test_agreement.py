"""Airflow's states and the run's content are brought into agreement by the opening and the merge.

Airflow is simulated by two dictionaries, of states and of XComs. `test_run_for_real` runs Airflow.
"""

import pytest


@pytest.fixture(scope="module")
def results(home):
    return home.ask("agreement")


def test_a_run_that_lost_half_of_its_work_is_not_published(results):
    (kind, message), main, (_, end) = results["dropped"]
    assert kind == "AirflowFailException"
    assert message.startswith("run-state: run 'dropped r1': the work of first is gone")
    assert message.endswith("'main' has not moved: clear the whole DAG run")
    assert main == []
    assert "it is REAPED" in end


def test_a_run_cleared_whole_is_published_and_remerging_is_done(results):
    assert results["dropped, cleared whole"] == ["published", ["a", "b"]]
    assert results["merged twice"] == ["published", ["a", "b"]]


def test_a_merge_after_a_rollback_does_not_publish_nothing(results):
    (kind, message), main = results["rolled back"]
    assert kind == "AirflowFailException"
    assert "the work of first, second is gone" in message
    assert main == []


@pytest.mark.parametrize("how", ["rolled back", "undone"])
def test_the_end_of_a_run_says_what_its_target_has_now(results, how):
    _, message = results[f"{how}, closed"]
    assert "main did not move, main has nothing of it; " in message


def test_a_child_cleared_alone_names_the_dag_to_clear(results):
    kind, message = results["a child cleared alone"]
    assert kind == "AirflowFailException"
    assert "clear 'open_run' of DAG 'by-hand' as well, which opens the next attempt" in message


def test_what_an_earlier_publish_left_on_the_target_is_found(results):
    assert results["published before"] == ["published", ["a", "c"]]
    assert results["only the merge again"] == ["published", ["a", "c"]]


def test_a_task_marked_successful_by_hand_lacks_nothing(results):
    assert results["marked success"] == ["published", ["a"]]


@pytest.mark.parametrize(
    ("when", "tasks", "main"),
    [
        ("marked failed", "check is failed, first is failed, part[0] is upstream_failed", []),
        ("marked failed, published", "part[0] is failed", ["b"]),
    ],
)
def test_nothing_is_published_while_a_task_has_failed(results, when, tasks, main):
    """A user may mark a task as failed after it has succeeded, with or without files."""
    (kind, message), paths = results[when]
    assert kind == "AirflowFailException"
    assert f"Airflow shows that {tasks}: " in message
    assert paths == main


def test_a_failure_in_another_mapped_group_stops_no_merge(results):
    assert results["another group failed"] == ["published", ["b"]]


def test_a_failed_task_that_is_marked_again_decides(results):
    assert results["marked skipped"] == ["published", ["b"]]
    (kind, message), main = results["cleared, marked success"]
    assert kind == "AirflowFailException"
    assert "the work of part[0] is gone" in message
    assert main == ["b"]


def test_a_new_attempt_begins_with_the_work_of_finished_tasks(results):
    assert results["to run again"] == ["a"]
    assert results["goes on"] == ["published", ["a", "c"]]


def test_an_attempt_that_keeps_nothing_reads_the_present_target(results):
    assert results["cleared in part"] == ["a"]
    assert results["cleared whole"] == ["yesterday"]
    assert results["cleared whole, published"] == ["published", ["a", "b", "yesterday"]]


def test_work_of_tasks_that_left_the_dag_is_not_published(results):
    """This includes files that another task writes and a skipped task had written before."""
    assert results["changed its mind"] == [
        "published",
        ["kept", "part-0", "part-1", "right", "same"],
    ]


def test_a_task_that_skips_on_its_second_try_leaves_nothing(results):
    assert results["skips on its second try"] == ["published", ["b"]]


def test_steps_that_no_task_made_stay(results):
    assert results["steps of no task"] == ["published", ["b", "script"]]


def test_operators_that_write_report_steps_as_functions_do(results):
    assert results["told by an operator"] is True
    kind, message = results["operator's work gone"]
    assert kind == "AirflowFailException"
    assert "the work of delete is gone" in message


def test_the_instances_of_a_mapped_task_are_missed_one_by_one(results):
    kind, message = results["mapped"]
    assert kind == "AirflowFailException"
    assert "the work of part[0] is gone" in message


def test_a_second_dag_run_of_one_step_is_refused_by_name(results):
    kind, message = results["the second of one name"]
    assert kind == "AirflowFailException"
    assert message.startswith("already-exists: step 'child:load' of run 'same-names p1'")
    assert "'child c0-1'" in message
    assert "'child c1-1'" in message
    assert '"graveler_name": "north"' in message
    assert results["the first alone"] == ["published", ["north", "other", "parent"]]


def test_the_work_of_every_named_hand_over_is_published(results):
    published, steps = results["three children"]
    assert published == [
        "published",
        ["north", "north-0", "other", "other-0", "south", "south-0"],
    ]
    assert steps == [
        *("child north:load", "child north:part[0]", "child south:load", "child south:part[0]"),
        *("other:load", "other:part[0]"),
    ]


def test_the_lost_work_of_a_child_dag_is_missed(results):
    kind, message = results["a child's work is gone"]
    assert kind == "AirflowFailException"
    assert "the work of child north:load, other:load is gone" in message
    assert results["a child takes no part"] == ["published", ["north", "south"]]


def test_a_new_attempt_replaces_the_work_of_child_dags(results):
    assert results["before the second attempt"] == ["north"]
    assert results["a new attempt replaces"] == ["published", ["north", "south again"]]


def test_each_attempt_has_a_name_for_the_dag_runs_it_starts(results):
    attempts = results["attempts"]
    assert [name.rpartition(".")[2] for name in attempts] == ["1", "2", "3"]
    assert {name.rpartition(".")[0].rpartition("-")[0] for name in attempts} == {"run-kept-p1"}


def test_a_child_that_failed_leaves_its_name_to_the_next(results):
    assert results["a child that fails"] == "ValueError"
    assert results["its name is free"] == ["published", ["south"]]


def test_the_lost_work_of_a_program_is_missed(results):
    kind, message = results["a program's work is gone"]
    assert kind == "AirflowFailException"
    assert "the work of first is gone" in message


def test_the_run_of_another_deployment_is_refused(results):
    kind, message = results["another deployment"]
    assert kind == "AirflowFailException"
    assert message.startswith(
        "run-state: run 'deployments r1' of repository 'deployments' is PUBLISHED"
    )
    assert "deployment 'programs' of Airflow has opened it; this is 'staging'" in message
    assert "[graveler] deployment = programs, or open this run with take_over=True" in message
    assert results["nothing moved"] is True
    assert results["taken over"] == "published"
    assert "deployment 'staging'" in results["the first one"]


def test_two_first_tasks_agree_on_the_id_of_their_deployment(results):
    assert len(set(results["the ids of two first"])) == 1
    assert results["set"] == 1


def test_a_first_task_without_the_turn_waits_for_the_other_one(results):
    assert results["the id without the turn"] == ["of the slow one", 1]


def test_a_copied_database_has_the_id_of_the_original_or_its_own(results):
    (first, _) = results["the ids of two first"]
    assert results["the id of a copy"] == first
    assert results["the id of a copy with a setting"] == "staging"
    assert results["the id of a copy without the Variable"] not in (first, "staging", "")


@pytest.mark.parametrize(
    "how", ["published", "abandoned", "given up", "rolled back, given up", "skipped"]
)
def test_a_run_that_depends_on_the_past_opens_after_its_end(results, how):
    assert results["past"][how][0] == "published"


@pytest.mark.parametrize("how", ["open", "cleared", "rolled back, cleared"])
def test_a_run_that_depends_on_the_past_waits_for_the_publish(results, how):
    assert results["past"][how][0] == "AirflowRescheduleException"


@pytest.mark.parametrize("how", ["dead", "parked", "dropped"])
def test_an_unpublished_run_before_fails_it_by_name(results, how):
    kind, message = results["past"][how]
    assert kind == "AirflowFailException"
    assert "this run depends on the past, and run 'past r1' before it is" in message
    assert "clear the failed tasks of DAG run 'r1'" in message
    assert "`graveler run abandon 'past r1'`" in message


@pytest.mark.parametrize("how", ["undone", "rolled back", "reverted"])
def test_a_run_before_that_the_target_has_lost_fails_it(results, how):
    kind, message = results["past"][how]
    assert kind == "AirflowFailException"
    assert "depends on the past, and 'main' no longer has what run 'past r1' published" in message
    assert "clear DAG run 'r1'" in message
    assert "`graveler run open 'past r1'` and `graveler run abandon 'past r1'`" in message
