"""The services of an orchestrator. They are restarted when they end or are killed, as by init."""

import os
import signal
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from time import monotonic

from graveler.base.clock import SystemClock
from tests.real.chaos.processes.reaper import descendants


@dataclass
class Services:
    """Processes by name. Each has a log in the folder in which it runs.

    Attributes:
        folder: The folder of the services.
        env: Their environment.
        commands: Their commands, in the order of their start.
        homes: The folders of services that run as on separate hosts.
    """

    folder: Path
    env: Mapping[str, str]
    commands: Mapping[str, Sequence[str]]
    homes: Mapping[str, Path] = field(default_factory=dict)
    _running: dict[str, "subprocess.Popen[bytes]"] = field(default_factory=dict)

    def start(self, *names: str) -> None:
        """Start the named services, or all of them."""
        for name in names or self.commands:
            home = self.homes.get(name, self.folder)
            home.mkdir(exist_ok=True)
            own = {"HOME": str(home), "AIRFLOW_HOME": str(home)} if name in self.homes else {}
            with (self.folder / f"{name}.log").open("ab") as log:
                self._running[name] = subprocess.Popen(
                    self.commands[name],
                    cwd=home,
                    env={**self.env, **own},
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=subprocess.STDOUT,
                    start_new_session=True,
                )

    def tend(self) -> list[str]:
        """Restart the services that ended by themselves, and return their names."""
        ended = self.ended()
        if ended:
            self.start(*ended)
        return ended

    def ended(self) -> list[str]:
        """Return the names of the services that ended by themselves."""
        return [name for name, process in self._running.items() if process.poll() is not None]

    def kill(self, name: str, *, whole: bool = False) -> None:
        """Kill a service with SIGKILL; `whole` also kills all processes that it has started."""
        process = self._running.pop(name)
        for victim in [process.pid, *(descendants(process.pid) if whole else ())]:
            with suppress(ProcessLookupError):
                os.kill(victim, signal.SIGKILL)
        process.wait()

    def die(self) -> None:
        """Kill all processes at once, as the death of a host does."""
        for name in list(self._running):
            self.kill(name, whole=True)

    def stop(self, patience: float = 10) -> None:
        """Ask all services to end, and kill those that still run after `patience` seconds."""
        for process in self._running.values():
            process.terminate()
        until = monotonic() + patience
        while monotonic() < until and any(each.poll() is None for each in self._running.values()):
            SystemClock().sleep(0.2)
        self.die()

    def logs(self) -> str:
        """Return the last lines of each log."""
        return logs_of(self.folder)


def logs_of(folder: Path) -> str:
    """Return the last lines of each log in a folder."""
    return "\n".join(
        f"--- {log.name}\n" + "\n".join(log.read_text("utf-8", "replace").splitlines()[-40:])
        for log in sorted(folder.glob("*.log"))
    )
