# mypy: ignore-errors
# Contexts and tasks replace Airflow's own types.
"""Runs whose tasks retry, skip, fail and are cleared; prints what each publishes."""

import json
import os
import tempfile
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from datetime import timedelta
from itertools import count
from threading import Event
from types import SimpleNamespace
from unittest.mock import patch

from airflow.sdk.exceptions import AirflowSkipException

import graveler
from graveler.runs.steps.environment import StepHandle
from graveler_airflow import (
    GravelerDeleteOperator,
)
from graveler_airflow.operators.runs import deployment
from tests.real.airflow.programs.played import Played

folder = tempfile.mkdtemp()
os.environ["AIRFLOW_CONN_GRAVELER_DEFAULT"] = json.dumps({"conn_type": "graveler", "host": folder})

results = {}
with graveler.open(folder, create=True) as lake:

    def play(name, **terms):
        return Played(lake.create_repository(name), name, **terms)

    d = play("dropped", on_failure="drop")
    d.open()
    d.write("first", "a")
    d.close()
    d.clear("second", "merge")
    d.open()
    d.write("second", "b")
    results["dropped"] = [d.merge(), d.paths(), d.close()]
    d.clear("first", "second")
    d.open()
    d.write("first", "a")
    d.write("second", "b")
    results["dropped, cleared whole"] = d.merge()
    results["merged twice"] = d.merge()

    d = play("rolled-back")
    d.open()
    d.write("first", "a")
    d.write("second", "b")
    d.merge()
    d.repo.runs.rollback("rolled-back r1")
    d.open()
    results["rolled back"] = [d.merge(), d.paths()]
    results["rolled back, closed"] = d.close()

    d = play("undone")
    d.open()
    d.write("first", "a")
    d.merge()
    d.repo.undo("main")
    d.clear("first")
    d.open()
    results["undone, closed"] = d.close()

    d = play("stands")
    d.open()
    d.write("first", "a")
    d.write("idle")
    d.write("second", "b")
    d.merge()
    d.clear("second")
    d.open()
    d.write("second", "c")
    results["published before"] = d.merge()
    d.open()
    results["only the merge again"] = d.merge()

    d = play("by-hand")
    d.open()
    d.write("first", "a")
    d.states["never"] = "success"
    results["marked success"] = d.merge()

    child = Played(d.repo, "child", "c1")
    child.handle = d.handle
    results["a child cleared alone"] = child.outcome(lambda: child.write("load", "b"))

    d = play("failed-by-hand")
    d.open()
    d.write("first", "a")
    d.write("check")
    d.write("part", "b", index=0)
    d.states |= {"first": "failed", "check": "failed", "part_0": "upstream_failed"}
    results["marked failed"] = [d.merge(), d.paths()]
    d.states["check"] = "success"
    d.states["part_0"] = "success"
    d.states["first"] = "skipped"
    results["marked skipped"] = d.merge()
    d.states["part_0"] = "failed"
    d.open()
    results["marked failed, published"] = [d.merge(), d.paths()]
    d.clear("part_0")
    d.open()
    d.states["part_0"] = "success"
    results["cleared, marked success"] = [d.merge(), d.paths()]

    d = play("groups")
    d.open()
    d.write("first", "b", index=1)
    d.states["first_0"] = "failed"
    results["another group failed"] = d.merge(index=1)

    d = play("parked")
    d.open()
    d.write("first", "a")
    d.write("second", "b")
    d.close()
    d.clear("second")
    d.open()
    results["to run again"] = d.on_branch()
    d.write("second", "c")
    results["goes on"] = d.merge()

    d = play("cleared-whole")
    d.open()
    d.write("first", "a")
    d.write("second", "b")
    d.close()
    with d.repo.run("yesterday") as other:
        other.put("yesterday", b"x")
    d.clear("second")
    d.open()
    results["cleared in part"] = d.on_branch()
    d.clear("first", "second")
    d.open()
    results["cleared whole"] = d.on_branch()
    d.write("first", "a")
    d.write("second", "b")
    results["cleared whole, published"] = d.merge()

    d = play("changed-its-mind")
    d.open()
    d.write("left", "left", "same")
    d.write("kept", "kept")
    for index in range(3):
        d.write("part", f"part-{index}", index=index)
    d.write("gone", "of a task that the DAG has no more")
    d.close()
    d.states = {
        "left": None,
        "right": None,
        "kept": "success",
        "part_0": None,
        "part_1": None,
        "part_2": "removed",
    }
    d.open()
    d.states["left"] = "skipped"
    d.write("right", "right", "same")
    for index in range(2):
        d.write("part", f"part-{index}", index=index)
    results["changed its mind"] = d.merge()

    d = play("skips")
    d.open()
    d.write("first", "a")
    d.write("second", "b")
    d.write("first", fails=AirflowSkipException())  # the try before died after it joined
    results["skips on its second try"] = d.merge()

    d = play("others")
    d.open()
    d.write("first", "a")
    run = d.repo.runs.attach(graveler.RunHandle.from_json(d.handle["graveler.run"]))
    with run.step("of a script") as step:
        step.put("script", b"x")
    d.close()
    d.clear("first")
    d.open()
    d.write("first", "b")
    results["steps of no task"] = d.merge()

    d = play("operators")
    d.open()
    d.write("first", "a", "b")

    def delete():
        return GravelerDeleteOperator(dag=d.dag, task_id="delete", run=d.handle, paths=["a"])

    d.dag.task_dict.pop("delete", None)
    commit = delete().execute(d.context("delete"))
    d.states["delete"] = "success"
    results["told by an operator"] = d.last.last_joins()["delete"].id == commit
    d.repo.runs.abandon("operators r1")
    d.clear("first")
    d.open()
    d.write("first", "a", "b")
    results["operator's work gone"] = d.merge()

    d = play("mapped", on_failure="drop")
    d.open()
    d.write("part", "part-0", index=0)
    d.write("part", "part-1", index=1)
    d.close()
    d.clear("part_1")
    d.open()
    d.write("part", "part-1", index=1)
    results["mapped"] = d.merge()

    def parent_of(*names, repo=None, run_id="p1"):
        """Return a DAG run whose run two runs of one DAG, and one of another, are given."""
        parent = Played(
            repo or lake.create_repository(names[0]), names[0], run_id, on_failure="drop"
        )
        parent.open()
        children = {}
        for number, name in enumerate(("north", "south", "other")):
            conf = {"graveler_name": name} if "named" in names and name != "other" else {}
            dag_id = "other" if name == "other" else "child"
            children[name] = Played(parent.repo, dag_id, f"c{number}-{parent.attempt}", conf)
            parent.hand_over(f"to_{name}", children[name])
        return parent, children

    parent, children = parent_of("same-names")
    children["other"].write("load", "other")
    parent.write("load", "parent")
    children["north"].write("load", "north")
    results["the second of one name"] = parent.outcome(
        lambda: children["south"].write("load", "south")
    )
    results["the first alone"] = parent.merge()

    parent, children = parent_of("names", "named")
    for name, child in children.items():
        child.write("load", name)
        child.write("part", f"{name}-{0}", index=0)
    results["three children"] = [parent.merge(), sorted(parent.last.last_joins())]

    parent, children = parent_of("gone", "named")
    for name, child in children.items():
        child.write("load", name)
    parent.close()
    parent.clear("to_south", "after", "merge")
    parent.open()
    parent.hand_over("to_south", children["south"])
    children["south"].write("load", "south")
    results["a child's work is gone"] = parent.merge()
    parent.states["to_other"] = "skipped"
    parent.open()
    for name in ("north", "south"):
        parent.hand_over(f"to_{name}", children[name])
        children[name].write("load", name)
    results["a child takes no part"] = parent.merge()

    parent, children = parent_of("kept", "named")
    parent.opening.on_failure = "park"
    parent.open()
    for name, child in children.items():
        parent.hand_over(f"to_{name}", child)
        child.write("load", name)
    parent.close()
    parent.clear("to_south", "merge")
    parent.states["to_other"] = "skipped"
    parent.open()
    results["before the second attempt"] = parent.on_branch()
    again = Played(parent.repo, "child", "c9", {"graveler_name": "south"})
    parent.hand_over("to_south", again)
    again.write("load", "south again")
    results["a new attempt replaces"] = parent.merge()
    results["attempts"] = parent.attempts

    parent, children = parent_of("failing")
    results["a child that fails"] = parent.outcome(
        lambda: children["north"].write("load", "half", fails=ValueError("no rows"))
    )[0]
    children["south"].write("load", "south")
    results["its name is free"] = parent.merge()

    d = play("deployments")
    d.open()
    d.write("first", "prod")
    d.merge()

    def as_deployment(name, act):
        os.environ["AIRFLOW__GRAVELER__DEPLOYMENT"] = name
        return d.outcome(act)

    before = d.repo.runs.get("deployments r1")
    results["another deployment"] = as_deployment("staging", d.open)
    results["nothing moved"] = d.repo.runs.get("deployments r1") == before
    d.opening.take_over = True
    results["taken over"] = as_deployment("staging", d.open)[0]
    d.opening.take_over = False
    results["the first one"] = as_deployment("programs", d.open)[1]

    class Variables(dict):
        def get(self, key, default=None):
            return super().get(key, default)

        def set(self, key, value, description):
            sets.append(value)
            if len(sets) == 1:
                ended.wait(3)  # unless the other first task waits for this one
            self[key] = value

    def first(_):
        found = deployment(d.repo)
        ended.set()
        return found

    variables, sets, ended = Variables(), [], Event()
    os.environ["AIRFLOW__GRAVELER__DEPLOYMENT"] = ""
    with (
        patch("graveler_airflow.operators.runs.Variable", variables),
        ThreadPoolExecutor(2) as pool,
    ):
        results["the ids of two first"] = list(pool.map(first, range(2)))
    results["set"] = len(sets)

    class Slow(Variables):  # another first task sets it, but its requests take long
        reads = 0

        def get(self, key, default=None):
            self.reads += 1
            return "of the slow one" if self.reads > 3 else default

    with (
        patch("graveler_airflow.operators.runs.Variable", Slow()),
        patch.object(type(d.repo.stores.refs), "turn", lambda *_: nullcontext(False)),
    ):
        results["the id without the turn"] = deployment(d.repo), len(sets)
    copy = Variables(variables)  # of the database
    with patch("graveler_airflow.operators.runs.Variable", copy):
        results["the id of a copy"] = deployment(d.repo)
        os.environ["AIRFLOW__GRAVELER__DEPLOYMENT"] = "staging"
        results["the id of a copy with a setting"] = deployment(d.repo)
        os.environ["AIRFLOW__GRAVELER__DEPLOYMENT"] = ""
        del copy["graveler_deployment"]
        results["the id of a copy without the Variable"] = deployment(d.repo)
    os.environ["AIRFLOW__GRAVELER__DEPLOYMENT"] = "programs"

    numbers = count()

    def after(state, act, before="r1", **terms):
        """Return what happens to a run that depends on one with which something happens."""
        repo = lake.create_repository(f"past-{next(numbers)}")
        first, second = (Played(repo, "past", run_id, **terms) for run_id in ("r1", "r2"))
        second.opening.depends_on_past = True
        first.opening.depends_on_past = True
        first.open()
        first.write("first", "a")
        act(first)
        second.before = SimpleNamespace(
            dag_id="past", run_id=before, partition_key=None, state=state
        )
        return second.outcome(second.open)

    def abandon(first):
        first.repo.runs.abandon("past r1")

    def undo(first):
        first.merge()
        first.repo.undo("main")

    def roll_back(first):
        first.merge()
        first.repo.runs.rollback("past r1")

    def revert(first):
        first.merge()
        first.repo.revert("main", on="main")

    def give_up(first):
        roll_back(first)
        first.repo.runs.open("past r1")
        abandon(first)

    results["past"] = {
        "published": after("success", Played.merge),
        "undone": after("success", undo),
        "rolled back": after("success", roll_back),
        "reverted": after("success", revert),
        "rolled back, cleared": after("queued", roll_back),
        "rolled back, given up": after("success", give_up),
        "open": after("running", lambda first: None),
        "dead": after("failed", lambda first: None, lease=timedelta(milliseconds=1)),
        "parked": after("failed", Played.close),
        "cleared": after("running", Played.close),
        "abandoned": after("failed", abandon),
        "dropped": after("failed", Played.close, on_failure="drop"),
        "given up": after("success", Played.close, on_failure="drop"),
        "skipped": after("success", lambda first: None, before="r0"),
    }

    d = play("programs", on_failure="drop")
    d.open()
    named = StepHandle.from_text(d.variables("first")["GRAVELER_STEP"])
    with d.last.step(named.name, metadata=named.metadata, owner=named.owner) as step:
        step.put("a", b"x")
    d.states["first"] = "success"
    d.close()
    d.open()
    d.write("second", "b")
    results["a program's work is gone"] = d.merge()
print(json.dumps(results))
