# mypy: ignore-errors
# Contexts and tasks replace Airflow's own types.
"""DAGs that use a run in right and wrong ways; prints the results of their parsing."""

import json
import warnings

warnings.filterwarnings("error", module="graveler")
from airflow.dag_processing.dagbag import DagBag
from airflow.providers.standard.operators.bash import BashOperator
from airflow.providers.standard.operators.trigger_dagrun import TriggerDagRunOperator
from airflow.sdk import DAG, Asset, TaskGroup, task

import graveler
from graveler_airflow import graveler_gate, graveler_run, step_env


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


def output(make, **default_args):
    try:
        with DAG(make.__name__, default_args=default_args) as dag:
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
            "work": sorted(task_id.rpartition(".")[2] for task_id in merge.work),
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


def mapped_without_the_run():
    with graveler_run("flights"):
        first = plain.override(task_id="first").expand_kwargs([{}, {}])
        first >> BashOperator.partial(task_id="last").expand(bash_command=["a", "b"])


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


def own_teardown():
    with graveler_run("flights") as run:
        first = plain.override(task_id="start")().as_setup()
        last = work.override(task_id="stop")(run).as_teardown(setups=first)
        first >> work.override(task_id="a")(run) >> last


def teardown_as_context():
    with graveler_run("flights") as run:
        first = plain.override(task_id="start")().as_setup()
        with work.override(task_id="stop")(run).as_teardown(setups=first):
            work.override(task_id="a")(run)


def teardown_of_a_program():
    with graveler_run("flights") as run:
        stop = BashOperator(task_id="stop", bash_command="./stop.sh", env=step_env(run))
        work.override(task_id="a")(run) >> stop.as_teardown()


def by_template(give):
    with graveler_run("flights") as run:
        stop = give("{{ ti.xcom_pull(task_ids='flights.open_run') }}")
        work.override(task_id="a")(run) >> stop.as_teardown()


def teardown_by_template():
    by_template(lambda text: BashOperator(task_id="stop", bash_command="s", env={"RUN": text}))


def teardown_by_text_of_the_run():
    with graveler_run("flights") as run:
        stop = BashOperator(task_id="stop", bash_command=f"./stop.sh {run}")
        work.override(task_id="a")(run) >> stop.as_teardown()


def teardown_by_argument():
    by_template(lambda text: plain.override(task_id="stop", templates_dict={"runs": [text]})())


def mapped_teardown_by_template():
    by_template(
        lambda text: BashOperator.partial(task_id="stop", bash_command="s").expand(
            env=[{"RUN": text}, {"RUN": ""}]
        )
    )


def teardown_by_template_of_another_run():
    text = "echo flights.open_run {{ ti.xcom_pull(task_ids='weather.open_run') }}"
    by_template(lambda _: BashOperator(task_id="stop", bash_command=text))


def teardown_without_the_run():
    with graveler_run("flights") as run:
        first = plain.override(task_id="start")().as_setup()
        last = plain.override(task_id="stop")().as_teardown(setups=first)
        first >> work.override(task_id="a")(run) >> last


def setup_with_the_run():
    with graveler_run("flights") as run:
        first = work.override(task_id="start")(run).as_setup()
        first >> work.override(task_id="a")(run)


def only_a_setup():
    with graveler_run("flights") as run:
        work.override(task_id="start")(run).as_setup()


def teardown_outside():
    with graveler_run("flights") as run:
        first = work.override(task_id="first")(run)
    first >> work.override(task_id="late")(run).as_teardown()


def triggers(**options):
    with graveler_run("flights") as run:
        TriggerDagRunOperator(task_id="start", trigger_dag_id="other", conf={"run": run}, **options)


def started_and_left():
    triggers()


def started_by_template_and_left():
    with graveler_run("flights"):
        conf = {"run": "{{ ti.xcom_pull(task_ids='flights.open_run') | tojson }}"}
        TriggerDagRunOperator(task_id="start", trigger_dag_id="other", conf=conf)


def many_started_by_template_and_left():
    with graveler_run("flights"):
        conf = {"run": "{{ ti.xcom_pull(task_ids=['flights.open_run'])[0] }}"}
        TriggerDagRunOperator.partial(task_id="start", trigger_dag_id="other").expand(conf=[conf])


def started_and_awaited():
    triggers(wait_for_completion=True)


def started_without_the_run():
    with graveler_run("flights"):
        TriggerDagRunOperator(task_id="start", trigger_dag_id="other")


def many_started_and_left():
    with graveler_run("flights") as run:
        TriggerDagRunOperator.partial(task_id="start", trigger_dag_id="other", conf=run).expand(
            trigger_run_id=["a", "b"]
        )


def first_rules():
    with graveler_run("flights") as run:
        work.override(task_id="a", trigger_rule="none_failed")(run)
        work.override(task_id="b", trigger_rule="all_done").partial(step=run).expand_kwargs([{}])
        tidy.override(task_id="c", trigger_rule="one_success")(run) >> plain()


def first_rule_of_a_failure():
    with graveler_run("flights") as run:
        work.override(task_id="a", trigger_rule="one_failed")(run)


def rule_before_the_opening():
    early = plain.override(task_id="early")()
    with graveler_run("flights") as run:
        early >> work.override(task_id="a", trigger_rule="all_done")(run)


def rule_after_the_block():
    with graveler_run("flights") as run:
        pass
    run.operator >> plain.override(task_id="late", trigger_rule="all_done")()


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
    mapped_without_the_run,
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
    own_teardown,
    teardown_as_context,
    teardown_of_a_program,
    teardown_by_template,
    teardown_by_text_of_the_run,
    teardown_by_argument,
    mapped_teardown_by_template,
    teardown_by_template_of_another_run,
    teardown_without_the_run,
    setup_with_the_run,
    only_a_setup,
    teardown_outside,
    started_and_left,
    started_by_template_and_left,
    many_started_by_template_and_left,
    started_and_awaited,
    started_without_the_run,
    many_started_and_left,
    first_rules,
    first_rule_of_a_failure,
    rule_before_the_opening,
    rule_after_the_block,
):
    output(make)

for make in (chain, hidden_inside, joined, gate_in_the_middle, groups_and_maps, two_runs, nested):
    name = make.__name__ = f"{make.__name__}_by_default"
    output(make, trigger_rule="none_failed")
    results.setdefault("by default", {})[name] = results[name]["refused"]

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
