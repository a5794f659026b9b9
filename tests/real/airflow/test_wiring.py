"""What `graveler_run` makes of a DAG: which tasks wait for which, and what it refuses."""

import pytest


@pytest.fixture(scope="module")
def results(home):
    return home.ask("wiring")


def shape(results, name):
    assert results[name]["refused"] == ""
    return results[name]["shape"]


def test_a_run_without_a_task_opens_merges_and_closes(results):
    assert shape(results, "empty") == {
        "open_run": [],
        "merge": ["open_run"],
        "close_run": ["merge", "open_run"],
    }


def test_the_merge_waits_for_the_last_tasks_and_allows_skips(results):
    assert shape(results, "chain") == {
        "open_run": [],
        "a": ["open_run"],
        "b": ["a", "open_run"],
        "merge": ["b"],
        "close_run": ["merge", "open_run"],
    }
    assert results["chain"]["rule"] == "none_failed"


def test_a_failure_hidden_by_a_later_task_stops_the_merge(
    results,
):
    assert shape(results, "hidden_inside")["merge"] == ["a", "clean"]


def test_no_task_of_the_block_may_have_failed_at_the_merge(results):
    assert results["hidden_inside"]["work"] == ["a", "clean"]
    assert results["gate_in_the_middle"]["work"] == ["a", "b", "early"]
    assert results["empty"]["work"] == []


def test_a_task_that_joins_branches_may_work_in_the_run(results):
    assert shape(results, "joined")["join"] == ["one", "two"]
    assert shape(results, "joined")["merge"] == ["join"]


def test_mapped_tasks_without_the_run_are_in_the_block(results):
    mapped = shape(results, "mapped_without_the_run")
    assert (mapped["first"], mapped["last"]) == (["open_run"], ["first"])
    assert mapped["merge"] == ["last"]


def test_a_gate_without_a_place_judges_last_as_does_the_merge(results):
    at_the_end = shape(results, "gates_at_the_end")
    assert at_the_end["tidy"] == at_the_end["no_duplicates"] == ["a", "b", "open_run"]
    assert at_the_end["merge"] == ["no_duplicates", "tidy"]
    assert results["gates_at_the_end"]["gates"] == ["named", "tidy", "no duplicates"]


def test_a_gate_in_the_middle_stays_and_is_judged_at_the_end(results):
    in_the_middle = shape(results, "gate_in_the_middle")
    assert in_the_middle["early"] == ["a", "open_run"]
    assert in_the_middle["b"] == ["early", "open_run"]
    assert results["gate_in_the_middle"]["gates"] == ["tidy"]


def test_a_gate_takes_options_of_gates_and_of_tasks(results):
    assert results["gate_options"]["more"] == ["gates", "output/", 10, "warn"]


def test_the_merge_waits_for_groups_and_mapped_tasks(results):
    assert shape(results, "groups_and_maps")["merge"] == ["solo", "work"]
    assert shape(results, "only_mapped")["merge"] == ["work"]


def test_a_task_may_work_in_two_runs(results):
    assert results["two_runs"]["refused"] == ""
    assert results["two_runs"]["shape"]["both"] == ["open_run", "open_run"]


def test_an_inner_run_publishes_before_the_outer_gates_judge(results):
    assert results["nested"]["refused"] == ""
    upstream = results["nested"]["more"]
    inner = "flights.weather."
    assert upstream[f"{inner}no_duplicates"] == [f"{inner}c", f"{inner}open_run"]
    assert upstream[f"{inner}merge"] == [f"{inner}no_duplicates"]
    assert upstream[f"{inner}tidy"] == [
        *("flights.a", "flights.d", "flights.open_run", f"{inner}merge"),
    ]
    assert upstream["flights.merge"] == [f"{inner}tidy"]


def test_every_run_is_closed_behind_its_merge(results):
    upstream = results["nested"]["more"]
    assert "flights.merge" in upstream["flights.close_run"]
    assert "flights.weather.merge" in upstream["flights.weather.close_run"]


def test_a_gate_that_others_wait_for_stays_before_them(results):
    assert shape(results, "gate_before_the_work")["tidy"] == ["open_run"]
    assert shape(results, "gate_before_the_work")["a"] == ["open_run", "tidy"]


def test_publishing_can_emit_an_asset_event_and_use_a_pool(results):
    assert results["asset"]["more"] == [["lake"], "one"]


def test_the_repository_may_be_the_connections(results):
    assert results["default_repository"]["more"] == [
        "graveler.close_run",
        "graveler.merge",
        "graveler.open_run",
        "graveler.work",
    ]


@pytest.mark.parametrize(
    ("name", "rule"), [("report_in_any_case", "all_done"), ("report_twice_removed", "one_failed")]
)
def test_a_task_that_hides_a_refusal_is_refused_at_parse(results, name, rule):
    refused = results[name]["refused"]
    assert refused.startswith(f"InvalidInputError: report (trigger_rule '{rule}')")
    assert "on_failure_callback" in refused


@pytest.mark.parametrize("name", ["report_beside_one_that_fails", "report_before_the_merge"])
def test_a_report_that_shows_the_failure_is_allowed(results, name):
    assert results[name]["refused"] == ""


@pytest.mark.parametrize(
    ("name", "merge"),
    [
        ("called_after_the_block", "flights.merge"),
        ("called_in_the_block_around", "flights.weather.merge"),
        ("teardown_outside", "flights.merge"),
    ],
)
def test_a_task_in_a_run_that_nothing_awaits_is_refused_at_parse(results, name, merge):
    refused = results[name]["refused"]
    assert refused.startswith("InvalidInputError: ")
    assert "late is called with the run of " in refused
    assert f"{merge} does not wait for it" in refused
    assert "inside the `with graveler_run(...)` block" in refused


@pytest.mark.parametrize("name", ["waited_for_by_hand", "told_after_the_merge"])
def test_a_task_with_the_run_outside_its_block_may_be_ordered(results, name):
    assert results[name]["refused"] == ""


@pytest.mark.parametrize("name", ["own_teardown", "teardown_as_context", "teardown_of_a_program"])
def test_the_merge_waits_for_a_teardown_that_has_the_run(results, name):
    assert shape(results, name)["merge"] == ["a", "stop"]
    assert "stop" not in shape(results, name)["open_run"]


@pytest.mark.parametrize(
    "name",
    [
        "teardown_by_template",
        "teardown_by_text_of_the_run",
        "teardown_by_argument",
        "mapped_teardown_by_template",
    ],
)
def test_the_merge_waits_for_a_teardown_with_the_run_by_text(results, name):
    assert shape(results, name)["merge"] == ["a", "stop"]
    assert "stop" not in shape(results, name)["open_run"]


def test_the_merge_does_not_wait_for_other_teardowns(results):
    assert shape(results, "teardown_by_template_of_another_run")["merge"] == ["a"]
    assert shape(results, "teardown_without_the_run")["merge"] == ["a"]
    assert shape(results, "setup_with_the_run")["merge"] == ["a"]


def test_a_setup_that_nothing_follows_is_refused_by_name(results):
    refused = results["only_a_setup"]["refused"]
    assert refused.startswith("InvalidInputError: flights.start is a setup that is given the run")


@pytest.mark.parametrize(
    "name",
    [
        "started_and_left",
        "many_started_and_left",
        "started_by_template_and_left",
        "many_started_by_template_and_left",
    ],
)
def test_a_dag_that_nothing_awaits_is_not_given_the_run(results, name):
    refused = results[name]["refused"]
    assert refused.startswith("InvalidInputError: flights.start is given the run")
    assert refused.endswith("set wait_for_completion=True")


@pytest.mark.parametrize("name", ["started_and_awaited", "started_without_the_run"])
def test_a_dag_that_is_awaited_or_has_no_run_may_start(results, name):
    assert shape(results, name)["merge"] == ["start"]


def test_the_first_tasks_may_have_rules_that_success_satisfies(results):
    assert shape(results, "first_rules")["merge"] == ["a", "b", "plain"]


def test_the_default_rule_of_a_dag_may_be_none_failed(results):
    assert set(results["by default"].values()) == {""}


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("first_rule_of_a_failure", "flights.a (trigger_rule 'one_failed')"),
        ("rule_before_the_opening", "flights.a (trigger_rule 'all_done')"),
        ("rule_after_the_block", "late (trigger_rule 'all_done')"),
    ],
)
def test_a_rule_that_airflow_refuses_is_named_with_its_task(results, name, says):
    refused = results[name]["refused"]
    assert refused.startswith(f"InvalidInputError: {says} waits for flights.open_run")


def test_a_dag_that_fails_fast_is_refused(results):
    assert results["fast"].startswith("InvalidInputError: DAG 'fast' has fail_fast")
    assert "leave it off" in results["fast"]


def test_an_argument_that_a_run_does_not_have_is_refused(results):
    assert results["unknown"].startswith("graveler_run() has no arguments ['queue']: give ['")
