# mypy: ignore-errors
# Contexts and tasks replace Airflow's own types.
"""DAGs that use a run in right and wrong ways; prints the results of their parsing."""

import json
import warnings

warnings.filterwarnings("error", module="graveler")
from airflow.dag_processing.dagbag import DagBag
from airflow.sdk import DAG, Asset, TaskGroup, task

import graveler
from graveler_airflow import graveler_gate, graveler_run


@task.graveler
def work(step):
    pass


@task
def plain():
    pass


@task.branch
def choose():
    return "never"


@graveler_gate(prefix="output/", pool="gates", timeout=10)
def tidy(candidate):
    return True


@graveler_gate("no duplicates", severity="warn")
def unique(candidate):
    return True


@graveler.gate
def named(candidate):
    return True


bag = DagBag("/dev/null", collect_dags=False)
results = {}


def shape(dag):
    return {
        task.task_id.rpartition(".")[2]: sorted(
            up.rpartition(".")[2] for up in task.upstream_task_ids
        )
        for task in dag.tasks
    }


def output(make):
    try:
        with DAG(make.__name__) as dag:
            more = make()
        dag.validate()
        bag.bag_dag(dag)
        merge = next((task for task in dag.tasks if task.task_id.endswith("merge")), None)
        results[make.__name__] = {
            "shape": shape(dag),
            "more": more,
            "refused": "",
            "rule": merge.trigger_rule.value,
            "gates": [gate.name for gate in merge.gates],
        }
    except Exception as error:
        results[make.__name__] = {"refused": f"{type(error).__name__}: {error}"}


def empty():
    with graveler_run("flights"):
        pass


def chain():
    with graveler_run("flights") as run:
        work.override(task_id="a")(run) >> work.override(task_id="b")(run)


def hidden_inside():
    with graveler_run("flights") as run:
        (
            work.override(task_id="a")(run)
            >> plain.override(task_id="clean", trigger_rule="all_done")()
        )


def joined():
    with graveler_run("flights") as run:
        one, two = work.override(task_id="one")(run), work.override(task_id="two")(run)
        (
            choose()
            >> [one, two]
            >> work.override(task_id="join", trigger_rule="none_failed_min_one_success")(run)
        )


def gates_at_the_end():
    with graveler_run("flights", gates=[named]) as run:
        work.override(task_id="a")(run)
        tidy(run)
        unique(run)
        work.override(task_id="b")(run)


def gate_in_the_middle():
    with graveler_run("flights", gates=[tidy]) as run:
        (
            work.override(task_id="a")(run)
            >> tidy.override(task_id="early")(run)
            >> work.override(task_id="b")(run)
        )


def gate_options():
    with graveler_run("flights") as run:
        work.override(task_id="a")(run)
        made = tidy(run).operator
    return [
        made.pool,
        made.gates[0].prefix,
        made.gates[0].timeout,
        tidy.override(severity="warn").severity,
    ]


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
        def both(one, two):
            pass

        both(run, other)


def nested():
    with graveler_run("flights") as run:
        work.override(task_id="a")(run)
        with graveler_run("weather") as other:
            work.override(task_id="b")(run) >> work.override(task_id="c")(other)
            tidy(run)
            unique(other)
        work.override(task_id="d")(run)
    return {
        name: sorted(task.upstream_task_ids) for name, task in run.operator.dag.task_dict.items()
    }


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
    def tell(run):
        pass

    run.operator.dag.get_task("flights.merge") >> tell(run)


for make in (
    empty,
    chain,
    hidden_inside,
    joined,
    gates_at_the_end,
    gate_in_the_middle,
    gate_options,
    groups_and_maps,
    only_mapped,
    two_runs,
    nested,
    gate_before_the_work,
    asset,
    default_repository,
    report_in_any_case,
    report_twice_removed,
    report_beside_one_that_fails,
    report_before_the_merge,
    called_after_the_block,
    called_in_the_block_around,
    waited_for_by_hand,
    told_after_the_merge,
):
    output(make)

try:
    with DAG("fast", fail_fast=True), graveler_run("flights") as run:
        work(run)
except Exception as error:
    results["fast"] = f"{type(error).__name__}: {error}"
try:
    with DAG("unknown"), graveler_run("flights", queue="large") as run:
        work(run)
except TypeError as error:
    results["unknown"] = str(error)
print(json.dumps(results))
