# mypy: ignore-errors
# Contexts and tasks replace Airflow's own types.
"""Tasks without Airflow's services: contexts, and a DAG whose states and XComs are dictionaries."""

import json
from datetime import UTC, datetime
from types import SimpleNamespace

import pytest
from airflow.providers.standard.operators.trigger_dagrun import TriggerDagRunOperator
from airflow.sdk import DAG
from airflow.sdk.exceptions import AirflowFailException, AirflowSkipException

from graveler_airflow import (
    GravelerCloseRunOperator,
    GravelerOpenRunOperator,
    GravelerPublishRunOperator,
    graveler_task,
    step_env,
)

AT = datetime(2013, 1, 1, 5, tzinfo=UTC)


def context(task_id="work", tried=1, *, at=AT, dag_id="d", dag=None, **of_task):
    """Return the context of a task. `of_task` are more attributes of the task instance."""
    known = {
        "map_index": -1,
        "run_id": "r1",
        "log_url": f"https://airflow.example/log/{task_id}",
        "xcom_push": lambda key, value: None,
        "get_task_states": lambda **_: {"r1": {}},
        **of_task,
    }
    run = SimpleNamespace(dag_id=dag_id, run_id="r1", run_after=at, start_date=at)
    task = SimpleNamespace(task_id=task_id, try_number=tried, **known)
    return {"ti": task, "dag": dag or DAG(dag_id), "dag_run": run, "outlet_events": {}}


def tries(operator, count=2, **known):
    """Execute a task several times; return the result of each try."""
    return [
        operator.execute(context(operator.task_id, number + 1, **known)) for number in range(count)
    ]


def final(match):
    """Expect a failure that Airflow does not try again."""
    return pytest.raises(AirflowFailException, match=match)


class Played:
    """A DAG of steps that write given files, with Airflow's records of one run of it."""

    def __init__(self, repo, dag_id, run_id="r1", conf=None, partition=None, **terms):
        self.repo, self.partition = repo, partition
        self.dag_run = SimpleNamespace(dag_id=dag_id, run_id=run_id, run_after=AT, conf=conf)
        self.dag, self.xcoms = DAG(dag_id), {}
        self.before, self.attempts = None, []
        self.states = {"open_run": None}
        self.opening = GravelerOpenRunOperator(
            dag=self.dag, task_id="open_run", repo=repo.name, **terms
        )

    def context(self, task_id, index=-1):
        known = context(
            task_id,
            dag=self.dag,
            map_index=index,
            get_task_states=self.get_task_states,
            xcom_pull=lambda *, task_ids, key, map_indexes: self.xcoms.get(
                (task_ids, map_indexes, key)
            ),
            get_previous_dagrun=lambda: self.before,
            xcom_push=lambda key, value: self.xcoms.__setitem__((task_id, index, key), value),
        )
        return {**known, "dag_run": self.dag_run, "partition_key": self.partition}

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

    def hand_over(self, trigger, child):
        """Give the run to a DAG run, which `trigger` starts and waits for."""
        if trigger not in self.dag.task_dict:
            TriggerDagRunOperator(
                dag=self.dag,
                task_id=trigger,
                trigger_dag_id=child.dag_run.dag_id,
                wait_for_completion=True,
            )
        self.xcoms[trigger, -1, "trigger_run_id"] = child.dag_run.run_id
        self.states[trigger] = "success"
        child.handle = self.handle

    def open(self):
        self.handle = self.opening.execute(self.context("open_run"))
        self.attempts.append(self.xcoms.get(("open_run", -1, "attempt")))

    def write(self, task_id, *paths, index=-1, fails=None):
        for events in [key for key in self.xcoms if key[:2] == (task_id, index)]:
            del self.xcoms[events]  # as Airflow does at the start of a task

        def function(step):
            for path in paths:
                step.put(path, b"x")
            if fails:
                raise fails

        self.do(task_id, function, index=index)

    def write_all(self, **files):
        """Execute tasks that write a file each."""
        for task_id, path in files.items():
            self.write(task_id, path)

    def do(self, task_id, function, *, index=-1):
        """Execute a function of a step as a task."""
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
        self.states |= dict.fromkeys(names)

    def again(self, *names):
        """Clear tasks, and open the next attempt."""
        self.clear(*names)
        self.open()

    def merge(self, index=-1):
        """Publish the run; return the paths of main."""
        task = GravelerPublishRunOperator(task_id="merge", run=self.handle)
        task.work = [*self.dag.task_dict]
        task.execute(self.context("merge", index))
        return self.paths()

    def close(self):
        GravelerCloseRunOperator(task_id="close_run", run=self.handle).execute(
            self.context("close_run")
        )

    def end(self):
        """Close a run that is not published; return the message of the failed task."""
        with final("is not published") as failed:
            self.close()
        return str(failed.value)

    @property
    def last(self):
        return self.repo.runs.attach(self.handle["graveler.run"])

    def variables(self, task_id):
        known = self.context(task_id)
        return {name: value.resolve(known) for name, value in step_env(self.handle).items()}

    def paths(self, ref="main"):
        return [entry.path for entry in self.repo.ref(ref).entries()]

    def on_branch(self):
        return self.paths(json.loads(self.handle["graveler.run"])["branch"])
