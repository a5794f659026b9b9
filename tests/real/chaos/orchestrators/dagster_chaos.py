"""Dagster under a plan."""

from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Any

import dagster as dg

import graveler
from graveler.base.clock import SystemClock
from graveler.lake import RunState
from tests.real.chaos.driving import AGAIN, RENEW, UP_AGAIN, Chaos, Row
from tests.real.chaos.hours import SPLIT_FIRST, is_digest
from tests.real.chaos.judging import standing_runs
from tests.real.chaos.orchestrators.dagster_home import make_home
from tests.real.chaos.orchestrators.dagster_shown import compare
from tests.real.chaos.plan import Act, Fate, Plan, key_of

_OVER = ("SUCCESS", "FAILURE", "CANCELED")
_UNDER_WAY = ("REQUESTED", "CANCELING", "FAILING")
_STEPS = (
    *("ingest", "left", "right", "curate", "hours_publish"),
    *("split_left", "split_balance", "split_publish"),
)
_SPLIT = ("split_left", "split_balance", "split_publish")
_AT_ONCE = 4
_LONGEST = 240
"""Seconds after which Dagster fails a run whose processes are dead."""

_SENSOR = 20
"""The number of looks at a finished run until the sensor must have seen it."""

_PATIENCE = 120

_REPOSITORY = """{repositoriesOrError {
  ... on RepositoryConnection {nodes {name location {name}}}}}"""
_RUNS = """{runsOrError(limit: 2000) {
  ... on Runs {results {
    runId status creationTime pipelineName assetSelection {path} tags {key value}}}}}"""
_STEP_STATS = """query($id: ID!) {runOrError(runId: $id) {
  ... on Run {stepStats {stepKey status attempts {startTime}}}}}"""
_SENSOR_ON = """mutation($s: SensorSelector!) {startSensor(sensorSelector: $s) {
  __typename ... on PythonError {message}}}"""
_SENSOR_STATE = """query($s: SensorSelector!) {sensorOrError(sensorSelector: $s) {
  ... on Sensor {sensorState {ticks(limit: 1, statuses: [SUCCESS, SKIPPED]) {status}}}}}"""
_BACKFILLS = """{partitionBackfillsOrError {
  ... on PartitionBackfills {results {id status isAssetBackfill}}}}"""
_BACKFILL = """mutation($p: LaunchBackfillParams!) {launchPartitionBackfill(backfillParams: $p) {
  __typename ... on PythonError {message}}}"""
_TERMINATE = """mutation($id: String!) {terminateRun(runId: $id) {
  __typename ... on PythonError {message}}}"""
_REEXECUTE = """mutation($p: ReexecutionParams!) {launchRunReexecution(reexecutionParams: $p) {
  __typename ... on PythonError {message}}}"""
_LAUNCH = """mutation($p: ExecutionParams!) {launchRun(executionParams: $p) {
  __typename ... on PythonError {message}}}"""


class DagsterChaos(Chaos):
    """Daemon, webserver and code server process backfills. Each step is a process."""

    def __init__(
        self,
        folder: Path,
        plan: Plan,
        *,
        reaper: int,
        say: Callable[[str], None],
        patience: float,
    ) -> None:
        super().__init__(folder, plan, say=say, patience=patience)
        self._dagster = make_home(folder, reaper, at_once=_AT_ONCE, longest=_LONGEST)
        self._runs: dict[datetime, list[dict[str, Any]]] = {}
        self._waited: dict[str, int] = {}
        self._digests: dict[datetime, list[dict[str, Any]]] = {}
        self._is_splitting = any(fate.dag == "split" for fate in plan.fates)
        self._looks = 0

    def start(self) -> None:
        self._dagster.start("code-server", "webserver")
        self._dagster.ready()
        (node,) = self._dagster.look(_REPOSITORY)["nodes"]
        self._selector = {
            "repositoryName": node["name"],
            "repositoryLocationName": node["location"]["name"],
        }
        backfill = {
            "selector": {
                "partitionSetName": "hours_job_partition_set",
                "repositorySelector": self._selector,
            },
            "partitionNames": self._partitions("hours"),
        }
        if backfill["partitionNames"]:
            self._ask(_BACKFILL, p=backfill)
        sensor = {**self._selector, "sensorName": "digest_automation"}
        if self._is_splitting:
            self._ask(_SENSOR_ON, s=sensor)
        self._dagster.start("daemon")  # it looks for backfills at its start, and then at intervals
        if self._is_splitting:
            self._wait(lambda: self._dagster.look(_SENSOR_STATE, s=sensor)["sensorState"]["ticks"])
            hours = self._partitions("split")
            partitions = {"range": {"start": hours[0], "end": hours[-1]}}
            split = [{"assetKey": {"path": [name]}, "partitions": partitions} for name in _SPLIT]
            first = [{"key": "dagster/priority", "value": "1"}]  # not after all other hours
            self._ask(_BACKFILL, p={"partitionsByAssets": split, "tags": first})

    def _partitions(self, dag: str) -> list[str]:
        return [key_of(fate.hour) for fate in self.plan.fates if fate.dag == dag]

    def _wait(self, done: Callable[[], Any]) -> None:
        for _ in range(_PATIENCE):
            if done():
                return
            SystemClock().sleep(1)
        raise AssertionError(f"Dagster's sensor does not begin\n{self.logs()}")

    def stop(self) -> None:
        self._dagster.services.die()

    def tend(self) -> list[str]:
        return self._dagster.services.tend()

    def over(self) -> dict[datetime, bool]:
        found: dict[datetime, list[dict[str, Any]]] = {}
        digests: dict[datetime, list[dict[str, Any]]] = {}
        for run in self._dagster.look(_RUNS)["results"]:
            tags = {tag["key"]: tag["value"] for tag in run["tags"]}
            hour = datetime.fromisoformat(tags["dagster/partition"] + "+00:00")
            run["isSplit"] = hour >= SPLIT_FIRST and "dagster/backfill" in tags
            made = {"/".join(key["path"]) for key in run["assetSelection"] or ()}
            follows = run["pipelineName"] == "digest_job" or "digest" in made
            (digests if follows else found).setdefault(hour, []).append(run)
        for runs in [*found.values(), *digests.values()]:
            runs.sort(key=lambda run: float(run["creationTime"]))
        self._runs, self._digests = found, digests
        over = {hour: all(run["status"] in _OVER for run in runs) for hour, runs in found.items()}
        if self._is_splitting and any(hour >= SPLIT_FIRST and over[hour] for hour in over):
            backfills = self._dagster.look(_BACKFILLS)["results"]
            if any(one["isAssetBackfill"] and one["status"] in _UNDER_WAY for one in backfills):
                over |= {hour: False for hour in over if hour >= SPLIT_FIRST}
        return over

    def ran(self, row: Row) -> str | None:
        runs = self._runs[row.fate.hour]
        split = [run for run in runs if run["isSplit"]]
        if len(runs) - max(0, len(split) - 1) <= row.begun:
            return None  # the next run is not created yet
        last = runs[-1]
        record = self.record(row.fate)
        works = record is not None and record.state in (RunState.OPEN, RunState.PUBLISHING)
        if works and not last["isSplit"]:  # the reaper alone parks what a backfill has left
            waited = self._waited[last["runId"]] = self._waited.get(last["runId"], 0) + 1
            if waited < _SENSOR:
                return None
        said = {
            step["stepKey"]: _said(step)
            for run in (split if last["isSplit"] else [last])
            for step in self._dagster.look(_STEP_STATS, id=run["runId"])["stepStats"]
        }
        told = ", ".join(f"{name} {said[name]}" for name in _STEPS if name in said)
        return f"{last['status'].lower()}: {told}"

    def act(self, act: Act, fate: Fate) -> None:
        self.over()
        if act.deed == "change code":
            self._change_code()
            if act.after:
                return
            act = Act(RENEW)
        try:
            _DEEDS[act.deed](self, fate)
        except AssertionError as refused:
            self.say(f"{act.deed}: {str(refused)[:200]}")

    def strike(self, deed: str, during: tuple[Fate, str] | None = None) -> None:
        if deed == "kill scheduler":
            self._dagster.services.kill("daemon", whole=True)
        else:
            self._dagster.services.die()
        SystemClock().sleep(UP_AGAIN)
        self._dagster.start(*(["daemon"] if deed == "kill scheduler" else []))
        self._dagster.ready()

    def _change_code(self) -> None:
        """Replace the code. Processes that work keep the old one, later runs load the new one."""
        code = self.folder / "chaos/code"
        version = int(code.read_text()) if code.exists() else 1
        code.write_text(str(version % 2 + 1))

    def key(self, fate: Fate) -> str:
        return f"dagster {fate.dag}_job {key_of(fate.hour)}"

    def published(self) -> dict[datetime, bool]:
        return {
            hour: any(f"{row.fate.dag}_publish success" in ran for ran in row.ran)
            for hour, row in self.rows.items()
        }

    def settled(self) -> bool:
        """Return whether every published hour of the split pipeline has its digest."""
        runs = standing_runs(self._lake)
        key = "dagster digest_job {:%Y-%m-%dT%H:%M}".format
        missing = [
            hour for name, hour in runs.items() if " split_job " in name and key(hour) not in runs
        ]
        works = [hour for hour, made in self._digests.items() if made[-1]["status"] not in _OVER]
        for hour in missing:
            made = self._digests.get(hour, [])
            if made and hour not in works and made[-1]["status"] != "SUCCESS":
                self.lost({key(hour)})
        self._looks = 0 if works else self._looks + 1
        if missing or works:
            return self._looks > _SENSOR
        self.done["eager assets of another pipeline"] = len(self._digests)
        self.done["published by a backfill that Dagster split"] = sum(
            "split_publish success" in row.ran[0] for row in self.rows.values()
        )
        return True

    def lost(self, keys: set[str]) -> None:
        for key in keys:
            if is_digest(key):
                self.done["an eager asset runs again"] += 1
                self._launch("digest_job", key.split()[-1])

    def shown(self) -> list[str]:
        events = dg.DagsterInstance.from_config(str(self.folder))
        with events as instance, graveler.open(self.lake) as lake:
            return compare(instance, lake.repository("hours"))

    def logs(self) -> str:
        return self._dagster.services.logs()

    def terminate(self, fate: Fate) -> None:
        self._ask(_TERMINATE, id=self._runs[fate.hour][-1]["runId"])

    def renew(self, fate: Fate) -> None:
        """Continue from the failure, or from the beginning if the failure is in the content."""
        last = self._runs[fate.hour][-1]["runId"]
        if fate.kind != "a gate refuses" and fate.dag == "hours":
            try:
                self._ask(_REEXECUTE, p={"parentRunId": last, "strategy": "FROM_FAILURE"})
            except AssertionError as refused:
                self.say(f"{key_of(fate.hour)}: {str(refused)[:200]}")
            else:
                return
        self.launch(fate)

    def launch(self, fate: Fate) -> None:
        """Launch a run for the hour, as a person does by hand."""
        self._launch(f"{fate.dag}_job", key_of(fate.hour))

    def _launch(self, job: str, partition: str) -> None:
        self._ask(
            _LAUNCH,
            p={
                "selector": {**self._selector, "jobName": job},
                "executionMetadata": {"tags": [{"key": "dagster/partition", "value": partition}]},
            },
        )

    def _ask(self, query: str, **variables: Any) -> None:
        said = self._dagster.ask(query, **variables)
        assert said["__typename"].endswith(("Success", "Sensor")), said


def _said(step: dict[str, Any]) -> str:
    tries = len(step["attempts"] or ())
    return f"{(step['status'] or 'never').lower()}{f' (try {tries})' if tries > 1 else ''}"


_DEEDS: dict[str, Callable[[DagsterChaos, Fate], None]] = {
    "cancel run": DagsterChaos.terminate,
    "run again": DagsterChaos.launch,
    RENEW: DagsterChaos.renew,
    AGAIN: DagsterChaos.launch,
}
