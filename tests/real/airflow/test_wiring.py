"""What `graveler_run` makes of a DAG: who waits for whom, and what it refuses."""

import pytest

PROGRAM = """
import json, warnings
warnings.filterwarnings("error", module="graveler")
from airflow.dag_processing.dagbag import DagBag
from airflow.sdk import DAG, Asset, TaskGroup, task
import graveler
from graveler_airflow import graveler_gate, graveler_run

@task.graveler
def work(step): pass

@task
def plain(): pass

@task.branch
def choose(): return "never"

@graveler_gate(prefix="output/", pool="gates", timeout=10)
def tidy(candidate): return True

@graveler_gate("no duplicates", severity="warn")
def unique(candidate): return True

@graveler.gate
def named(candidate): return True

bag = DagBag("/dev/null", collect_dags=False)
found = {}

def shape(dag):
    return {
        task.task_id.rpartition(".")[2]: sorted(up.rpartition(".")[2] for up in task.upstream_task_ids)
        for task in dag.tasks
    }

def said(make):
    try:
        with DAG(make.__name__) as dag:
            more = make()
        dag.validate()
        bag.bag_dag(dag)
        merge = next((task for task in dag.tasks if task.task_id.endswith("merge")), None)
        found[make.__name__] = {
            "shape": shape(dag), "more": more, "refused": "",
            "rule": merge.trigger_rule.value, "gates": [gate.name for gate in merge.gates],
        }
    except Exception as error:
        found[make.__name__] = {"refused": f"{type(error).__name__}: {error}"}

def empty():
    with graveler_run("flights"):
        pass

def chain():
    with graveler_run("flights") as run:
        work.override(task_id="a")(run) >> work.override(task_id="b")(run)

def hidden_inside():
    with graveler_run("flights") as run:
        work.override(task_id="a")(run) >> plain.override(task_id="clean", trigger_rule="all_done")()

def joined():
    with graveler_run("flights") as run:
        one, two = work.override(task_id="one")(run), work.override(task_id="two")(run)
        choose() >> [one, two] >> work.override(
            task_id="join", trigger_rule="none_failed_min_one_success")(run)

def gates_at_the_end():
    with graveler_run("flights", gates=[named]) as run:
        work.override(task_id="a")(run)
        tidy(run)
        unique(run)
        work.override(task_id="b")(run)

def gate_in_the_middle():
    with graveler_run("flights", gates=[tidy]) as run:
        work.override(task_id="a")(run) >> tidy.override(task_id="early")(run) \
            >> work.override(task_id="b")(run)

def gate_options():
    with graveler_run("flights") as run:
        work.override(task_id="a")(run)
        made = tidy(run).operator
    return [made.pool, made.gates[0].prefix, made.gates[0].timeout, tidy.override(severity="warn").severity]

def groups_and_maps():
    with graveler_run("flights") as run:
        with TaskGroup("inner"):
            work.partial(step=run).expand_kwargs([{}, {}])
            work.override(task_id="solo")(run)

def only_mapped():
    with graveler_run("flights") as run:
        work.partial(step=run).expand_kwargs([{}, {}])

def two_runs():
    with graveler_run("flights") as run, graveler_run("weather") as other:
        @task.graveler
        def both(one, two): pass
        both(run, other)

def nested():
    with graveler_run("flights") as run:
        work.override(task_id="a")(run)
        with graveler_run("weather") as other:
            work.override(task_id="b")(run) >> work.override(task_id="c")(other)
            tidy(run)
            unique(other)
        work.override(task_id="d")(run)
    return {name: sorted(task.upstream_task_ids) for name, task in run.operator.dag.task_dict.items()}

def gate_before_the_work():
    with graveler_run("flights") as run:
        tidy(run) >> work.override(task_id="a")(run)

def asset():
    with graveler_run("flights", asset=Asset("lake", uri="s3://lake/main"), pool="one") as run:
        work(run)
    merge = run.operator.dag.get_task("flights.merge")
    return [[outlet.name for outlet in merge.outlets], merge.pool]

def default_repository():
    with graveler_run() as run:
        work(run)
    return sorted(run.operator.dag.task_dict)

def outside(**options):
    with graveler_run("flights") as run:
        work(run)
    merge = run.operator.dag.get_task("flights.merge")
    return merge, lambda name, rule="all_success": plain.override(task_id=name, trigger_rule=rule)()

def report_in_any_case():
    merge, after = outside()
    merge >> after("report", "all_done")

def report_twice_removed():
    merge, after = outside()
    merge >> [after("x"), after("y")] >> after("z") >> after("report", "one_failed")

def report_beside_one_that_fails():
    merge, after = outside()
    merge >> after("report", "all_done")
    merge >> after("next")

def report_before_the_merge():
    merge, after = outside()
    merge.dag.get_task("flights.work") >> after("report", "all_done")

def called_after_the_block():
    with graveler_run("flights") as run:
        first = work.override(task_id="first")(run)
    first >> work.override(task_id="late")(run)

def called_in_the_block_around():
    with graveler_run("flights"):
        with graveler_run("weather") as run:
            pass
        work.override(task_id="late")(run)

def waited_for_by_hand():
    with graveler_run("flights") as run:
        pass
    work.override(task_id="late")(run) >> run.operator.dag.get_task("flights.merge")

def told_after_the_merge():
    with graveler_run("flights") as run:
        work.override(task_id="first")(run)
    @task
    def tell(run): pass
    run.operator.dag.get_task("flights.merge") >> tell(run)

for make in (empty, chain, hidden_inside, joined, gates_at_the_end, gate_in_the_middle, gate_options,
             groups_and_maps, only_mapped, two_runs, nested, gate_before_the_work, asset, default_repository, report_in_any_case,
             report_twice_removed, report_beside_one_that_fails, report_before_the_merge,
             called_after_the_block, called_in_the_block_around, waited_for_by_hand,
             told_after_the_merge):
    said(make)

try:
    with DAG("fast", fail_fast=True), graveler_run("flights") as run:
        work(run)
except Exception as error:
    found["fast"] = f"{type(error).__name__}: {error}"
print(json.dumps(found))
"""


@pytest.fixture(scope="module")
def found(home):
    return home.ask(PROGRAM)


def shape(found, name):
    assert found[name]["refused"] == ""
    return found[name]["shape"]


def test_a_run_without_a_task_opens_merges_and_closes(found):
    assert shape(found, "empty") == {
        "open_run": [],
        "merge": ["open_run"],
        "close_run": ["merge", "open_run"],
    }


def test_the_merge_waits_for_the_last_tasks_and_allows_skips(found):
    assert shape(found, "chain") == {
        "open_run": [],
        "a": ["open_run"],
        "b": ["a", "open_run"],
        "merge": ["b"],
        "close_run": ["merge", "open_run"],
    }
    assert found["chain"]["rule"] == "none_failed"


def test_a_failure_hidden_by_a_later_task_stops_the_merge(
    found,
):
    assert shape(found, "hidden_inside")["merge"] == ["a", "clean"]


def test_a_task_that_joins_branches_may_work_in_the_run(found):
    assert shape(found, "joined")["join"] == ["one", "two"]
    assert shape(found, "joined")["merge"] == ["join"]


def test_a_gate_without_a_place_judges_last_as_does_the_merge(found):
    at_the_end = shape(found, "gates_at_the_end")
    assert at_the_end["tidy"] == at_the_end["no_duplicates"] == ["a", "b", "open_run"]
    assert at_the_end["merge"] == ["no_duplicates", "tidy"]
    assert found["gates_at_the_end"]["gates"] == ["named", "tidy", "no duplicates"]


def test_a_gate_in_the_middle_stays_and_is_judged_at_the_end(found):
    in_the_middle = shape(found, "gate_in_the_middle")
    assert in_the_middle["early"] == ["a", "open_run"]
    assert in_the_middle["b"] == ["early", "open_run"]
    assert found["gate_in_the_middle"]["gates"] == ["tidy"]


def test_a_gate_takes_options_of_gates_and_of_tasks(found):
    assert found["gate_options"]["more"] == ["gates", "output/", 10, "warn"]


def test_the_merge_waits_for_groups_and_mapped_tasks(found):
    assert shape(found, "groups_and_maps")["merge"] == ["solo", "work"]
    assert shape(found, "only_mapped")["merge"] == ["work"]


def test_a_task_may_work_in_two_runs(found):
    assert found["two_runs"]["refused"] == ""
    assert found["two_runs"]["shape"]["both"] == ["open_run", "open_run"]


def test_an_inner_run_publishes_before_the_outer_gates_judge(found):
    assert found["nested"]["refused"] == ""
    upstream = found["nested"]["more"]
    inner = "flights.weather."
    assert upstream[f"{inner}no_duplicates"] == [f"{inner}c", f"{inner}open_run"]
    assert upstream[f"{inner}merge"] == [f"{inner}no_duplicates"]
    assert upstream[f"{inner}tidy"] == [
        *("flights.a", "flights.d", "flights.open_run", f"{inner}merge"),
    ]
    assert upstream["flights.merge"] == [f"{inner}tidy"]


def test_every_run_is_closed_behind_its_merge(found):
    upstream = found["nested"]["more"]
    assert "flights.merge" in upstream["flights.close_run"]
    assert "flights.weather.merge" in upstream["flights.weather.close_run"]


def test_a_gate_that_others_wait_for_stays_before_them(found):
    assert shape(found, "gate_before_the_work")["tidy"] == ["open_run"]
    assert shape(found, "gate_before_the_work")["a"] == ["open_run", "tidy"]


def test_publishing_can_emit_an_asset_event_and_use_a_pool(found):
    assert found["asset"]["more"] == [["lake"], "one"]


def test_the_repository_may_be_the_connections(found):
    assert found["default_repository"]["more"] == [
        "graveler.close_run",
        "graveler.merge",
        "graveler.open_run",
        "graveler.work",
    ]


@pytest.mark.parametrize(
    ("name", "rule"), [("report_in_any_case", "all_done"), ("report_twice_removed", "one_failed")]
)
def test_a_task_that_hides_a_refusal_is_refused_at_parse(found, name, rule):
    refused = found[name]["refused"]
    assert refused.startswith(f"InvalidInputError: report (trigger_rule '{rule}')")
    assert "on_failure_callback" in refused


@pytest.mark.parametrize("name", ["report_beside_one_that_fails", "report_before_the_merge"])
def test_a_report_that_shows_the_failure_is_allowed(found, name):
    assert found[name]["refused"] == ""


@pytest.mark.parametrize(
    ("name", "merge"),
    [
        ("called_after_the_block", "flights.merge"),
        ("called_in_the_block_around", "flights.weather.merge"),
    ],
)
def test_a_task_in_a_run_that_nothing_awaits_is_refused_at_parse(found, name, merge):
    refused = found[name]["refused"]
    assert refused.startswith("InvalidInputError: ")
    assert "late is called with the run of " in refused
    assert f"{merge} does not wait for it" in refused
    assert "inside the `with graveler_run(...)` block" in refused


@pytest.mark.parametrize("name", ["waited_for_by_hand", "told_after_the_merge"])
def test_a_task_with_the_run_outside_its_block_may_be_ordered(found, name):
    assert found[name]["refused"] == ""


def test_a_dag_that_fails_fast_is_refused(found):
    assert found["fast"].startswith("InvalidInputError: DAG 'fast' has fail_fast")
    assert "leave it off" in found["fast"]
