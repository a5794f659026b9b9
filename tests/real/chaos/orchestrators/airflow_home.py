"""An Airflow that may be killed piece by piece: and be made whole again."""

import shutil
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import graveler
from graveler.clock import SystemClock
from tests.real.airflow.home import AIRFLOW, ROOT, Api, Home, free_port
from tests.real.chaos.processes.services import Services

SERVICES = ("api-server", "scheduler", "dag-processor", "triggerer")
HEARTBEAT_TIMEOUT = 25
_AGAIN = 10


@dataclass(frozen=True)
class ChaosHome(Home):
    """A home whose Airflow notices soon that something has died."""

    reaper: int = 1

    @property
    def env(self) -> dict[str, str]:
        return {
            **super().env,
            "CHAOS_FOLDER": str(self.folder / "chaos"),
            "CHAOS_REAPER": str(self.reaper),
            "AIRFLOW_CONN_GRAVELER_DEFAULT": (
                f'{{"conn_type": "graveler", "host": "{self.lake}", "extra": {{"repo": "hours"}}}}'
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
        }


def make_home(folder: Path, reaper: int) -> ChaosHome:
    """Return a home with a lake, the DAGs and an empty metadata database."""
    home = ChaosHome(folder, free_port(), reaper)
    home.dags.mkdir()
    shutil.copy(ROOT / "tests/real/chaos/dags/hourly.py", home.dags)
    with graveler.open(home.lake, create=True) as lake:
        lake.create_repository("hours").protection.add("main")
    home.run(AIRFLOW, "db", "migrate")
    return home


@dataclass
class Airflow:
    """The services of a home, and their REST API.

    Attributes:
        home: Where.
        api: As it is.
        services: What runs.
    """

    home: ChaosHome
    api: Api = field(init=False)
    services: Services = field(init=False)

    def __post_init__(self) -> None:
        self.api = Api(f"http://127.0.0.1:{self.home.port}", self.home.folder)
        commands = {name: [str(AIRFLOW), name] for name in SERVICES}
        self.services = Services(self.home.folder, self.home.env, commands)

    def call(self, method: str, path: str, body: object = None) -> Any:
        """Ask the API, again where its database had no time."""
        for _ in range(_AGAIN):
            try:
                return self.api.call(method, path, body)
            except AssertionError as refused:
                if ": 500 " not in str(refused):
                    raise
                SystemClock().sleep(1)
        return self.api.call(method, path, body)

    def ready(self, dags: int) -> None:
        """Wait until it answers and knows its DAGs, and sign in."""
        self.api.sign_in()

        def parsed() -> bool:
            broken = self.api.call("GET", "/api/v2/importErrors")["import_errors"]
            assert not broken, broken[0]["stack_trace"]
            return bool(self.api.call("GET", "/api/v2/dags")["total_entries"] >= dags)

        self.api.wait(parsed, "its DAGs")

    def backfill(self, dag_id: str, first: str, last: str, *, at_once: int) -> None:
        """Make the runs of so many hours."""
        body = {"dag_id": dag_id, "from_date": first, "to_date": last, "max_active_runs": at_once}
        self.call("POST", "/api/v2/backfills", body)
