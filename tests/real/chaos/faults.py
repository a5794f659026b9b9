"""Faults inside a process, at the place and the number of times that the plan says.

A process that works on an hour makes its `FaultInjector`. The plan is a file, so that every
process of every orchestrator finds it. Files also count how often a fault has occurred.
"""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from dataclasses import asdict, dataclass
from datetime import datetime
from pathlib import Path
from time import monotonic
from typing import Any

from graveler.base.clock import SystemClock
from graveler.config import environment
from graveler.errors import GravelerError
from graveler.kv.driver import Driver
from tests.real.chaos.hours import GARBAGE

_PLAN = "plan.json"
_ONCE_MORE = 0.25


@dataclass(frozen=True)
class Fault:
    """A fault in a process of an hour.

    Attributes:
        name: The name, unique in the plan.
        hour: ISO time of the hour.
        task: The task in which it occurs.
        deed: ``raise``, ``kill``, ``exit``, ``term``, ``supervisor`` (the parent dies, this
            process continues), ``both``, ``hold`` and ``hang`` (it continues to write garbage), or
            ``damage`` (it succeeds with an extra file).
        number: 0 for the middle of the task's writing, or the number of a conditional write.
        on: The start of the keys whose conditional writes are counted.
        after: Whether it occurs after the conditional write, and not before.
        times: The number of executions in which it occurs.
        seconds: The time for which it holds or hangs.
        zombie: Whether it first starts a writer that outlives the process.
    """

    name: str
    hour: str
    task: str
    deed: str
    number: int = 0
    on: str = ""
    after: bool = False
    times: int = 1
    seconds: float = 0
    zombie: bool = False


def write_plan(folder: Path, faults: list[Fault]) -> None:
    """Write the plan to the folder where processes look for it."""
    for name in ("spent", "reached", "said"):
        (folder / name).mkdir(parents=True, exist_ok=True)
    (folder / _PLAN).write_text(json.dumps([asdict(fault) for fault in faults]))


def read_plan(folder: Path) -> list[Fault]:
    """Return the faults of the plan in a folder."""
    return [Fault(**fault) for fault in json.loads((folder / _PLAN).read_text())]


def say(folder: Path, **facts: Any) -> None:
    """Write a fact for the judge, as a line in this process's own file."""
    with (folder / "said" / f"{os.getpid()}.jsonl").open("a") as out:
        out.write(json.dumps(facts) + "\n")


class FaultInjector:
    """The faults of one task of one hour."""

    def __init__(self, folder: Path, hour: str, task: str, *, parent: int | None = None) -> None:
        self._folder = folder
        self._task = task
        self._hour = hour
        self._faults = [
            fault for fault in read_plan(folder) if fault.hour == hour and fault.task == task
        ]
        self._parent = parent or os.getppid()

    def arm(self) -> None:
        """Prepare the faults at conditional writes."""
        waiting = [fault for fault in self._faults if fault.number]
        if not waiting:
            return
        plain = Driver.set_if
        counts = dict.fromkeys(waiting, 0)

        def strike(key: bytes, *, after: bool) -> None:
            for fault in waiting:
                if fault.after is after and key.startswith(fault.on.encode()):
                    counts[fault] += 1
                    if counts[fault] == fault.number:
                        self._strike(fault, None)

        def counting(store: Driver, partition: str, key: bytes, *args: Any) -> Any:
            strike(key, after=False)
            written = plain(store, partition, key, *args)
            strike(key, after=True)  # not after a write that lost its race
            return written

        setattr(Driver, "set_if", counting)  # noqa: B010 - in this process alone

    def pause(self, step: Any) -> None:
        """Cause the faults that belong in the middle of the work."""
        for fault in self._faults:
            if not fault.number:
                self._strike(fault, step)

    def _strike(self, fault: Fault, step: Any) -> None:
        turn = self._take(fault)
        if turn is None:
            return
        say(self._folder, fault=fault.name, turn=turn, pid=os.getpid(), time=monotonic())
        if fault.zombie and step is not None:
            self._leave_zombie(step, fault)
        (self._folder / "reached" / fault.name).touch()
        _DEEDS[fault.deed](self, fault, step)

    def _take(self, fault: Fault) -> int | None:
        """Return the number of this execution, or None if the fault has occurred often enough."""
        for turn in range(fault.times):
            try:
                (self._folder / "spent" / f"{fault.name}.{turn}").open("x").close()
            except FileExistsError:
                continue
            return turn
        return None

    def _leave_zombie(self, step: Any, fault: Fault) -> None:
        orders = {
            "folder": str(self._folder),
            "handle": step.run.to_json(),
            "branch": step.name,
            "fence": step._fence,
            "hour": self._hour,
            "fault": fault.name,
            "task": str(os.getpid()),
        }
        subprocess.Popen(
            [sys.executable, "-m", "tests.real.chaos.processes.zombie", json.dumps(orders)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,  # a pipe of the parent would keep its reader waiting
            start_new_session=True,
        )

    def raises(self, fault: Fault, step: Any) -> None:
        raise RuntimeError(f"{fault.name}: half of it is written")

    def kill(self, fault: Fault, step: Any) -> None:
        os.kill(os.getpid(), signal.SIGKILL)

    def exit(self, fault: Fault, step: Any) -> None:
        os._exit(3)

    def term(self, fault: Fault, step: Any) -> None:
        os.kill(os.getpid(), signal.SIGTERM)

    def supervisor(self, fault: Fault, step: Any) -> None:
        self._kill_parent()
        self.hold(fault, step)

    def both(self, fault: Fault, step: Any) -> None:
        self._kill_parent()
        os.kill(os.getpid(), signal.SIGKILL)

    def hold(self, fault: Fault, step: Any) -> None:
        """Continue to write, whatever state the orchestrator gives to this process."""
        until = monotonic() + fault.seconds
        number = 0
        while monotonic() < until:
            number += 1
            if step is not None:
                path = f"zombies/{fault.name}-{GARBAGE}-{number}"
                try:
                    step.put(path, b"written after its time")
                    step.delete(path)
                except GravelerError as error:
                    say(self._folder, held=fault.name, refused=error.code)
                    raise
            SystemClock().sleep(_ONCE_MORE)

    def damage(self, fault: Fault, step: Any) -> None:
        step.put(f"input/{datetime.fromisoformat(self._hour):%Y/%m/%d/%H:%M}/{GARBAGE}-more", b"1")

    def _kill_parent(self) -> None:
        # the parent of an orphan is the reaper or init
        if self._parent > 1 and self._parent != int(environment("CHAOS_REAPER", "1")):
            os.kill(self._parent, signal.SIGKILL)


def parent_of(process: int | str = "self") -> int:
    """Return the parent of a process, or 1 if the process is dead."""
    try:
        stat = Path("/proc", str(process), "stat").read_text()
    except OSError:
        return 1
    return int(stat.rpartition(")")[2].split()[1])


_DEEDS: dict[str, Callable[[FaultInjector, Fault, Any], None]] = {
    "raise": FaultInjector.raises,
    "kill": FaultInjector.kill,
    "exit": FaultInjector.exit,
    "term": FaultInjector.term,
    "supervisor": FaultInjector.supervisor,
    "both": FaultInjector.both,
    "hold": FaultInjector.hold,
    "hang": FaultInjector.hold,
    "damage": FaultInjector.damage,
}
