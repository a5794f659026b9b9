"""The services of an orchestrator: what ends or is killed is started again, as by an init system."""

import os
import signal
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from time import monotonic

from graveler.clock import SystemClock
from tests.real.chaos.processes.reaper import descendants


@dataclass
class Services:
    """Processes by name, with a log each in the folder in which they run.

    Attributes:
        folder: Where.
        env: Their environment.
        commands: What each of them is, in the order in which they start.
        homes: The folders of services that run as on a host of their own.
    """

    folder: Path
    env: Mapping[str, str]
    commands: Mapping[str, Sequence[str]]
    homes: Mapping[str, Path] = field(default_factory=dict)
    _running: dict[str, "subprocess.Popen[bytes]"] = field(default_factory=dict)

    def start(self, *names: str) -> None:
        """Start services: all of them where none is named."""
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
        """Start again what ended without having been told to, and return the names."""
        ended = [name for name, process in self._running.items() if process.poll() is not None]
        if ended:
            self.start(*ended)
        return ended

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

    def stop(self, patience: float = 10) -> None:
        """Ask all services to end, and kill what has not after so many seconds."""
        for process in self._running.values():
            process.terminate()
        until = monotonic() + patience
        while monotonic() < until and any(each.poll() is None for each in self._running.values()):
            SystemClock().sleep(0.2)
        self.die()

    def logs(self) -> str:
        """Return the last lines of each log."""
        return "\n".join(
            f"--- {log.name}\n" + "\n".join(log.read_text("utf-8", "replace").splitlines()[-40:])
            for log in sorted(self.folder.glob("*.log"))
        )
