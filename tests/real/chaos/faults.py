"""What strikes a process from inside: where its plan says so, as often as it says so.

A process that works on an hour asks for its `FaultInjector`. The plan lies in a file, so that every
process of whatever orchestrator finds it; how often a fault has fallen is kept in files too.
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

from graveler.clock import SystemClock
from graveler.config import environment
from graveler.errors import GravelerError
from graveler.kv.drivers import Driver
from tests.real.chaos.hours import GARBAGE

_PLAN = "plan.json"
_ONCE_MORE = 0.25


@dataclass(frozen=True)
class Fault:
    """Something that happens to a process of an hour.

    Attributes:
        name: Unique in the plan.
        hour: ISO time of the hour.
        task: The task it happens in.
        deed: ``raise``, ``kill``, ``exit``, ``term``, ``supervisor`` (the parent dies, this
            process goes on), ``both``, ``hold`` and ``hang`` (it goes on writing garbage),
            ``damage`` (it ends well, with a file too many).
        number: 0 in the middle of the task's writing; else at that conditional write,
        on: of those to keys that begin so.
        after: Behind the conditional write, not before it.
        times: In how many executions.
        seconds: For how long it holds or hangs.
        zombie: Before, it starts a writer that outlives it.
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
    """Put the plan where processes look for it."""
    for name in ("spent", "reached", "said"):
        (folder / name).mkdir(parents=True, exist_ok=True)
    (folder / _PLAN).write_text(json.dumps([asdict(fault) for fault in faults]))


def read_plan(folder: Path) -> list[Fault]:
    """Return the plan of a folder."""
    return [Fault(**fault) for fault in json.loads((folder / _PLAN).read_text())]


def say(folder: Path, **facts: Any) -> None:
    """Keep a fact for the judge; one line in a file of this process's own."""
    with (folder / "said" / f"{os.getpid()}.jsonl").open("a") as out:
        out.write(json.dumps(facts) + "\n")


class FaultInjector:
    """The faults that wait for one task of one hour."""

    def __init__(self, folder: Path, hour: str, task: str, *, parent: int | None = None) -> None:
        self._folder = folder
        self._task = task
        self._hour = hour
        self._faults = [
            fault for fault in read_plan(folder) if fault.hour == hour and fault.task == task
        ]
        self._parent = parent or os.getppid()

    def arm(self) -> None:
        """Let the faults at conditional writes wait for theirs."""
        waiting = [fault for fault in self._faults if fault.number]
        if not waiting:
            return
        plain = Driver.set_if
        counts = dict.fromkeys(waiting, 0)

        def counting(store: Driver, partition: str, key: bytes, *args: Any) -> Any:
            due = []
            for fault in waiting:
                if key.startswith(fault.on.encode()):
                    counts[fault] += 1
                    due += [fault] if counts[fault] == fault.number else []
            for fault in due:
                if not fault.after:
                    self._strike(fault, None)
            written = plain(store, partition, key, *args)
            for fault in due:
                if fault.after:
                    self._strike(fault, None)
            return written

        setattr(Driver, "set_if", counting)  # noqa: B010 - in this process alone

    def pause(self, step: Any) -> None:
        """Strike in the middle of the work."""
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
        """Return the how-manieth execution this is, None where the fault is spent."""
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
            stderr=subprocess.DEVNULL,  # the parent's pipe would keep its reader waiting
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
        """Go on writing, whatever the orchestrator thinks became of this process."""
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
        # an orphan has the reaper for a parent, or init
        if self._parent > 1 and self._parent != int(environment("CHAOS_REAPER", "1")):
            os.kill(self._parent, signal.SIGKILL)


def parent_of(process: int | str = "self") -> int:
    """Return the parent of a process, 1 where it is dead."""
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
