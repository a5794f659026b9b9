"""Dagster under a plan."""

from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Any

from graveler.clock import SystemClock
from graveler.lake import RunState
from tests.real.chaos.driving import AGAIN, RENEW, UP_AGAIN, Chaos, Row
from tests.real.chaos.orchestrators.dagster_home import make_home
from tests.real.chaos.plan import Act, Fate, Plan, key_of

_OVER = ("SUCCESS", "FAILURE", "CANCELED")
_STEPS = ("ingest", "left", "right", "curate", "hours_publish")
_AT_ONCE = 4
_LONGEST = 240
"""Seconds after which Dagster fails a run whose processes are dead."""

_SENSOR = 20
"""The number of looks at a finished run until the sensor must have seen it."""

_REPOSITORY = """{repositoriesOrError {
  ... on RepositoryConnection {nodes {name location {name}}}}}"""
_RUNS = """{runsOrError(limit: 2000) {
  ... on Runs {results {runId status creationTime tags {key value}}}}}"""
_STEP_STATS = """query($id: ID!) {runOrError(runId: $id) {
  ... on Run {stepStats {stepKey status attempts {startTime}}}}}"""
_BACKFILL = """mutation($p: LaunchBackfillParams!) {launchPartitionBackfill(backfillParams: $p) {
  __typename ... on PythonError {message}}}"""
_TERMINATE = """mutation($id: String!) {terminateRun(runId: $id) {
  __typename ... on PythonError {message}}}"""
_REEXECUTE = """mutation($p: ReexecutionParams!) {launchRunReexecution(reexecutionParams: $p) {
  __typename ... on PythonError {message}}}"""
_LAUNCH = """mutation($p: ExecutionParams!) {launchRun(executionParams: $p) {
  __typename ... on PythonError {message}}}"""


class DagsterChaos(Chaos):
    """Daemon, webserver and code server process a backfill. Each step is a process."""

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
            "partitionNames": [key_of(fate.hour) for fate in self.plan.fates],
        }
        self._ask(_BACKFILL, p=backfill)
        self._dagster.start("daemon")  # it looks for backfills at its start, and then at intervals

    def stop(self) -> None:
        self._dagster.services.die()

    def tend(self) -> list[str]:
        return self._dagster.services.tend()

    def over(self) -> dict[datetime, bool]:
        found: dict[datetime, list[dict[str, Any]]] = {}
        for run in self._dagster.look(_RUNS)["results"]:
            tags = {tag["key"]: tag["value"] for tag in run["tags"]}
            hour = datetime.fromisoformat(tags["dagster/partition"] + "+00:00")
            found.setdefault(hour, []).append(run)
        for runs in found.values():
            runs.sort(key=lambda run: float(run["creationTime"]))
        self._runs = found
        return {hour: all(run["status"] in _OVER for run in runs) for hour, runs in found.items()}

    def ran(self, row: Row) -> str | None:
        runs = self._runs[row.fate.hour]
        if len(runs) <= row.begun:
            return None  # the next run is not created yet
        last = runs[-1]
        record = self.record(row.fate)
        if record is not None and record.state in (RunState.OPEN, RunState.PUBLISHING):
            waited = self._waited[last["runId"]] = self._waited.get(last["runId"], 0) + 1
            if waited < _SENSOR:
                return None
        steps = self._dagster.look(_STEP_STATS, id=last["runId"])["stepStats"]
        said = {step["stepKey"]: _said(step) for step in steps}
        told = ", ".join(f"{name} {said[name]}" for name in _STEPS if name in said)
        return f"{last['status'].lower()}: {told}"

    def act(self, act: Act, fate: Fate) -> None:
        self.over()
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

    def key(self, fate: Fate) -> str:
        return f"dagster hours_job {key_of(fate.hour)}"

    def published(self) -> dict[datetime, bool]:
        return {
            hour: any("hours_publish success" in ran for ran in row.ran)
            for hour, row in self.rows.items()
        }

    def logs(self) -> str:
        return self._dagster.services.logs()

    def terminate(self, fate: Fate) -> None:
        self._ask(_TERMINATE, id=self._runs[fate.hour][-1]["runId"])

    def renew(self, fate: Fate) -> None:
        """Continue from the failure, or from the beginning if the failure is in the content."""
        last = self._runs[fate.hour][-1]["runId"]
        if fate.kind != "a gate refuses":
            try:
                self._ask(_REEXECUTE, p={"parentRunId": last, "strategy": "FROM_FAILURE"})
            except AssertionError as refused:
                self.say(f"{key_of(fate.hour)}: {str(refused)[:200]}")
            else:
                return
        self.launch(fate)

    def launch(self, fate: Fate) -> None:
        """Launch a run for the hour, as a person does by hand."""
        self._ask(
            _LAUNCH,
            p={
                "selector": {**self._selector, "jobName": "hours_job"},
                "executionMetadata": {
                    "tags": [{"key": "dagster/partition", "value": key_of(fate.hour)}]
                },
            },
        )

    def _ask(self, query: str, **variables: Any) -> None:
        said = self._dagster.ask(query, **variables)
        assert said["__typename"].endswith("Success"), said


def _said(step: dict[str, Any]) -> str:
    tries = len(step["attempts"] or ())
    return f"{(step['status'] or 'never').lower()}{f' (try {tries})' if tries > 1 else ''}"


_DEEDS: dict[str, Callable[[DagsterChaos, Fate], None]] = {
    "cancel run": DagsterChaos.terminate,
    "run again": DagsterChaos.launch,
    RENEW: DagsterChaos.renew,
    AGAIN: DagsterChaos.launch,
}
