"""An Airflow whose services can be killed one by one and restarted."""

import json
import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import graveler
from graveler.base.clock import SystemClock
from graveler_common.settings import settings_location
from tests.harness.servers.moto import S3Server, moto_s3
from tests.harness.servers.postgres import postgres_server, schema, socket_of
from tests.harness.servers.redis import redis_server
from tests.harness.wires import free_port
from tests.real.airflow.home import AIRFLOW, ROOT, Api, Home
from tests.real.chaos.processes.services import Services

WORKERS = ("worker-1", "worker-2")
SERVICES = ("api-server", "scheduler", "dag-processor", "triggerer")
HEARTBEAT_TIMEOUT = 25
_AGAIN = 10


@dataclass(frozen=True)
class ChaosHome(Home):
    """A home whose Airflow quickly detects dead processes.

    Attributes:
        reaper: The process id of the reaper.
        connection: The fields of the connection of the lake.
        executor: The settings of the executor.
    """

    reaper: int = 1
    connection: Mapping[str, Any] = field(default_factory=dict)
    executor: Mapping[str, str] = field(default_factory=dict)

    @property
    def env(self) -> dict[str, str]:
        return {
            **super().env,
            "CHAOS_FOLDER": str(self.folder / "chaos"),
            "CHAOS_REAPER": str(self.reaper),
            "AIRFLOW_CONN_GRAVELER_DEFAULT": json.dumps(
                {"conn_type": "graveler", **self.connection}
            ),
            "AIRFLOW__API__MAXIMUM_PAGE_LIMIT": "500",
            "AIRFLOW__CORE__PARALLELISM": "6",
            "AIRFLOW__DAG_PROCESSOR__MIN_FILE_PROCESS_INTERVAL": "3600",
            "AIRFLOW__DAG_PROCESSOR__PARSING_PROCESSES": "1",
            "AIRFLOW__DAG_PROCESSOR__STALE_DAG_THRESHOLD": "36000",
            "AIRFLOW__SCHEDULER__ORPHANED_TASKS_CHECK_INTERVAL": "15",
            "AIRFLOW__SCHEDULER__SCHEDULER_HEALTH_CHECK_THRESHOLD": "20",
            "AIRFLOW__SCHEDULER__SCHEDULER_IDLE_SLEEP_TIME": "0.5",
            "AIRFLOW__SCHEDULER__TASK_INSTANCE_HEARTBEAT_SEC": "3",
            "AIRFLOW__SCHEDULER__TASK_INSTANCE_HEARTBEAT_TIMEOUT": str(HEARTBEAT_TIMEOUT),
            "AIRFLOW__SCHEDULER__TASK_INSTANCE_HEARTBEAT_TIMEOUT_DETECTION_INTERVAL": "5",
            "AIRFLOW__SCHEDULER__TASK_QUEUED_TIMEOUT": "60",
            "AIRFLOW__SCHEDULER__TASK_QUEUED_TIMEOUT_CHECK_INTERVAL": "15",
            "AIRFLOW__WORKERS__MIN_HEARTBEAT_INTERVAL": "3",
            "AIRFLOW__WORKERS__SOCKET_CLEANUP_TIMEOUT": "10",
            **self.executor,
        }


@contextmanager
def local(folder: Path) -> Iterator[tuple[str, dict[str, Any], dict[str, str]]]:
    """Yield a lake in a folder, for a LocalExecutor: its location, connection, and no settings."""
    place = str(folder / "lake")
    graveler.init(place).close()
    yield place, {"host": place, "extra": {"repo": "hours"}}, {}


@contextmanager
def celery(folder: Path) -> Iterator[tuple[str, dict[str, Any], dict[str, str]]]:
    """Yield a lake in PostgreSQL and S3, and Redis, for a CeleryExecutor with separate workers."""
    with ExitStack() as stack:
        database = stack.enter_context(postgres_server())
        host = stack.enter_context(schema(socket_of(database)))
        broker = stack.enter_context(redis_server())
        endpoint = stack.enter_context(S3Server()).endpoint
        moto_s3().create_bucket("hours", "us-east-1")
        extra = {
            "storage": "s3://hours/lake",
            "endpoint_url": endpoint,
            "region": "us-east-1",
            "access_key": "key-of-s3",
            "secret_key": "secret-of-s3",
        }
        settings = {
            "kv": {"uri": host},
            "storage": {"uri": extra["storage"]},
            "s3": {name: value for name, value in extra.items() if name != "storage"},
            "cache": {"folder": str(folder / "cache")},
        }
        executor = {
            "AIRFLOW__CORE__EXECUTOR": "CeleryExecutor",
            "AIRFLOW__CELERY__BROKER_URL": broker,
            "AIRFLOW__CELERY__RESULT_BACKEND": broker,
            "AIRFLOW__CELERY__WORKER_CONCURRENCY": "3",
        }
        connection = {"host": host, "extra": {**extra, "repo": "hours"}}
        yield settings_location(settings), connection, executor


EXECUTORS: dict[str, Callable[[Path], Any]] = {"celery": celery, "local": local}


def make_home(
    folder: Path, reaper: int, connection: Mapping[str, Any], executor: Mapping[str, str]
) -> ChaosHome:
    """Return a home with the DAGs and an empty metadata database."""
    home = ChaosHome(folder, free_port(), reaper, connection, executor)
    home.dags.mkdir()
    shutil.copy(ROOT / "tests/real/chaos/dags/hourly.py", home.dags)
    home.run(AIRFLOW, "db", "migrate")
    return home


@dataclass
class Airflow:
    """The services of a home, and their REST API.

    Attributes:
        home: The home.
        api: The REST API.
        services: The running services.
    """

    home: ChaosHome
    api: Api = field(init=False)
    services: Services = field(init=False)

    def __post_init__(self) -> None:
        self.api = Api(self.home)
        commands = {name: [str(AIRFLOW), name] for name in SERVICES}
        workers = WORKERS if self.home.executor else ()
        for name in workers:
            options = ["--celery-hostname", f"{name}@%h", "--skip-serve-logs"]
            commands[name] = [str(AIRFLOW), "celery", "worker", *options]
        homes = {name: self.home.folder / name for name in workers}
        self.services = Services(self.home.folder, self.home.env, commands, homes)

    def call(self, method: str, path: str, body: object = None) -> Any:
        """Call the API, and repeat the call if its database is busy."""
        for _ in range(_AGAIN):
            try:
                return self.api.call(method, path, body)
            except AssertionError as refused:
                if ": 500 " not in str(refused) and ": 503 " not in str(refused):
                    raise
                SystemClock().sleep(1)
        return self.api.call(method, path, body)

    def ready(self, dags: int) -> None:
        """Wait until the API answers and has the DAGs, and sign in."""
        self.api.sign_in()

        def parsed() -> bool:
            broken = self.api.call("GET", "/api/v2/importErrors")["import_errors"]
            assert not broken, broken[0]["stack_trace"]
            return bool(self.api.call("GET", "/api/v2/dags")["total_entries"] >= dags)

        self.api.wait(parsed, "its DAGs")

    def backfill(self, dag_id: str, first: str, last: str, *, at_once: int) -> None:
        """Create the runs from `first` to `last`."""
        body = {"dag_id": dag_id, "from_date": first, "to_date": last, "max_active_runs": at_once}
        body["reprocess_behavior"] = "failed"  # required with depends_on_past
        self.call("POST", "/api/v2/backfills", body)
