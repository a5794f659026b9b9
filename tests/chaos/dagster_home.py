"""A Dagster that may be killed piece by piece: daemon, webserver, code server."""

import json
import os
import signal
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
from graveler.clock import SystemClock
from graveler.config import environment
from tests.airflow.home import ROOT, free_port
from tests.chaos.nest import descendants

__all__ = ["Dagster", "make_home"]

SERVICES = ("code-server", "daemon", "webserver")
_MODULE = "tests.chaos.dagster_pipeline"
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


@dataclass
class Dagster:
    """The services of a home; what is killed is started again, as an init system would.

    Attributes:
        folder: Where.
        nest: What nothing survives.
        port: Of the webserver.
        code_port: Of the code server.
    """

    folder: Path
    nest: int
    port: int = field(default_factory=free_port)
    code_port: int = field(default_factory=free_port)
    _running: dict[str, "subprocess.Popen[bytes]"] = field(default_factory=dict)

    def __post_init__(self) -> None:
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
            "CHAOS_NEST": str(self.nest),
        }

    def start(self, *names: str) -> None:
        """Start services: all of them where none is named."""
        code = ["--grpc-port", str(self.code_port)]
        commands = {
            "code-server": ["api", "grpc", "-m", _MODULE, "-p", str(self.code_port)],
            "daemon": ["run", *code],
            "webserver": ["-p", str(self.port), *code, "--live-data-poll-rate", "60000"],
        }
        programs = {"code-server": "dagster", "daemon": "dagster-daemon"}
        for name in names or SERVICES:
            program = Path(sys.executable).with_name(programs.get(name, f"dagster-{name}"))
            with (self.folder / f"{name}.log").open("ab") as log:
                self._running[name] = subprocess.Popen(
                    [str(program), *commands[name]],
                    cwd=self.folder,
                    env=self.env,
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=subprocess.STDOUT,
                    start_new_session=True,
                )
            if name == "code-server":
                SystemClock().sleep(2)  # the others look for it once, then every while

    def kill(self, name: str, *, whole: bool = False) -> None:
        """Kill a service with -9; `whole`: and everything that it has started."""
        process = self._running.pop(name)
        for victim in [process.pid, *(descendants(process.pid) if whole else ())]:
            with suppress(ProcessLookupError):
                os.kill(victim, signal.SIGKILL)
        process.wait()

    def die(self) -> None:
        """Let the host die: every process of it at once."""
        for name in list(self._running):
            self.kill(name, whole=True)

    def stop(self) -> None:
        """End all services, and what they have started."""
        self.die()

    def ask(self, query: str, **variables: Any) -> Any:
        """Ask the webserver in GraphQL, and return its one answer."""
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
        """Ask what changes nothing; again where the database had no time."""
        for _ in range(_AGAIN):
            with suppress(AssertionError, TimeoutError):
                return self.ask(query, **variables)
            SystemClock().sleep(1)
        return self.ask(query, **variables)

    def ready(self) -> None:
        """Wait until it answers and has loaded the pipeline."""
        until = monotonic() + _PATIENCE
        query = "{repositoriesOrError {... on RepositoryConnection {nodes {name}}}}"
        while True:
            with suppress(OSError, AssertionError):
                if self.ask(query).get("nodes"):
                    return
            assert monotonic() < until, f"Dagster does not answer\n{self.logs()}"
            SystemClock().sleep(0.5)

    def logs(self) -> str:
        return "\n".join(
            f"--- {log.name}\n" + "\n".join(log.read_text("utf-8", "replace").splitlines()[-40:])
            for log in sorted(self.folder.glob("*.log"))
        )


def make_home(folder: Path, nest: int, *, at_once: int, longest: float) -> Dagster:
    """Return a home with a lake and an empty instance."""
    settings = _INSTANCE.format(at_once=at_once, longest=int(longest))
    (folder / "dagster.yaml").write_text(settings)
    with graveler.open(folder / "lake") as lake:
        lake.create_repository("hours").protect("main")
    return Dagster(folder, nest)
