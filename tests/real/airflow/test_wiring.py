# mypy: ignore-errors
"""What `graveler_run` makes of a DAG: which tasks wait for which, and what it refuses."""

import re
from contextlib import contextmanager
from datetime import timedelta

import pytest
from airflow.dag_processing.dagbag import DagBag
from airflow.providers.standard.operators.bash import BashOperator
from airflow.providers.standard.operators.trigger_dagrun import TriggerDagRunOperator
from airflow.sdk import (
    DAG,
    Asset,
    AssetAlias,
    AssetOrTimeSchedule,
    CronTriggerTimetable,
    MultipleCronTriggerTimetable,
    TaskGroup,
    task,
)

import graveler
from graveler.errors import InvalidInputError
from graveler_airflow import (
    graveler_asset,
    graveler_gate,
    graveler_partitions,
    graveler_run,
    hourly,
    step_env,
)
from graveler_airflow.dag.context import is_finer_than_hours


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


def do(name, run, **options):
    """A task that works in the run."""
    return work.override(task_id=name, **options)(run)


def other(name, **options):
    """A task that has no run."""
    return plain.override(task_id=name, **options)()


@contextmanager
def parsed(dag_id="parsed", **terms):
    """A DAG of a file that Airflow accepts; otherwise it raises."""
    with DAG(dag_id, **terms) as dag:
        yield dag
    dag.validate()
    DagBag("/dev/null", collect_dags=False).bag_dag(dag)


def up(dag, name):
    """Return the tasks before a task, without their groups."""
    (found,) = [task for task in dag.tasks if task.task_id.rpartition(".")[2] == name]
    return sorted(before.rpartition(".")[2] for before in found.upstream_task_ids)


def merge_of(dag):
    return dag.get_task("flights.merge")


def test_a_run_without_a_task_opens_merges_and_closes():
    with parsed() as dag, graveler_run("flights"):
        pass
    names = ("open_run", "merge", "close_run")
    assert [up(dag, name) for name in names] == [[], ["open_run"], ["merge", "open_run"]]
    assert list(merge_of(dag).work) == []


def test_the_merge_waits_for_the_last_tasks_and_allows_skips():
    with parsed() as dag, graveler_run("flights") as run:
        do("a", run) >> do("b", run)
    assert [up(dag, name) for name in ("a", "b")] == [["open_run"], ["a", "open_run"]]
    assert up(dag, "merge") == ["b"]
    assert merge_of(dag).trigger_rule.value == "none_failed"


def test_a_failure_hidden_by_a_later_task_stops_the_merge():
    with parsed() as dag, graveler_run("flights") as run:
        do("a", run) >> other("clean", trigger_rule="all_done")
    assert up(dag, "merge") == ["a", "clean"]
    assert sorted(merge_of(dag).work) == ["flights.a", "flights.clean"]


def test_a_task_that_joins_branches_may_work_in_the_run():
    with parsed() as dag, graveler_run("flights") as run:
        either = [do("one", run), do("two", run)]
        choose() >> either >> do("join", run, trigger_rule="none_failed_min_one_success")
    assert up(dag, "join") == ["one", "two"]
    assert up(dag, "merge") == ["join"]


def test_mapped_tasks_without_the_run_are_in_the_block():
    with parsed() as dag, graveler_run("flights"):
        first = plain.override(task_id="first").expand_kwargs([{}, {}])
        first >> BashOperator.partial(task_id="last").expand(bash_command=["a", "b"])
    assert [up(dag, name) for name in ("first", "last", "merge")] == [
        ["open_run"],
        ["first"],
        ["last"],
    ]


def test_a_gate_without_a_place_judges_last_as_does_the_merge():
    with parsed() as dag, graveler_run("flights", gates=[named]) as run:
        do("a", run)
        tidy(run)
        unique(run)
        do("b", run)
    assert up(dag, "tidy") == up(dag, "no_duplicates") == ["a", "b", "open_run"]
    assert up(dag, "merge") == ["no_duplicates", "tidy"]
    assert [gate.name for gate in merge_of(dag).gates] == ["named", "tidy", "no duplicates"]


def test_a_gate_in_the_middle_stays_and_is_judged_at_the_end():
    with parsed() as dag, graveler_run("flights", gates=[tidy]) as run:
        do("a", run) >> tidy.override(task_id="early")(run) >> do("b", run)
    assert up(dag, "early") == ["a", "open_run"]
    assert up(dag, "b") == ["early", "open_run"]
    assert [gate.name for gate in merge_of(dag).gates] == ["tidy"]
    assert sorted(merge_of(dag).work) == ["flights.a", "flights.b", "flights.early"]


def test_a_gate_that_others_wait_for_stays_before_them():
    with parsed() as dag, graveler_run("flights") as run:
        tidy(run) >> do("a", run)
    assert [up(dag, name) for name in ("tidy", "a")] == [["open_run"], ["open_run", "tidy"]]


def test_a_gate_takes_options_of_gates_and_of_tasks():
    with parsed(), graveler_run("flights") as run:
        made = tidy(run).operator
    assert (made.pool, made.gates[0].prefix, made.gates[0].timeout) == ("gates", "output/", 10)
    assert tidy.override(severity="warn").severity == "warn"


def test_the_merge_waits_for_groups_and_mapped_tasks():
    with parsed() as dag, graveler_run("flights") as run, TaskGroup("inner"):
        work.partial(step=run).expand_kwargs([{}, {}])
        do("solo", run)
    assert up(dag, "merge") == ["solo", "work"]


def test_two_runs_have_tasks_of_their_own_and_may_share_one():
    with parsed() as dag, graveler_run("flights") as run, graveler_run("weather") as second:

        @task.graveler
        def both(one, two):
            pass

        both(run, second)
    assert up(dag, "both") == ["open_run", "open_run"]
    names = ("open_run", "merge", "close_run")
    assert {f"flights.{name}" for name in names} <= dag.task_dict.keys()
    assert {f"flights.weather.{name}" for name in names} <= dag.task_dict.keys()


def test_an_inner_run_publishes_before_the_outer_gates_judge():
    with parsed() as dag, graveler_run("flights") as run:
        do("a", run)
        with graveler_run("weather") as inner:
            do("b", run) >> do("c", inner)
            tidy(run)
            unique(inner)
        do("d", run)
    waits = {name: sorted(task.upstream_task_ids) for name, task in dag.task_dict.items()}
    weather = "flights.weather."
    assert waits[f"{weather}no_duplicates"] == [f"{weather}c", f"{weather}open_run"]
    assert waits[f"{weather}merge"] == [f"{weather}no_duplicates"]
    outer = ["flights.a", "flights.d", "flights.open_run", f"{weather}merge"]
    assert waits[f"{weather}tidy"] == outer
    assert waits["flights.merge"] == [f"{weather}tidy"]
    assert "flights.merge" in waits["flights.close_run"]
    assert f"{weather}merge" in waits[f"{weather}close_run"]


def test_publishing_can_emit_an_asset_event_and_use_a_pool():
    lake = Asset("lake", uri="s3://lake/main")
    emitted = {lake, AssetAlias("2")}
    with parsed() as dag, graveler_run("flights", asset=emitted, pool="one") as run:
        do("a", run)
    merge = merge_of(dag)
    assert ({outlet.name for outlet in merge.outlets}, merge.pool) == ({"lake", "2"}, "one")


def test_the_repository_may_be_the_connections():
    with parsed() as dag, graveler_run() as run:
        do("work", run)
    assert {*dag.task_dict} == {f"graveler.{n}" for n in ("close_run", "merge", "open_run", "work")}


def outside():
    """A run with one task; return its merge."""
    with graveler_run("flights") as run:
        do("work", run)
    return run.operator.dag.get_task("flights.merge")


def report(rule):
    return other("report", trigger_rule=rule)


@pytest.mark.parametrize("rule", ["all_done", "one_failed"])
def test_a_task_that_hides_a_refusal_is_refused_at_parse(rule):
    said = re.escape(f"report (trigger_rule '{rule}')") + ".*on_failure_callback"
    with pytest.raises(InvalidInputError, match=said), parsed():
        first = outside()
        if rule == "one_failed":
            first >> [other("x"), other("y")] >> other("z") >> report(rule)
        else:
            first >> report(rule)


def test_a_report_that_shows_the_failure_is_allowed():
    with parsed():
        merge = outside()
        merge >> report("all_done")
        merge >> other("next")
    with parsed():
        outside().dag.get_task("flights.work") >> report("all_done")


def called_after_the_block():
    with graveler_run("flights") as run:
        first = do("first", run)
    first >> do("late", run)


def called_in_the_block_around():
    with graveler_run("flights"):
        with graveler_run("weather") as run:
            pass
        do("late", run)


def teardown_outside():
    with graveler_run("flights") as run:
        first = do("first", run)
    first >> do("late", run).as_teardown()


@pytest.mark.parametrize(
    ("make", "merge"),
    [
        (called_after_the_block, "flights.merge"),
        (called_in_the_block_around, "flights.weather.merge"),
        (teardown_outside, "flights.merge"),
    ],
)
def test_a_task_in_a_run_that_nothing_awaits_is_refused_at_parse(make, merge):
    said = f"late is called with the run of .*{merge} does not wait for it.*inside the `with"
    with pytest.raises(InvalidInputError, match=said), parsed():
        make()


def test_a_task_with_the_run_outside_its_block_may_be_ordered():
    with parsed():
        with graveler_run("flights") as run:
            pass
        do("late", run) >> run.operator.dag.get_task("flights.merge")

    @task
    def tell(run):
        pass

    with parsed():
        with graveler_run("flights") as run:
            do("first", run)
        run.operator.dag.get_task("flights.merge") >> tell(run)


def bash(**given):
    return BashOperator(task_id="stop", **{"bash_command": "./stop.sh", **given})


PULLED = "{{ ti.xcom_pull(task_ids='flights.open_run') }}"
TEARDOWNS = {
    "a task": lambda run: do("stop", run),
    "a program": lambda run: bash(env=step_env(run)),
    "a template": lambda run: bash(env={"RUN": PULLED}),
    "the run as text": lambda run: bash(bash_command=f"./stop.sh {run}"),
    "an argument": lambda run: other("stop", templates_dict={"runs": [PULLED]}),
    "mapped": lambda run: BashOperator.partial(task_id="stop", bash_command="s").expand(
        env=[{"RUN": PULLED}, {"RUN": ""}]
    ),
}


@pytest.mark.parametrize("given", TEARDOWNS)
def test_the_merge_waits_for_a_teardown_that_has_the_run(given):
    with parsed() as dag, graveler_run("flights") as run:
        stop = TEARDOWNS[given](run)
        do("a", run) >> stop.as_teardown()
    assert up(dag, "merge") == ["a", "stop"]
    assert "stop" not in up(dag, "open_run")


def test_the_merge_waits_for_a_teardown_that_is_a_context():
    with parsed() as dag, graveler_run("flights") as run:
        first = other("start").as_setup()
        with do("stop", run).as_teardown(setups=first):
            do("a", run)
    assert up(dag, "merge") == ["a", "stop"]


def test_the_merge_does_not_wait_for_other_teardowns():
    elsewhere = "echo flights.open_run {{ ti.xcom_pull(task_ids='weather.open_run') }}"
    for make in (lambda: bash(bash_command=elsewhere), lambda: other("stop")):
        with parsed() as dag, graveler_run("flights") as run:
            do("a", run) >> make().as_teardown()
        assert up(dag, "merge") == ["a"]
    with parsed() as dag, graveler_run("flights") as run:
        do("start", run).as_setup() >> do("a", run)
    assert up(dag, "merge") == ["a"]


def test_a_setup_that_nothing_follows_is_refused_by_name():
    said = "flights.start is a setup that is given the run"
    with pytest.raises(InvalidInputError, match=said), parsed(), graveler_run("flights") as run:
        do("start", run).as_setup()


TEMPLATE = "{{ ti.xcom_pull(task_ids=['flights.open_run'])[0] }}"
STARTING = {"task_id": "start", "trigger_dag_id": "other"}
LEFT = {
    "one": lambda run: TriggerDagRunOperator(**STARTING, conf={"run": run}),
    "one by a template": lambda run: TriggerDagRunOperator(**STARTING, conf={"run": TEMPLATE}),
    "many": lambda run: TriggerDagRunOperator.partial(**STARTING, conf=run).expand(
        trigger_run_id=["a", "b"]
    ),
    "many by a template": lambda run: TriggerDagRunOperator.partial(**STARTING).expand(
        conf=[{"run": TEMPLATE}]
    ),
}


@pytest.mark.parametrize("started", LEFT)
def test_a_dag_that_nothing_awaits_is_not_given_the_run(started):
    said = "flights.start is given the run.*set wait_for_completion=True$"
    with pytest.raises(InvalidInputError, match=said), parsed(), graveler_run("flights") as run:
        LEFT[started](run)


def test_a_dag_that_is_awaited_or_has_no_run_may_start():
    for given in ({"wait_for_completion": True}, {}):
        with parsed() as dag, graveler_run("flights") as run:
            TriggerDagRunOperator(**STARTING, conf={"run": run} if given else None, **given)
        assert up(dag, "merge") == ["start"]


def test_the_first_tasks_may_have_rules_that_success_satisfies():
    with parsed() as dag, graveler_run("flights") as run:
        do("a", run, trigger_rule="none_failed")
        work.override(task_id="b", trigger_rule="all_done").partial(step=run).expand_kwargs([{}])
        tidy.override(task_id="c", trigger_rule="one_success")(run) >> plain()
    assert up(dag, "merge") == ["a", "b", "plain"]


def test_the_default_rule_of_a_dag_may_be_none_failed():
    with parsed(default_args={"trigger_rule": "none_failed"}), graveler_run("flights") as run:
        do("a", run) >> do("b", run) >> tidy.override(task_id="early")(run) >> do("c", run)
        other("clean", trigger_rule="all_done")
        with graveler_run("weather") as inner, TaskGroup("inner"):
            work.partial(step=inner).expand_kwargs([{}, {}])


def first_rule_of_a_failure():
    with graveler_run("flights") as run:
        do("a", run, trigger_rule="one_failed")


def rule_before_the_opening():
    early = other("early")
    with graveler_run("flights") as run:
        early >> do("a", run, trigger_rule="all_done")


def rule_after_the_block():
    with graveler_run("flights") as run:
        pass
    run.operator >> other("late", trigger_rule="all_done")


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (first_rule_of_a_failure, "flights.a (trigger_rule 'one_failed')"),
        (rule_before_the_opening, "flights.a (trigger_rule 'all_done')"),
        (rule_after_the_block, "late (trigger_rule 'all_done')"),
    ],
)
def test_a_rule_that_airflow_refuses_is_named_with_its_task(make, says):
    said = re.escape(f"{says} waits for flights.open_run")
    with pytest.raises(InvalidInputError, match=said), parsed():
        make()


@pytest.mark.parametrize(
    ("terms", "of_run", "says"),
    [
        ({"fail_fast": True}, {}, "DAG 'parsed' has fail_fast.*leave it off"),
        (
            {"schedule": hourly(), "default_args": {"depends_on_past": True}},
            {},
            "DAG 'parsed' has partitions and depends_on_past",
        ),
        ({}, {"on_failure": "keep"}, "'keep'"),
        ({}, {"queue": "large"}, r"graveler_run\(\) has no arguments \['queue'\]: give \['"),
        (
            {},
            {"asset": Asset("one", "s3://l/one") | Asset("two", "s3://l/two")},
            r"asset AssetAny\(",
        ),
        ({}, {"asset": [Asset.ref(name="two")]}, r"asset AssetNameRef\(name='two'\): give an A"),
        ({}, {"asset": "one"}, "asset 'one': give an Asset"),
        ({}, {"strategy": "mine"}, "strategy 'mine': give source-wins"),
        ({}, {"lease": 30}, "lease=30: give a timedelta"),
        ({}, {"ttl": timedelta(days=-1)}, "ttl="),
    ],
)
def test_terms_that_cannot_be_are_refused_at_parse(terms, of_run, says):
    with pytest.raises((InvalidInputError, TypeError), match=says), parsed(**terms):
        with graveler_run("flights", **of_run):
            pass


def test_a_teardown_that_decides_the_state_of_the_run_is_refused():
    with parsed() as dag, graveler_run("flights"):
        pass
    with pytest.raises(InvalidInputError, match=r"flights\.close_run"):
        dag.get_task("flights.close_run").on_failure_fail_dagrun = True


def test_a_dagrun_timeout_is_warned_of_since_it_skips_teardowns():
    with pytest.warns(match="execution_timeout") as warned:
        with parsed(dagrun_timeout=timedelta(hours=1)), graveler_run("flights"):
            pass
    assert [warning.filename for warning in warned] == [__file__]


def test_events_of_partitions_that_start_no_plain_dag_warn():
    asset = graveler_asset("plain", "flights", watch=False)
    said = r"DAG 'made' has partitions.*PartitionedAssetTimetable\(assets=…\)"
    with pytest.warns(match=said) as warned:
        with parsed("made", schedule=hourly()), graveler_run("flights", asset=asset):
            pass
    assert len(warned) == 1
    with parsed("unpartitioned"), graveler_run("flights", asset=asset):
        pass
    hours = graveler_partitions("hours", "flights")
    for watched in (graveler_asset("watched", "flights"), hours, AssetAlias("one")):
        with parsed("made", schedule=hourly()), graveler_run("flights", asset=watched):
            pass


def test_schedules_with_several_runs_in_an_hour_are_known():
    def several(*crons):
        return MultipleCronTriggerTimetable(*crons, timezone="UTC")

    quarters = CronTriggerTimetable("*/15 * * * *", "UTC")
    finer = ["*/15 * * * *", timedelta(minutes=30), several("0 * * * *", "30 * * * *")]
    finer += [several("0 5 * * *", "30 5 * * *"), several("0 5 * * *", "30 4-6 * * *")]
    finer += [AssetOrTimeSchedule(timetable=quarters, assets=[])]
    coarser = ["30 5 * * *", "@hourly", several("0 5 * * *", "30 17 * * *"), several("0 * * * *")]
    for schedules, known in ((finer, True), (coarser, False)):
        made = [DAG("finer", schedule=schedule).timetable for schedule in schedules]
        assert {is_finer_than_hours(timetable) for timetable in made} == {known}
