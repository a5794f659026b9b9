"""Airflow under a plan: what is done to it from outside, and when it has come to rest."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import datetime
from time import monotonic
from typing import Any

import graveler
from graveler.clock import SystemClock
from graveler.errors import RunNotFoundError
from graveler.lake import RunRecord
from tests.chaos.airflow_home import Airflow, ChaosHome
from tests.chaos.blows import write_plan
from tests.chaos.judging import state_of_main
from tests.chaos.plan import Act, Fate, Plan, key_of

__all__ = ["AirflowChaos", "Row"]

_OVER = ("success", "failed")
_IDLE = ("success", "failed", "upstream_failed", "skipped", "removed", None)
_LOOK = 3.0
_SEEN = 2
"""How often a run is seen without a task at work until it is believed."""
_UP_AGAIN = 6.0
"""Seconds that what was killed stays down."""

Say = Callable[[str], None]


@dataclass
class Row:
    """What became of one hour, each time its run was over.

    Attributes:
        fate: What was to happen.
        ran: What Airflow says of the run and its tasks, each time.
        main: The state of main, each time.
        branch: The state of the run's branch, each time.
        begun: How often it was begun again on purpose.
        idle: How often it was seen with nothing to do since.
    """

    fate: Fate
    ran: list[str] = field(default_factory=list)
    main: list[str] = field(default_factory=list)
    branch: list[str] = field(default_factory=list)
    begun: int = 0
    idle: int = 0


@dataclass
class AirflowChaos:
    """One plan, worked off.

    Attributes:
        home: Where.
        plan: What happens.
        say: Told how far it is.
        patience: Seconds until it gives up waiting for rest.
        at_once: Runs at once.
    """

    home: ChaosHome
    plan: Plan
    say: Say
    patience: float
    at_once: int = 4
    rows: dict[datetime, Row] = field(default_factory=dict)
    done: dict[str, int] = field(default_factory=dict)
    _acts: dict[datetime, list[Act]] = field(default_factory=dict)
    _started: float = 0

    def __post_init__(self) -> None:
        self.airflow = Airflow(self.home)
        self.rows = {fate.hour: Row(fate) for fate in self.plan.fates}
        self._acts = {fate.hour: list(fate.acts) for fate in self.plan.fates}
        self._disasters = list(self.plan.disasters)
        self._run_ids: dict[str, str] = {}

    def run(self) -> None:
        """Start Airflow, let the plan happen, and wait until nothing is left to happen."""
        write_plan(self.home.folder / "chaos", self.plan.blows)
        self._started = monotonic()
        try:
            self.airflow.start()
            self.airflow.ready(2)
            self.say(f"{self._time()} Airflow is up")
            for dag in ("hours", "timed"):
                mine = sorted(fate.hour for fate in self.plan.fates if fate.dag == dag)
                if mine:
                    self._backfill(dag, mine)
            with graveler.open(self.home.lake) as lake:
                self._lake = lake.repository("hours")
                self._live()
        finally:
            self.airflow.stop()

    def _backfill(self, dag: str, hours: list[datetime]) -> None:
        first, last = (f"{hour:%Y-%m-%dT%H:%M:00Z}" for hour in (hours[0], hours[-1]))
        self.airflow.backfill(dag, first, last, at_once=self.at_once)

    def _live(self) -> None:
        known = 0.0
        while True:
            SystemClock().sleep(0.5)
            self._do_acts_of_the_reached()
            if monotonic() < known + _LOOK:
                continue
            known = monotonic()
            ended = self._look()
            self._strike(ended)
            if ended == len(self.rows) and not self._disasters and self._is_quiet():
                return
            assert monotonic() - self._started < self.patience, (
                f"not at rest after {self.patience} s: {self._unfinished()}\n"
                f"{self.airflow.api.logs()}"
            )

    def _look(self) -> int:
        """Look which runs are over, do what is to be done then, and return how many are."""
        over = 0
        for run in self._runs():
            row = self.rows[_hour_of(run)]
            self._run_ids[key_of(row.fate.hour)] = run["dag_run_id"]
            over += self._is_over(row, run["state"])
        return over

    def _is_over(self, row: Row, state: str) -> bool:
        """Return whether nothing more is to come; do what is to be done at its end."""
        if state not in _OVER:
            row.idle = 0
            return False
        acts = self._acts[row.fate.hour]
        if len(row.ran) <= row.begun:
            tasks = self._tasks(row.fate)
            row.idle += 1 if all(task["state"] in _IDLE for task in tasks) else -row.idle
            if row.idle < _SEEN:
                return False
            self._keep(row, state, tasks)
            act = None
            if acts and not acts[0].after:
                act = acts.pop(0)
            elif row.main[-1] != "whole" and row.begun < row.fate.renewals:
                act = Act("clear run")
            if act is not None:
                row.begun += 1
                row.idle = 0
                self._do(act, row.fate)
                return False
        return not acts

    def _keep(self, row: Row, state: str, tasks: list[dict[str, Any]]) -> None:
        said = {task["task_id"].split(".")[-1]: task for task in tasks}
        names = ("open_run", "ingest", "left", "right", "curate", "merge", "close_run")
        row.ran.append(
            f"{state}: "
            + ", ".join(f"{name} {_said_of(said[name])}" for name in names if name in said)
        )
        row.main.append(state_of_main(self._lake, row.fate.hour))
        row.branch.append(self._state_of_branch(row.fate))
        self.say(
            f"{self._time()} {key_of(row.fate.hour)} {row.fate.kind}: {row.ran[-1]}; main {row.main[-1]}, {row.branch[-1]}"
        )

    def _state_of_branch(self, fate: Fate) -> str:
        record = self.record(fate)
        return "no run" if record is None else f"{record.state}, attempt {record.attempt}"

    def record(self, fate: Fate) -> RunRecord | None:
        """Return what the lake knows of an hour's run."""
        try:
            return self._lake.runs.get(f"{fate.dag} {key_of(fate.hour)}")
        except RunNotFoundError:
            return None

    def published(self) -> dict[datetime, bool]:
        """Return by hour whether Airflow was told by the publisher that it has published."""
        return {
            hour: any("merge success" in ran for ran in row.ran) for hour, row in self.rows.items()
        }

    def _do_acts_of_the_reached(self) -> None:
        for hour, acts in self._acts.items():
            reached = self.home.folder / "chaos/reached"
            if acts and acts[0].after and (reached / acts[0].after).exists():
                self._do(acts.pop(0), self.rows[hour].fate)

    def _do(self, act: Act, fate: Fate) -> None:
        self.done[act.deed] = self.done.get(act.deed, 0) + 1
        if act.deed in _DISASTERS:
            _DISASTERS[act.deed](self)
            return
        run_id = self._run_ids.get(key_of(fate.hour)) or self._find(fate)
        _DEEDS[act.deed](self, fate, run_id, f"hours.{act.task}")

    def _find(self, fate: Fate) -> str:
        for run in self._runs():
            self._run_ids[key_of(_hour_of(run))] = run["dag_run_id"]
        return self._run_ids[key_of(fate.hour)]

    def _strike(self, ended: int) -> None:
        while self._disasters and self._disasters[0].over <= ended:
            disaster = self._disasters.pop(0)
            self.say(f"{self._time()} {disaster.deed} with {ended} hours over")
            self.done[disaster.deed] = self.done.get(disaster.deed, 0) + 1
            _DISASTERS[disaster.deed](self)

    def kill_scheduler(self) -> None:
        """Kill the scheduler, not what it has started; start another one."""
        self.airflow.kill("scheduler")
        SystemClock().sleep(_UP_AGAIN)
        self.airflow.start("scheduler")

    def kill_host(self) -> None:
        """Kill every process there is; start all services again."""
        self.airflow.die()
        SystemClock().sleep(_UP_AGAIN)
        self.airflow.start()
        self.airflow.ready(2)

    def patch_task(self, fate: Fate, run_id: str, task: str, state: str) -> None:
        self._call("PATCH", f"{_run(fate, run_id)}/taskInstances/{task}", {"new_state": state})

    def patch_run(self, fate: Fate, run_id: str, _: str, state: str) -> None:
        self._call("PATCH", _run(fate, run_id), {"state": state})

    def clear(self, fate: Fate, run_id: str, task: str) -> None:
        body: dict[str, object] = {"dry_run": False, "only_failed": False}
        if task:
            body |= {"dag_run_id": run_id, "task_ids": [task], "reset_dag_runs": True}
            self._call("POST", f"/api/v2/dags/{fate.dag}/clearTaskInstances", body)
        else:
            self._call("POST", f"{_run(fate, run_id)}/clear", body)

    def delete(self, fate: Fate, run_id: str, _: str) -> None:
        """Ask for it; Airflow refuses while the run is running."""
        self._call("DELETE", _run(fate, run_id), None)

    def _call(self, method: str, path: str, body: object) -> None:
        try:
            self.airflow.api.call(method, path, body)
        except AssertionError as refused:
            self.say(f"{self._time()} {str(refused)[:200]}")

    def _runs(self) -> Iterator[dict[str, Any]]:
        for dag in ("hours", "timed"):
            path = f"/api/v2/dags/{dag}/dagRuns?limit=500"
            yield from self.airflow.api.call("GET", path)["dag_runs"]

    def _tasks(self, fate: Fate) -> list[dict[str, Any]]:
        path = f"{_run(fate, self._run_ids[key_of(fate.hour)])}/taskInstances"
        found: list[dict[str, Any]] = self.airflow.api.call("GET", path)["task_instances"]
        return found

    def _is_quiet(self) -> bool:
        """Return whether the orchestrator has nothing left to do, and no run has begun anew."""
        return all(run["state"] in _OVER for run in self._runs())

    def _unfinished(self) -> list[str]:
        return [
            f"{_hour_of(run)} {run['state']}" for run in self._runs() if run["state"] not in _OVER
        ]

    def _time(self) -> str:
        return f"{monotonic() - self._started:6.0f} s"


def _hour_of(run: dict[str, Any]) -> datetime:
    return datetime.fromisoformat(run["partition_key"] + "+00:00")


def _run(fate: Fate, run_id: str) -> str:
    return f"/api/v2/dags/{fate.dag}/dagRuns/{run_id}"


def _said_of(task: dict[str, Any]) -> str:
    tries = f" (try {task['try_number']})" if task["try_number"] > 1 else ""
    return f"{task['state'] or 'never'}{tries}"


_DISASTERS: dict[str, Callable[[AirflowChaos], None]] = {
    "kill scheduler": AirflowChaos.kill_scheduler,
    "kill host": AirflowChaos.kill_host,
}

_DEEDS: dict[str, Callable[[AirflowChaos, Fate, str, str], None]] = {
    "fail task": lambda self, *run: self.patch_task(*run, state="failed"),
    "pass task": lambda self, *run: self.patch_task(*run, state="success"),
    "fail run": lambda self, *run: self.patch_run(*run, state="failed"),
    "pass run": lambda self, *run: self.patch_run(*run, state="success"),
    "clear run": lambda self, fate, run_id, _: self.clear(fate, run_id, ""),
    "clear task": lambda self, *run: self.clear(*run),
    "delete run": lambda self, *run: self.delete(*run),
}
