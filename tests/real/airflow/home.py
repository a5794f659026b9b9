"""An Airflow for the tests: a home, and the two processes that run DAGs in it."""

import json
import subprocess
import sys
import urllib.error
import urllib.request
from base64 import urlsafe_b64encode
from contextlib import contextmanager
from dataclasses import dataclass, field
from http import HTTPStatus
from pathlib import Path
from time import monotonic
from typing import Any

from graveler.base.clock import SystemClock
from graveler.config import environment
from tests.real.chaos.processes.services import Services, logs_of

ROOT = Path(__file__).resolve().parents[3]
PROGRAMS = ROOT / "tests/real/airflow/programs"
AIRFLOW = Path(sys.executable).with_name("airflow")
_ANSWER_S = 150  # an answer waits for SQLite's lock, for up to 60 s
_AGAIN = 10
_FERNET_KEY = urlsafe_b64encode(b"shared by the processes of tests").decode()
_BUSY = b"Database error"
PATIENCE = 600  # seconds; a machine that is busy with other tests is only slow


@dataclass(frozen=True)
class Home:
    """A folder with a metadata database, a lake, a landing folder and DAG files.

    Airflow runs in separate processes: its warnings, logs and signal handlers would disturb this
    test run, in which a warning is an error.
    """

    folder: Path
    port: int
    running: list[Services] = field(default_factory=list, init=False, compare=False)

    @property
    def dags(self) -> Path:
        return self.folder / "dags"

    @property
    def lake(self) -> Path:
        return self.folder / "lake"

    @property
    def landing(self) -> Path:
        return self.folder / "landing"

    @property
    def marks(self) -> Path:
        return self.folder / "marks"

    @property
    def env(self) -> dict[str, str]:
        url = f"http://127.0.0.1:{self.port}"
        return {
            "PATH": environment("PATH"),
            "HOME": str(self.folder),
            "JAVA_HOME": environment("JAVA_HOME"),
            "PYTHONPATH": f"{ROOT}:{ROOT / 'integrations'}",
            "AIRFLOW_HOME": str(self.folder),
            "AIRFLOW_CONN_GRAVELER_DEFAULT": json.dumps(
                {"conn_type": "graveler", "host": str(self.lake), "extra": {"repo": "flights"}}
            ),
            "AIRFLOW_VAR_FLIGHTS_LANDING": str(self.landing),
            "AIRFLOW_VAR_MARKS": str(self.marks),
            "AIRFLOW__CORE__DAGS_FOLDER": str(self.dags),
            # else each of the first processes makes a key of its own, and reads no trigger of others
            "AIRFLOW__CORE__FERNET_KEY": _FERNET_KEY,
            "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
            # "auto" uses uv if it is installed, and uv downloads pip
            "AIRFLOW__STANDARD__VENV_INSTALL_METHOD": "pip",
            "AIRFLOW__CORE__DAGS_ARE_PAUSED_AT_CREATION": "False",
            "AIRFLOW__CORE__DEFAULT_TASK_RETRY_DELAY": "0",
            "AIRFLOW__CORE__PARALLELISM": "4",
            "AIRFLOW__CORE__EXECUTION_API_SERVER_URL": f"{url}/execution/",
            "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_ALL_ADMINS": "True",
            # a writer waits a minute for the others on a busy machine, and not five seconds
            "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": f"sqlite:///{self.folder}/airflow.db?timeout=60",
            "AIRFLOW__API__BASE_URL": url,
            "AIRFLOW__API__HOST": "127.0.0.1",
            "AIRFLOW__API__PORT": str(self.port),
            "AIRFLOW__API__WORKERS": "1",
            "AIRFLOW__API_AUTH__JWT_SECRET": "known to both processes of a test, and to no other",
            "AIRFLOW__LOGGING__LOGGING_LEVEL": "WARNING",
            "AIRFLOW__SCHEDULER__USE_JOB_SCHEDULE": "False",  # no runs except those of tests
        }

    def run(self, *arguments: str | Path, **variables: str) -> str:
        """Run a program in this home until it ends; return its output."""
        done = subprocess.run(
            [str(argument) for argument in arguments],
            cwd=self.folder,
            env={**self.env, **variables},
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def ask(self, program: str, *arguments: str | Path, **variables: str) -> Any:
        """Run a program of `programs`; return the JSON of its last line."""
        file = PROGRAMS / f"{program}.py"
        # outside of a task there are no Variables
        known = {"AIRFLOW__GRAVELER__DEPLOYMENT": "programs", **variables}
        printed = self.run(sys.executable, "-P", file, *arguments, **known)
        return json.loads(printed.splitlines()[-1])

    @contextmanager
    def services(self):
        """Run an API server and a scheduler (LocalExecutor) during a block; yield their API."""
        with self.service("api-server", "scheduler", grace=0):
            self.run(AIRFLOW, "dags", "reserialize")
            yield Api(self)

    @contextmanager
    def service(self, *names: str, grace: float = 30):
        """Run services during a block. They have `grace` seconds to end, or are killed at once."""
        services = Services(self.folder, self.env, {name: (str(AIRFLOW), name) for name in names})
        services.start()
        self.running.append(services)
        try:
            yield
        finally:
            self.running.remove(services)
            if grace:
                services.stop(grace)
            else:
                services.die()


class Api:
    """The part of Airflow's REST API that the tests need."""

    def __init__(self, home: Home) -> None:
        self._home = home
        self._url = f"http://127.0.0.1:{home.port}"
        self._token = ""
        self._open = urllib.request.build_opener(urllib.request.ProxyHandler({})).open

    def call(self, method: str, path: str, body: object = None, *, again: int = _AGAIN) -> Any:
        """Return the answer to a request. A request that Airflow cannot answer yet is repeated."""
        request = urllib.request.Request(  # noqa: S310 - our own address
            self._url + path,
            data=None if body is None else json.dumps(body).encode(),
            method=method,
            headers={
                "Content-Type": "application/json",
                **({"Authorization": f"Bearer {self._token}"} if self._token else {}),
            },
        )
        try:
            with self._open(request, timeout=_ANSWER_S) as answer:
                return json.load(answer)
        except urllib.error.HTTPError as error:
            told = error.read()[:500]
            # SQLite allows one writer: Airflow answers so if another process writes for too long.
            # It also fails to show the events whose run is queued.
            passes = error.code == HTTPStatus.INTERNAL_SERVER_ERROR
            if not (again and passes and (method == "GET" or _BUSY in told)):
                raise AssertionError(f"{method} {path}: {error.code} {told!r}") from error
        SystemClock().sleep(1)
        return self.call(method, path, body, again=again - 1)

    def sign_in(self) -> None:
        """Wait until both processes run, and get a token."""

        def up():
            try:
                health = self.call("GET", "/api/v2/monitor/health")
            except OSError:
                return False
            return health["scheduler"]["status"] == "healthy"

        self.wait(up, "the scheduler to be healthy")
        self._token = self.call("GET", "/auth/token")["access_token"]

    def wait(self, done: Any, what: str) -> None:
        """Wait for what comes later. A service that has ended fails the wait at once."""
        deadline = monotonic() + PATIENCE
        while not done():
            ended = [name for services in self._home.running for name in services.ended()]
            assert not ended, f"{ended} ended while a test waited for {what}\n{self.logs()}"
            assert monotonic() < deadline, f"waited {PATIENCE} s for {what}\n{self.logs()}"
            SystemClock().sleep(0.5)

    def logs(self) -> str:
        return logs_of(self._home.folder)

    def trigger(self, dag_id: str, partition: str | None = None, **params: str) -> Any:
        """Start a run by hand, for a partition if one is given; return its id."""
        body = {"logical_date": None, "partition_key": partition, "conf": params}
        return self.call("POST", f"/api/v2/dags/{dag_id}/dagRuns", body)["dag_run_id"]

    def backfill(self, dag_id: str, first: str, last: str) -> None:
        body = {"dag_id": dag_id, "from_date": first, "to_date": last, "max_active_runs": 3}
        body["reprocess_behavior"] = "failed"  # required with depends_on_past
        self.call("POST", "/api/v2/backfills", body)

    def clear(self, dag_id: str, run_id: str, *task_ids: str) -> None:
        """Clear tasks of a finished run, as the button Clear does."""
        body = {
            "dry_run": False,
            "dag_run_id": run_id,
            "task_ids": list(task_ids),
            "only_failed": False,
            "include_downstream": True,
            "reset_dag_runs": True,
        }
        self.call("POST", f"/api/v2/dags/{dag_id}/clearTaskInstances", body)

    def clear_run(self, dag_id: str, run_id: str) -> None:
        """Clear all tasks of a finished run."""
        body = {"dry_run": False, "only_failed": False}
        self.call("POST", f"/api/v2/dags/{dag_id}/dagRuns/{run_id}/clear", body)

    def runs(self, dag_id: str) -> Any:
        return self.call("GET", f"/api/v2/dags/{dag_id}/dagRuns")["dag_runs"]

    def finished(self, dag_id: str, count: int = 1) -> dict[str, str]:
        """Wait for `count` runs to end; return their states by partition key or id."""

        def over() -> bool:
            states = [run["state"] for run in self.runs(dag_id)]
            return len(states) >= count and not {*states} & {"queued", "running"}

        self.wait(over, f"{count} runs of {dag_id}")
        return {
            run["partition_key"] or run["dag_run_id"]: run["state"] for run in self.runs(dag_id)
        }

    def links(self, dag_id: str, task_id: str) -> dict[str, str | None]:
        """Return the extra links of a task of the only run of a DAG."""
        (run,) = self.runs(dag_id)
        task = f"/api/v2/dags/{dag_id}/dagRuns/{run['dag_run_id']}/taskInstances/{task_id}"
        return dict(self.call("GET", f"{task}/links")["extra_links"])

    def tasks(self, dag_id: str, run_id: str) -> dict[str, tuple[str, int]]:
        """Return the state and the number of the last try of each task."""
        return {
            task["task_id"]: (task["state"], task["try_number"])
            for task in self._tasks(dag_id, run_id)
        }

    def processes(self, dag_id: str, run_id: str) -> dict[str, int | None]:
        """Return the process of the last try of each task, or None if no worker has run it."""
        return {task["task_id"]: task["pid"] for task in self._tasks(dag_id, run_id)}

    def _tasks(self, dag_id: str, run_id: str) -> Any:
        path = f"/api/v2/dags/{dag_id}/dagRuns/{run_id}/taskInstances"
        return self.call("GET", path)["task_instances"]
