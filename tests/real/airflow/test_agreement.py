# mypy: ignore-errors
"""Airflow's states and the run's content are brought into agreement by the opening and the merge.

Airflow is simulated by two dictionaries, of states and of XComs. `test_run_for_real` runs Airflow.
"""

from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from datetime import timedelta
from itertools import count
from threading import Event
from types import SimpleNamespace

import pytest
from airflow.sdk.exceptions import AirflowRescheduleException, AirflowSkipException

import graveler
from graveler.refs.refs import Refs
from graveler.runs.steps.environment import StepHandle
from graveler_airflow import GravelerDeleteOperator
from graveler_airflow.operators import runs
from tests.real.airflow.played import Played, final


@pytest.fixture(scope="module")
def numbers():
    return count()


@pytest.fixture
def play(own, numbers):
    """Return a function that makes a DAG with a repository of its own."""

    def play(**terms):
        return Played(own.create_repository(f"repository-{next(numbers)}"), "dag", **terms)

    return play


def opened(played, **files):
    played.open()
    played.write_all(**files)
    return played


def test_a_run_that_lost_half_of_its_work_is_not_published(play):
    d = opened(play(on_failure="drop"), first="a")
    d.end()
    d.again("second", "merge")
    d.write("second", "b")
    said = "^run-state: run 'dag r1': the work of first is gone.*'main' has not moved: clear the w"
    with final(said):
        d.merge()
    assert d.paths() == []
    assert "it is REAPED" in d.end()
    d.again("first", "second")
    d.write_all(first="a", second="b")
    assert d.merge() == d.merge() == ["a", "b"]


def test_a_merge_after_a_rollback_does_not_publish_nothing(play):
    d = opened(play(), first="a", second="b")
    d.merge()
    d.repo.runs.rollback("dag r1")
    d.open()
    with final("the work of first, second is gone"):
        d.merge()
    assert d.paths() == []
    assert "main did not move, main has nothing of it; " in d.end()


def test_the_end_of_a_run_says_what_its_target_has_now(play):
    d = opened(play(), first="a")
    d.merge()
    d.repo.undo("main")
    d.again("first")
    assert "main did not move, main has nothing of it; " in d.end()


def test_a_child_cleared_alone_names_the_dag_to_clear(play):
    d = opened(play(), first="a")
    d.merge()
    child = Played(d.repo, "child", "c1")
    child.handle = d.handle
    with final("clear 'open_run' of DAG 'dag' as well, which opens the next attempt"):
        child.write("load", "b")


def test_what_an_earlier_publish_left_on_the_target_is_found(play):
    d = opened(play(), first="a", second="b")
    d.write("idle")
    d.merge()
    d.again("second")
    d.write("second", "c")
    assert d.merge() == ["a", "c"]
    d.open()
    assert d.merge() == ["a", "c"]


def test_a_task_marked_successful_by_hand_lacks_nothing(play):
    d = opened(play(), first="a")
    d.states["never"] = "success"
    assert d.merge() == ["a"]


def test_nothing_is_published_while_a_task_has_failed(play):
    """A user may mark a task as failed after it has succeeded, with or without files."""
    d = opened(play(), first="a")
    d.write("check")
    d.write("part", "b", index=0)
    d.states |= {"first": "failed", "check": "failed", "part_0": "upstream_failed"}
    with final(r"that check is failed, first is failed, part\[0\] is upstream_failed: "):
        d.merge()
    assert d.paths() == []
    d.states |= {"check": "success", "part_0": "success", "first": "skipped"}
    assert d.merge() == ["b"]
    d.states["part_0"] = "failed"
    d.open()
    with final(r"Airflow shows that part\[0\] is failed: "):
        d.merge()
    assert d.paths() == ["b"]
    d.again("part_0")
    d.states["part_0"] = "success"
    with final(r"the work of part\[0\] is gone"):
        d.merge()
    assert d.paths() == ["b"]


def test_a_failure_in_another_mapped_group_stops_no_merge(play):
    d = play()
    d.open()
    d.write("first", "b", index=1)
    d.states["first_0"] = "failed"
    assert d.merge(index=1) == ["b"]


def test_a_new_attempt_begins_with_the_work_of_finished_tasks(play):
    d = opened(play(), first="a", second="b")
    d.end()
    d.again("second")
    assert d.on_branch() == ["a"]
    d.write("second", "c")
    assert d.merge() == ["a", "c"]


def test_an_attempt_that_keeps_nothing_reads_the_present_target(play):
    d = opened(play(), first="a", second="b")
    d.end()
    with d.repo.run("yesterday") as other:
        other.put("yesterday", b"x")
    d.again("second")
    assert d.on_branch() == ["a"]
    d.again("first", "second")
    assert d.on_branch() == ["yesterday"]
    d.write_all(first="a", second="b")
    assert d.merge() == ["a", "b", "yesterday"]


def test_work_of_tasks_that_left_the_dag_is_not_published(play):
    """This includes files that another task writes and a skipped task had written before."""
    d = opened(play(), kept="kept", gone="of a task that the DAG has no more")
    d.write("left", "left", "same")
    for index in range(3):
        d.write("part", f"part-{index}", index=index)
    d.end()
    d.states = {"kept": "success", "part_2": "removed"}
    d.again("left", "right", "part_0", "part_1")
    d.states["left"] = "skipped"
    d.write("right", "right", "same")
    for index in range(2):
        d.write("part", f"part-{index}", index=index)
    assert d.merge() == ["kept", "part-0", "part-1", "right", "same"]


def test_a_task_that_skips_on_its_second_try_leaves_nothing(play):
    d = opened(play(), first="a", second="b")
    d.write("first", fails=AirflowSkipException())  # the try before died after it joined
    assert d.merge() == ["b"]


def test_steps_that_no_task_made_stay(play):
    d = opened(play(), first="a")
    run = d.repo.runs.attach(graveler.RunHandle.from_json(d.handle["graveler.run"]))
    with run.step("of a script") as step:
        step.put("script", b"x")
    d.end()
    d.again("first")
    d.write("first", "b")
    assert d.merge() == ["b", "script"]


def test_operators_that_write_report_steps_as_functions_do(play):
    d = opened(play(), first="a", second="b")
    delete = GravelerDeleteOperator(dag=d.dag, task_id="delete", run=d.handle, paths=["a"])
    commit = delete.execute(d.context("delete"))
    d.states["delete"] = "success"
    assert d.last.last_joins()["delete"].id == commit
    d.repo.runs.abandon("dag r1")
    d.again("first", "second")
    d.write_all(first="a", second="b")
    with final("the work of delete is gone"):
        d.merge()


def test_the_instances_of_a_mapped_task_are_missed_one_by_one(play):
    d = play(on_failure="drop")
    d.open()
    for index in range(2):
        d.write("part", f"part-{index}", index=index)
    d.end()
    d.again("part_1")
    d.write("part", "part-1", index=1)
    with final(r"the work of part\[0\] is gone"):
        d.merge()


def parent_of(play, *, named=False, on_failure="drop"):
    """Return a DAG run whose run two runs of one DAG, and one of another, are given."""
    parent, children = play(run_id="p1", on_failure=on_failure), {}
    parent.open()
    for number, name in enumerate(("north", "south", "other")):
        conf = {"graveler_name": name} if named and name != "other" else {}
        dag_id = "other" if name == "other" else "child"
        children[name] = Played(parent.repo, dag_id, f"c{number}-1", conf)
        parent.hand_over(f"to_{name}", children[name])
    return parent, children


def test_a_second_dag_run_of_one_step_is_refused_by_name(play):
    parent, children = parent_of(play)
    children["other"].write("load", "other")
    parent.write("load", "parent")
    children["north"].write("load", "north")
    said = "^already-exists: step 'child:load' of run 'dag p1'"
    with final(said) as refused:
        children["south"].write("load", "south")
    for part in ("'child c0-1'", "'child c1-1'", '"graveler_name": "north"'):
        assert part in str(refused.value)
    assert parent.merge() == ["north", "other", "parent"]


def test_the_work_of_every_named_hand_over_is_published(play):
    parent, children = parent_of(play, named=True)
    for name, child in children.items():
        child.write("load", name)
        child.write("part", f"{name}-0", index=0)
    assert parent.merge() == ["north", "north-0", "other", "other-0", "south", "south-0"]
    who = ("child north", "child south", "other")
    steps = [f"{one}:{step}" for one in who for step in ("load", "part[0]")]
    assert sorted(parent.last.last_joins()) == steps


def test_the_lost_work_of_a_child_dag_is_missed(play):
    parent, children = parent_of(play, named=True)
    for name, child in children.items():
        child.write("load", name)
    parent.end()
    parent.again("to_south", "after", "merge")
    parent.hand_over("to_south", children["south"])
    children["south"].write("load", "south")
    with final("the work of child north:load, other:load is gone"):
        parent.merge()
    parent.states["to_other"] = "skipped"
    parent.open()
    for name in ("north", "south"):
        parent.hand_over(f"to_{name}", children[name])
        children[name].write("load", name)
    assert parent.merge() == ["north", "south"]


def test_a_new_attempt_replaces_the_work_of_child_dags(play):
    parent, children = parent_of(play, named=True, on_failure="park")
    for name, child in children.items():
        child.write("load", name)
    parent.end()
    parent.states["to_other"] = "skipped"
    parent.again("to_south", "merge")
    assert parent.on_branch() == ["north"]
    again = Played(parent.repo, "child", "c9", {"graveler_name": "south"})
    parent.hand_over("to_south", again)
    again.write("load", "south again")
    assert parent.merge() == ["north", "south again"]
    # each attempt has a name for the DAG runs that it starts
    assert [name.rpartition(".")[2] for name in parent.attempts] == ["1", "2"]


def test_a_child_that_failed_leaves_its_name_to_the_next(play):
    parent, children = parent_of(play)
    with pytest.raises(ValueError, match="no rows"):
        children["north"].write("load", "half", fails=ValueError("no rows"))
    children["south"].write("load", "south")
    assert parent.merge() == ["south"]


def test_the_lost_work_of_a_program_is_missed(play):
    d = play(on_failure="drop")
    d.open()
    named = StepHandle.from_text(d.variables("first")["GRAVELER_STEP"])
    with d.last.step(named.name, metadata=named.metadata, owner=named.owner) as step:
        step.put("a", b"x")
    d.states["first"] = "success"
    d.end()
    d.open()
    d.write("second", "b")
    with final("the work of first is gone"):
        d.merge()


def test_the_run_of_another_deployment_is_refused(play, monkeypatch):
    d = opened(play(), first="prod")
    d.merge()
    before = d.repo.runs.get("dag r1")
    monkeypatch.setenv("AIRFLOW__GRAVELER__DEPLOYMENT", "staging")
    with final(f"^run-state: run 'dag r1' of repository '{d.repo.name}' is PUBLISHED") as refused:
        d.open()
    assert "deployment 'programs' of Airflow has opened it; this is 'staging'" in str(refused.value)
    way_out = "[graveler] deployment = programs, or open this run with take_over=True"
    assert way_out in str(refused.value)
    assert d.repo.runs.get("dag r1") == before
    d.opening.take_over = True
    d.open()
    d.opening.take_over = False
    monkeypatch.setenv("AIRFLOW__GRAVELER__DEPLOYMENT", "programs")
    with final("deployment 'staging'"):
        d.open()


class Variables(dict):
    """Airflow's Variables. The first one to be set takes as long as `meanwhile`."""

    meanwhile = staticmethod(lambda: None)
    sets = 0

    def get(self, key, default=None):
        return super().get(key, default)

    def set(self, key, value, description):
        self.sets += 1
        if self.sets == 1:
            self.meanwhile()
        self[key] = value


@pytest.fixture
def deployment(play, monkeypatch):
    """Return a function that returns the id of a deployment with the given Variables."""
    monkeypatch.setenv("AIRFLOW__GRAVELER__DEPLOYMENT", "")
    repo = play().repo

    def deployment(variables):
        monkeypatch.setattr(runs, "Variable", variables)
        return runs.deployment(repo)

    return deployment


def test_first_tasks_and_copies_agree_on_the_id_of_a_deployment(deployment, monkeypatch):
    variables, ended = Variables(), Event()
    variables.meanwhile = lambda: ended.wait(3)  # unless the other first task waits for this one

    def first(_):
        found = deployment(variables)
        ended.set()
        return found

    with ThreadPoolExecutor(2) as pool:
        (found,) = {*pool.map(first, range(2))}
    assert variables.sets == 1
    copy = Variables(variables)  # of the database
    assert deployment(copy) == found
    monkeypatch.setenv("AIRFLOW__GRAVELER__DEPLOYMENT", "staging")
    assert deployment(copy) == "staging"
    monkeypatch.setenv("AIRFLOW__GRAVELER__DEPLOYMENT", "")
    assert deployment(Variables()) not in (found, "staging", "")


def test_a_first_task_without_the_turn_waits_for_the_other_one(deployment, monkeypatch):
    class Slow(Variables):  # another first task sets it, but its requests take long
        reads = 0

        def get(self, key, default=None):
            self.reads += 1
            return "of the slow one" if self.reads > 2 else default

    monkeypatch.setattr(Refs, "turn", lambda *_: nullcontext(False))
    slow = Slow()
    assert (deployment(slow), slow.sets) == ("of the slow one", 0)


def abandon(first):
    first.repo.runs.abandon("dag r1")


def undo(first):
    first.merge()
    first.repo.undo("main")


def roll_back(first):
    first.merge()
    first.repo.runs.rollback("dag r1")


def revert(first):
    first.merge()
    first.repo.revert("main", on="main")


def give_up(first):
    roll_back(first)
    first.repo.runs.open("dag r1")
    abandon(first)


def leave(first):
    pass


DROP = {"on_failure": "drop"}


@pytest.fixture
def after(play):
    """Return a function that opens a run that depends on one with which something happens."""

    def after(state, act, before="r1", **terms):
        first = play(**terms)
        second = Played(first.repo, "dag", "r2", **terms)
        for played in (first, second):
            played.opening.depends_on_past = True
        opened(first, first="a")
        act(first)
        second.before = SimpleNamespace(
            dag_id="dag", run_id=before, partition_key=None, state=state
        )
        second.open()

    return after


@pytest.mark.parametrize(
    ("state", "act", "terms"),
    [
        ("success", Played.merge, {}),
        ("failed", abandon, {}),
        ("success", Played.end, DROP),
        ("success", give_up, {}),
        ("success", leave, {"before": "r0"}),
    ],
    ids=["published", "abandoned", "dropped by hand", "given up", "skipped"],
)
def test_a_run_that_depends_on_the_past_opens_after_its_end(after, state, act, terms):
    after(state, act, **terms)


@pytest.mark.parametrize(
    ("state", "act"), [("running", leave), ("running", Played.end), ("queued", roll_back)]
)
def test_a_run_that_depends_on_the_past_waits_for_the_publish(after, state, act):
    with pytest.raises(AirflowRescheduleException):
        after(state, act)


@pytest.mark.parametrize(
    ("act", "terms"),
    [(leave, {"lease": timedelta(milliseconds=1)}), (Played.end, {}), (Played.end, DROP)],
    ids=["dead", "parked", "dropped"],
)
def test_an_unpublished_run_before_fails_it_by_name(after, act, terms):
    said = "this run depends on the past, and run 'dag r1' before it is"
    with final(said) as failed:
        after("failed", act, **terms)
    assert "clear the failed tasks of DAG run 'r1'" in str(failed.value)
    assert "`graveler run abandon 'dag r1'`" in str(failed.value)


@pytest.mark.parametrize("act", [undo, roll_back, revert])
def test_a_run_before_that_the_target_has_lost_fails_it(after, act):
    said = "depends on the past, and 'main' no longer has what run 'dag r1' published"
    with final(said) as failed:
        after("success", act)
    assert "clear DAG run 'r1'" in str(failed.value)
    assert "`graveler run open 'dag r1'` and `graveler run abandon 'dag r1'`" in str(failed.value)
