# mypy: ignore-errors
# Contexts and tasks replace Airflow's own types.
"""Runs whose tasks retry, skip, fail and are cleared; prints what each publishes."""

import json
import os
import tempfile
from datetime import UTC, datetime
from types import SimpleNamespace

from airflow.sdk import DAG
from airflow.sdk.exceptions import AirflowSkipException

import graveler
from graveler_airflow import (
    GravelerCloseRunOperator,
    GravelerDeleteOperator,
    GravelerOpenRunOperator,
    GravelerPublishRunOperator,
    graveler_task,
)
from graveler_airflow.dag.task_states import pushes_joined

AT = datetime(2013, 1, 1, tzinfo=UTC)
folder = tempfile.mkdtemp()
os.environ["AIRFLOW_CONN_GRAVELER_DEFAULT"] = json.dumps({"conn_type": "graveler", "host": folder})


class Played:
    """A DAG of steps that write given files, with Airflow's records of one run of it."""

    def __init__(self, repo, dag_id, run_id="r1", **terms):
        self.repo, self.dag_run = repo, SimpleNamespace(dag_id=dag_id, run_id=run_id, run_after=AT)
        self.dag, self.xcoms, self.tasks = DAG(dag_id), {}, {}
        self.states = {"open_run": None}
        self.opening = GravelerOpenRunOperator(
            dag=self.dag, task_id="open_run", repo=repo.name, **terms
        )

    def context(self, task_id, index=-1):
        ti = SimpleNamespace(
            task_id=task_id,
            map_index=index,
            try_number=1,
            run_id="r1",
            log_url="",
            get_task_states=self.get_task_states,
            xcom_pull=self.xcom_pull,
            xcom_push=lambda key, value: self.xcoms.__setitem__((task_id, index, key), value),
        )
        return {"ti": ti, "dag": self.dag, "dag_run": self.dag_run, "outlet_events": {}}

    def get_task_states(self, *, dag_id, run_ids, task_ids=None):
        assert dag_id == self.dag_run.dag_id
        return {
            run_ids[0]: {
                name: state
                for name, state in self.states.items()
                if task_ids is None
                or any(name == task or name.startswith(f"{task}_") for task in task_ids)
            }
        }

    def xcom_pull(self, *, task_ids, key):
        (task_id,) = task_ids
        results = [
            value for (task, _, name), value in self.xcoms.items() if (task, name) == (task_id, key)
        ]
        return results or [None]

    def open(self):
        self.handle = self.opening.execute(self.context("open_run"))

    def write(self, task_id, *paths, index=-1, body="x", fails=None):
        for events in [key for key in self.xcoms if key[:2] == (task_id, index)]:
            del self.xcoms[events]  # as Airflow does at the start of a task

        def function(step):
            for path in paths:
                step.put(path, body.encode())
            if fails:
                raise fails

        function.__name__ = task_id
        with DAG(self.dag_run.dag_id):
            task = graveler_task(function)(self.handle).operator
        self.dag.task_dict.setdefault(task_id, task)
        name = task_id if index < 0 else f"{task_id}_{index}"
        try:
            task.execute(self.context(task_id, index))
            self.states[name] = "success"
        except AirflowSkipException:
            self.states[name] = "skipped"

    def clear(self, *names):
        for name in names:
            self.states[name] = None

    def merge(self):
        task = GravelerPublishRunOperator(task_id="merge", run=self.handle)
        return self.outcome(lambda: task.execute(self.context("merge")))

    def close(self):
        closing = GravelerCloseRunOperator(task_id="close_run", run=self.handle)
        return self.outcome(lambda: closing.execute(self.context("close_run")))

    def outcome(self, act):
        try:
            act()
        except Exception as error:
            return [type(error).__name__, str(error)]
        return ["published", self.paths()]

    def paths(self, ref="main"):
        return [entry.path for entry in self.repo.ref(ref).entries()]

    def on_branch(self):
        return self.paths(json.loads(self.handle["graveler.run"])["branch"])


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
    run = d.repo.runs.attach(graveler.runs.RunHandle.from_json(d.handle["graveler.run"]))
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
    results["told by an operator"] = (
        d.xcoms["delete", -1, "graveler_joined"]["commits"][0][-1] == commit
    )
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
    with d.dag:
        mapped = graveler_task(lambda step, number: None).partial(step=d.handle).expand(number=[1])
    results["who tells"] = [pushes_joined(mapped.operator), pushes_joined(d.opening)]
print(json.dumps(results))
