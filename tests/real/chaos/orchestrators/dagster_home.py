"""A Dagster whose services can be killed one by one: daemon, webserver, code server."""

import json
import subprocess
import sys
import urllib.error
import urllib.request
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from time import monotonic
from typing import Any

import graveler
from graveler.base.clock import SystemClock
from graveler.config import environment
from tests.harness.wires import free_port
from tests.real.airflow.home import ROOT
from tests.real.chaos.plan import UNDOABLE
from tests.real.chaos.processes.services import Services

_MODULE = "tests.real.chaos.orchestrators.dagster_pipeline"
_PATIENCE = 120
_AGAIN = 10
_INSTANCE = """\
run_coordinator:
  module: dagster.core.run_coordinator
  class: QueuedRunCoordinator
  config: {{max_concurrent_runs: {at_once}, dequeue_interval_seconds: 1}}
run_monitoring:
  enabled: true
  poll_interval_seconds: 5
  start_timeout_seconds: 300
  cancel_timeout_seconds: 30
  max_runtime_seconds: {longest}
telemetry: {{enabled: false}}
"""


def _program(name: str) -> str:
    return str(Path(sys.executable).with_name(name))


_DAGSTER = _program("dagster")


@dataclass
class Dagster:
    """The services of a home, and their GraphQL API.

    Attributes:
        folder: The home.
        reaper: The process id of the reaper.
        port: The port of the webserver.
        code_port: The port of the code server.
        services: The running services.
    """

    folder: Path
    reaper: int
    port: int = field(default_factory=free_port)
    code_port: int = field(default_factory=free_port)
    services: Services = field(init=False)

    def __post_init__(self) -> None:
        code = ["--grpc-port", str(self.code_port)]
        web = ["-p", str(self.port), "--live-data-poll-rate", "60000"]
        commands = {
            "code-server": [_DAGSTER, "api", "grpc", "-m", _MODULE, "-p", str(self.code_port)],
            "daemon": [_program("dagster-daemon"), "run", *code],
            "webserver": [_program("dagster-webserver"), *web, *code],
        }
        self.services = Services(self.folder, self.env, commands)
        self._open = urllib.request.build_opener(urllib.request.ProxyHandler({})).open

    @property
    def lake(self) -> Path:
        return self.folder / "lake"

    @property
    def env(self) -> dict[str, str]:
        return {
            "PATH": environment("PATH"),
            "HOME": str(self.folder),
            "PYTHONPATH": f"{ROOT}:{ROOT / 'integrations'}",
            "DAGSTER_HOME": str(self.folder),
            "CHAOS_FOLDER": str(self.folder / "chaos"),
            "CHAOS_LAKE": str(self.lake),
            "CHAOS_REAPER": str(self.reaper),
        }

    def start(self, *names: str) -> None:
        """Start the named services, or all of them."""
        first, *others = names or tuple(self.services.commands)
        self.services.start(first)
        if others:
            SystemClock().sleep(2)  # they look for the code server only at intervals
            self.services.start(*others)

    def ask(self, query: str, **variables: Any) -> Any:
        """Send a GraphQL request to the webserver, and return the single field of its answer."""
        request = urllib.request.Request(
            f"http://127.0.0.1:{self.port}/graphql",
            data=json.dumps({"query": query, "variables": variables}).encode(),
            headers={"Content-Type": "application/json"},
        )
        try:
            with self._open(request, timeout=60) as answer:
                said = json.load(answer)
        except urllib.error.HTTPError as error:
            raise AssertionError(f"{query}: {error.code} {error.read()[:800]!r}") from error
        assert "errors" not in said, said["errors"]
        (value,) = said["data"].values()
        return value

    def look(self, query: str, **variables: Any) -> Any:
        """Send a read-only request, and repeat it if the database is busy."""
        for _ in range(_AGAIN):
            with suppress(AssertionError, TimeoutError):
                return self.ask(query, **variables)
            SystemClock().sleep(1)
        return self.ask(query, **variables)

    def ready(self) -> None:
        """Wait until the webserver answers and has the pipeline."""
        until = monotonic() + _PATIENCE
        query = "{repositoriesOrError {... on RepositoryConnection {nodes {name}}}}"
        while True:
            with suppress(OSError, AssertionError):
                if self.ask(query).get("nodes"):
                    return
            assert monotonic() < until, f"Dagster does not answer\n{self.services.logs()}"
            SystemClock().sleep(0.5)


def make_home(folder: Path, reaper: int, *, at_once: int, longest: float) -> Dagster:
    """Return a home with a lake and an empty instance."""
    settings = _INSTANCE.format(at_once=at_once, longest=int(longest))
    (folder / "dagster.yaml").write_text(settings)
    with graveler.open(folder / "lake", create=True) as lake:
        lake.create_repository("hours").protection.add("main", UNDOABLE)
    dagster = Dagster(folder, reaper)
    # services that create its databases at the same time can damage them permanently
    command = [_DAGSTER, "instance", "info"]
    made = subprocess.run(command, cwd=folder, env=dagster.env, capture_output=True, text=True)
    assert made.returncode == 0, made.stdout + made.stderr
    return dagster
