# mypy: ignore-errors
# Contexts and tasks replace Airflow's own types.
"""A DAG of steps without Airflow's services: two dictionaries hold its states and XComs."""

import json
from datetime import UTC, datetime
from types import SimpleNamespace

from airflow.providers.standard.operators.trigger_dagrun import TriggerDagRunOperator
from airflow.sdk import DAG
from airflow.sdk.exceptions import AirflowSkipException

from graveler_airflow import (
    GravelerCloseRunOperator,
    GravelerOpenRunOperator,
    GravelerPublishRunOperator,
    graveler_task,
    step_env,
)

AT = datetime(2013, 1, 1, tzinfo=UTC)


class Played:
    """A DAG of steps that write given files, with Airflow's records of one run of it."""

    def __init__(self, repo, dag_id, run_id="r1", conf=None, partition=None, **terms):
        self.repo, self.partition = repo, partition
        self.dag_run = SimpleNamespace(dag_id=dag_id, run_id=run_id, run_after=AT, conf=conf)
        self.dag, self.xcoms, self.tasks = DAG(dag_id), {}, {}
        self.before, self.attempts = None, []
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
            get_previous_dagrun=lambda: self.before,
            xcom_push=lambda key, value: self.xcoms.__setitem__((task_id, index, key), value),
        )
        return {
            "ti": ti,
            "dag": self.dag,
            "dag_run": self.dag_run,
            "partition_key": self.partition,
            "outlet_events": {},
        }

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

    def xcom_pull(self, *, task_ids, key, map_indexes):
        return self.xcoms.get((task_ids, map_indexes, key))

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

    def write(self, task_id, *paths, index=-1, body="x", fails=None):
        for events in [key for key in self.xcoms if key[:2] == (task_id, index)]:
            del self.xcoms[events]  # as Airflow does at the start of a task

        def function(step):
            for path in paths:
                step.put(path, body.encode())
            if fails:
                raise fails

        self.do(task_id, function, index=index)

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
        for name in names:
            self.states[name] = None

    def merge(self, index=-1):
        task = GravelerPublishRunOperator(task_id="merge", run=self.handle)
        task.work = [*self.dag.task_dict]
        return self.outcome(lambda: task.execute(self.context("merge", index)))

    def close(self):
        closing = GravelerCloseRunOperator(task_id="close_run", run=self.handle)
        return self.outcome(lambda: closing.execute(self.context("close_run")))

    def outcome(self, act):
        try:
            act()
        except Exception as error:
            return [type(error).__name__, str(error)]
        return ["published", self.paths()]

    @property
    def last(self):
        return self.repo.runs.attach(self.handle["graveler.run"])

    @property
    def attempt(self):
        return self.last.attempt

    def variables(self, task_id):
        context = self.context(task_id)
        return {name: value.resolve(context) for name, value in step_env(self.handle).items()}

    def paths(self, ref="main"):
        return [entry.path for entry in self.repo.ref(ref).entries()]

    def on_branch(self):
        return self.paths(json.loads(self.handle["graveler.run"])["branch"])
