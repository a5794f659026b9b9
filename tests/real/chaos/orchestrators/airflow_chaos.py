"""Airflow under a plan."""

import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from datetime import datetime
from pathlib import Path
from typing import Any

import graveler
from graveler.base.clock import SystemClock
from tests.real.chaos.driving import AGAIN, RENEW, UP_AGAIN, Chaos, Row
from tests.real.chaos.orchestrators.airflow_home import EXECUTORS, Airflow, make_home
from tests.real.chaos.orchestrators.airflow_shown import compare
from tests.real.chaos.plan import STARTS, UNDOABLE, Act, Fate, Plan, key_of

_OVER = ("success", "failed")
_IDLE = ("success", "failed", "upstream_failed", "skipped", "removed", None)
_TASKS = (
    *("open_run", "lock", "ingest", "left", "right", "renamed", "curate", "sweep"),
    *("merge", "close_run"),
)
_DAG_FILE = "hourly.py"
_VERSIONS = ("VERSION = 1\n", "VERSION = 2\n")
_SECOND = "second"
_AT_ONCE = 4
_DEPLOYMENT = Path(__file__).parents[1] / "processes/deployment.py"


class AirflowChaos(Chaos):
    """All services of Airflow process a backfill.

    ``celery`` is a CeleryExecutor with two workers, which have separate homes, on a lake in
    PostgreSQL and S3. ``local`` is a LocalExecutor on a lake in a folder.
    """

    def __init__(
        self,
        folder: Path,
        plan: Plan,
        *,
        reaper: int,
        say: Callable[[str], None],
        patience: float,
        executor: str,
    ) -> None:
        super().__init__(folder, plan, say=say, patience=patience)
        self._servers = ExitStack()
        place, connection, settings = self._servers.enter_context(EXECUTORS[executor](folder))
        self._location = str(place)
        with graveler.open(self._location) as lake:
            lake.create_repository("hours").protection.add("main", UNDOABLE)
        self._airflow = Airflow(make_home(folder, reaper, connection, settings))
        self._call = self._airflow.call
        self._run_ids: dict[datetime, str] = {}
        self._states: dict[datetime, str] = {}
        self._elsewhere: set[datetime] = set()
        self._events: list[dict[str, Any]] = []

    @property
    def lake(self) -> str:
        return self._location

    def close(self) -> None:
        self._servers.close()

    def hosts(self) -> list[str]:
        homes = self._airflow.services.homes
        return [name for name, home in homes.items() if [*home.glob("logs/dag_id=*")]]

    def start(self) -> None:
        self._airflow.services.start()
        self._airflow.ready(len(STARTS))
        for dag in STARTS:
            mine = sorted(fate.hour for fate in self.plan.fates if fate.dag == dag)
            if mine:
                first, last = (f"{hour:%Y-%m-%dT%H:%M:00Z}" for hour in (mine[0], mine[-1]))
                # hours that wait for the one before are active, and a cleared run needs a free place
                at_once = len(mine) if dag == "chained" else _AT_ONCE
                self._airflow.backfill(dag, first, last, at_once=at_once)

    def settled(self) -> bool:
        path = "/api/v2/assets/events?limit=500&offset="
        events: list[dict[str, Any]] = []
        while page := self._call("GET", f"{path}{len(events)}")["asset_events"]:
            events += page
        self._events = events
        return True

    def stop(self) -> None:
        self._airflow.services.stop()

    def tend(self) -> list[str]:
        return self._airflow.services.tend()

    def over(self) -> dict[datetime, bool]:
        for run in self._runs():
            partition = run["partition_key"]
            moment = f"{partition}+00:00" if partition else run["logical_date"]
            hour = datetime.fromisoformat(moment)
            self._run_ids[hour] = run["dag_run_id"]
            self._states[hour] = run["state"]
        return {hour: state in _OVER for hour, state in self._states.items()}

    def ran(self, row: Row) -> str | None:
        tasks = self._call("GET", f"{self._run(row.fate)}/taskInstances")["task_instances"]
        if any(task["state"] not in _IDLE for task in tasks):
            return None
        said = {task["task_id"].split(".")[-1]: _said(task) for task in tasks}
        told = ", ".join(f"{name} {said[name]}" for name in _TASKS if name in said)
        return f"{self._states[row.fate.hour]}: {told}"

    def act(self, act: Act, fate: Fate) -> None:
        if fate.hour not in self._run_ids:
            self.over()
        if act.deed in ("open elsewhere", "take over") or fate.hour in self._elsewhere:
            self._work_elsewhere(fate, take_over=act.deed != "open elsewhere")
            return
        if act.deed == "change code":
            self._change_code()
            if act.after:
                return
            act = Act(RENEW)
        try:
            _DEEDS[act.deed](self, fate, f"hours.{act.task}")
        except AssertionError as refused:
            self.say(f"{act.deed}: {str(refused)[:200]}")

    def strike(self, deed: str, during: tuple[Fate, str] | None = None) -> None:
        services = self._airflow.services
        killed: list[str] = []
        if deed == "kill scheduler":
            services.kill("scheduler")  # but not the processes that it has started
            killed = ["scheduler"]
        elif deed == "kill worker":
            killed = [self._worker(during)]
            services.kill(*killed, whole=True)
        else:
            services.die()
        SystemClock().sleep(UP_AGAIN)
        services.start(*killed)
        self._airflow.ready(len(STARTS))

    def _worker(self, task: tuple[Fate, str] | None) -> str:
        """Return the service that runs a task, or any service that runs tasks.

        The workers of a LocalExecutor are processes of the scheduler.
        """
        homes = self._airflow.services.homes
        if task is not None:
            self.over()  # reads the ids of the runs
            log = f"logs/*/run_id={self._run_ids[task[0].hour]}/task_id=hours.{task[1]}"
            return next((name for name, home in homes.items() if [*home.glob(log)]), "scheduler")
        return next(iter(homes), "scheduler")

    def _change_code(self) -> None:
        """Replace the file of the DAGs by one whose task has another name, or back."""
        file = self._airflow.home.dags / _DAG_FILE
        text = file.read_text()
        old, new = _VERSIONS if _VERSIONS[0] in text else _VERSIONS[::-1]
        beside = file.with_suffix(".new")
        beside.write_text(text.replace(old, new))
        beside.replace(file)

    def _work_elsewhere(self, fate: Fate, *, take_over: bool) -> None:
        """Open the run of an hour in another deployment, which makes and publishes the hour."""
        done = self._airflow.home.run(
            *(sys.executable, "-P", _DEPLOYMENT, self.key(fate), "take over" if take_over else ""),
            AIRFLOW__GRAVELER__DEPLOYMENT=_SECOND,
        )
        said = done.splitlines()[-1]
        self.say(f"{key_of(fate.hour)} in deployment {_SECOND!r}: {said}")
        if take_over:
            self._elsewhere.add(fate.hour)
        if ("published" in said) != take_over:
            self.wrong.append(f"{fate.hour} in another deployment, {take_over=}: {said}")

    def key(self, fate: Fate) -> str:
        partition = key_of(fate.hour) if fate.dag != "chained" else self._run_ids.get(fate.hour, "")
        return f"{fate.dag} {partition}"

    def published(self) -> dict[datetime, bool]:
        return {
            hour: any("merge success" in ran for ran in row.ran) for hour, row in self.rows.items()
        }

    def shown(self) -> list[str]:
        """Compare the states of tasks and the events of assets with the publishes of main."""
        hours = {self.key(row.fate): hour for hour, row in self.rows.items()}
        merged = {key for key, hour in hours.items() if self.published()[hour]}
        quiet = {key for key, hour in hours.items() if hour in self._elsewhere}
        with graveler.open(self.lake) as lake:
            return compare(lake.repository("hours"), self._events, merged | quiet, quiet)

    def logs(self) -> str:
        return self._airflow.services.logs()

    def patch_task(self, fate: Fate, task: str, state: str) -> None:
        self._call("PATCH", f"{self._run(fate)}/taskInstances/{task}", {"new_state": state})

    def patch_run(self, fate: Fate, state: str) -> None:
        self._call("PATCH", self._run(fate), {"state": state})

    def clear_run(self, fate: Fate) -> None:
        self._call("POST", f"{self._run(fate)}/clear", {"dry_run": False, "only_failed": False})

    def clear_task(self, fate: Fate, task: str, *, downstream: bool) -> None:
        body = {
            "dry_run": False,
            "only_failed": False,
            "dag_run_id": self._run_ids[fate.hour],
            "task_ids": [task],
            "include_downstream": downstream,
            "reset_dag_runs": True,
        }
        self._call("POST", f"/api/v2/dags/{fate.dag}/clearTaskInstances", body)

    def delete(self, fate: Fate) -> None:
        """Request the deletion, which Airflow refuses while the run is running. One that is over stays."""
        if self._call("GET", self._run(fate))["state"] == "running":
            self._call("DELETE", self._run(fate))

    def _run(self, fate: Fate) -> str:
        return f"/api/v2/dags/{fate.dag}/dagRuns/{self._run_ids[fate.hour]}"

    def _runs(self) -> Iterator[dict[str, Any]]:
        for dag in {fate.dag for fate in self.plan.fates}:
            path = f"/api/v2/dags/{dag}/dagRuns?limit=500"
            yield from self._call("GET", path)["dag_runs"]


def _said(task: dict[str, Any]) -> str:
    tries = f" (try {task['try_number']})" if task["try_number"] > 1 else ""
    return f"{task['state'] or 'never'}{tries}"


_DEEDS: dict[str, Callable[[AirflowChaos, Fate, str], None]] = {
    "fail task": lambda self, fate, task: self.patch_task(fate, task, "failed"),
    "pass task": lambda self, fate, task: self.patch_task(fate, task, "success"),
    "fail run": lambda self, fate, _: self.patch_run(fate, "failed"),
    "pass run": lambda self, fate, _: self.patch_run(fate, "success"),
    "clear run": lambda self, fate, _: self.clear_run(fate),
    RENEW: lambda self, fate, _: self.clear_run(fate),
    AGAIN: lambda self, fate, _: self.clear_run(fate),
    "clear task": lambda self, fate, task: self.clear_task(fate, task, downstream=True),
    "clear task alone": lambda self, fate, task: self.clear_task(fate, task, downstream=False),
    "delete run": lambda self, fate, _: self.delete(fate),
}
