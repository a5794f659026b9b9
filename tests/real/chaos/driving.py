"""An orchestrator under a plan: actions on it from outside, and the wait until it is idle."""

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from time import monotonic

import graveler
from graveler.base.clock import SystemClock
from graveler.errors import PreconditionFailedError, RunNotFoundError
from graveler.lake import Repository, RunRecord, RunState
from tests.real.chaos.faults import write_plan
from tests.real.chaos.judging import hours_of, standing_runs, state_of_main
from tests.real.chaos.plan import DISASTERS, ON_LAKE, Act, Fate, Plan, key_of

RENEW = "next attempt"
AGAIN = "from the beginning"
GRACE, WINDOW = "60s", "30s"  # longer than an operation takes
UP_AGAIN = 6.0
"""Seconds for which a killed service stays down."""

_LOOK = 3.0
_SEEN = 2
"""The number of looks without a working task before a run counts as idle."""


@dataclass
class Row:
    """The results of one hour, for each time that its run was over.

    Attributes:
        fate: The planned events.
        ran: The states of the run and its tasks in the orchestrator, each time.
        main: The state of main, each time.
        branch: The state of the run's branch, each time.
        begun: How often the run was restarted on purpose.
        lost: How often the run ended before its first task, with the process that started it.
        idle: How often the run was seen idle since.
        owed: Whether the run is restarted until main is whole, because main was put back.
    """

    fate: Fate
    ran: list[str] = field(default_factory=list)
    main: list[str] = field(default_factory=list)
    branch: list[str] = field(default_factory=list)
    begun: int = 0
    lost: int = 0
    idle: int = 0
    owed: bool = False


class Chaos(ABC):
    """Carries out one plan.

    Args:
        folder: The home.
        plan: The planned events.
        say: Receives lines about the progress.
        patience: Seconds to wait for an idle orchestrator.
    """

    def __init__(
        self, folder: Path, plan: Plan, *, say: Callable[[str], None], patience: float
    ) -> None:
        self.folder = folder
        self.plan = plan
        self.rows = {fate.hour: Row(fate) for fate in plan.fates}
        self.done: Counter[str] = Counter()
        self.wrong: list[str] = []
        self._say = say
        self._patience = patience
        self._acts = {fate.hour: list(fate.acts) for fate in plan.fates}
        self._disasters = list(plan.disasters)
        self._began = monotonic()
        self._lake: Repository

    @property
    def lake(self) -> str:
        """The lake's location."""
        return str(self.folder / "lake")

    def close(self) -> None:  # noqa: B027 - most lakes have no servers
        """End the servers of the lake, after the check."""

    def hosts(self) -> list[str]:
        """Return the hosts on which tasks ran, if there are several."""
        return []

    @abstractmethod
    def start(self) -> None:
        """Start the orchestrator, and give it the hours."""

    @abstractmethod
    def stop(self) -> None:
        """End the orchestrator."""

    @abstractmethod
    def tend(self) -> list[str]:
        """Restart services that ended without a kill, and return their names."""

    @abstractmethod
    def over(self) -> dict[datetime, bool]:
        """Return for each hour whether its run is over. Hours without a run may be missing."""

    @abstractmethod
    def ran(self, row: Row) -> str | None:
        """Return the states of a run that is over, or None while one of its tasks works."""

    @abstractmethod
    def act(self, act: Act, fate: Fate) -> None:
        """Act on a run, or begin its next attempt."""

    @abstractmethod
    def strike(self, deed: str, during: tuple[Fate, str] | None = None) -> None:
        """Act on all runs; `during` is the task that waits for the act, if any."""

    @abstractmethod
    def key(self, fate: Fate) -> str:
        """Return the key of the hour's run in the lake."""

    @abstractmethod
    def published(self) -> dict[datetime, bool]:
        """Return by hour whether the orchestrator counts it as published."""

    @abstractmethod
    def shown(self) -> list[str]:
        """Return what the orchestrator shows of a partition and main does not have, or reverse."""

    def settled(self) -> bool:
        """Return whether nothing follows by itself when all runs are over."""
        return True

    def lost(self, keys: set[str]) -> None:  # noqa: B027 - most runs belong to an hour of the plan
        """Run again what main has lost and no hour of the plan makes."""

    def happened(self, fate: Fate) -> bool:
        """Return whether the planned events of an hour have occurred."""
        reached = self.folder / "chaos/reached"
        return bool(self.rows[fate.hour].ran) and not (
            self._acts[fate.hour]
            or any(not (reached / fault.name).exists() for fault in fate.faults)
        )

    @abstractmethod
    def logs(self) -> str:
        """Return the end of its logs."""

    def run(self) -> None:
        """Start the orchestrator, carry out the plan, and wait until no event is left."""
        write_plan(self.folder / "chaos", self.plan.faults)
        try:
            self.start()
            self.say("up")
            with graveler.open(self.lake) as lake:
                self._lake = lake.repository("hours")
                self._live()
        finally:
            self.stop()

    def say(self, line: str) -> None:
        """Report a line with the time."""
        self._say(f"{monotonic() - self._began:6.0f} s {line}")

    def record(self, fate: Fate) -> RunRecord | None:
        """Return the record of an hour's run in the lake."""
        try:
            return self._lake.runs.get(self.key(fate))
        except RunNotFoundError:
            return None

    def _live(self) -> None:
        looked = 0.0
        while True:
            SystemClock().sleep(0.5)
            self._do_acts_of_the_reached()
            if monotonic() < looked + _LOOK:
                continue
            looked = monotonic()
            for name in self.tend():
                self.say(f"the {name} had ended: started again\n{self.logs()}")
                self.done[f"{name} ended by itself"] += 1
            over = self.over()
            ended = sum(
                self._is_over(row, over.get(hour, False)) for hour, row in self.rows.items()
            )
            self._strike(ended)
            rests = ended == len(self.rows) and not self._disasters and all(self.over().values())
            if rests and self.settled():
                return
            left = [key_of(hour) for hour in self.rows if not over.get(hour)]
            assert monotonic() - self._began < self._patience, (
                f"not at rest after {self._patience} s: {left}\n{self.logs()}"
            )

    def _is_over(self, row: Row, state: bool) -> bool:
        """Return whether the run's events are over. If the run is idle, start its next event."""
        if not state:
            row.idle = 0
            return False
        acts = self._acts[row.fate.hour]
        nothing_left = all(act.after for act in acts)  # an act needs its fault first
        if len(row.ran) > row.begun:
            return nothing_left
        ran = self.ran(row)
        row.idle = 0 if ran is None else row.idle + 1
        if ran is None or row.idle < _SEEN:
            return False
        self._keep(row, ran)
        if acts and not acts[0].after and _began(ran):
            act = acts.pop(0)
        elif row.main[-1] != "whole" and (row.owed or row.begun < row.fate.renewals + row.lost):
            act = Act(AGAIN if row.owed else RENEW)
        else:
            return nothing_left
        row.begun += 1
        row.idle = 0
        self._do(act, row.fate)
        return False

    def _keep(self, row: Row, ran: str) -> None:
        if not _began(ran):
            row.lost += 1
            self.done["ended before it began"] += 1
        row.ran.append(ran)
        row.main.append(state_of_main(self._lake, row.fate.hour))
        row.branch.append(self._branch(row.fate))
        self.say(
            f"{key_of(row.fate.hour)} {row.fate.kind}: {ran}; main {row.main[-1]}, {row.branch[-1]}"
        )

    def _branch(self, fate: Fate) -> str:
        record = self.record(fate)
        if record is None:
            return "no run"
        told = f"{record.state.lower()}, attempt {record.attempt}"
        if record.state in (RunState.OPEN, RunState.PUBLISHING):
            later = record.updated + record.lease * 2 + timedelta(minutes=5)
            reaped = {done.key: done for done in self._lake.runs.reap(now=later)}
            done = reaped.get(record.key)
            told += f", {done.to_state.lower()} by the reaper" if done else ", NEVER REAPED"
        return told

    def _do_acts_of_the_reached(self) -> None:
        reached = self.folder / "chaos/reached"
        for hour, acts in self._acts.items():
            if acts and acts[0].after and (reached / acts[0].after).exists():
                self._do(acts.pop(0), self.rows[hour].fate)

    def _do(self, act: Act, fate: Fate) -> None:
        self.done[act.deed] += 1
        if act.deed in DISASTERS:
            self.strike(act.deed, (fate, act.task))
        elif act.deed in ON_LAKE:
            self._do_on_lake(act.deed, fate)
        else:
            self.act(act, fate)

    def _do_on_lake(self, deed: str, fate: Fate) -> None:
        lake = self._lake
        if deed == "roll back" and state_of_main(lake, fate.hour) == "whole":
            lake.runs.rollback(self.key(fate))
        elif deed == "undo main":
            self._undo(fate)
        marks = lake.gc.run(grace=GRACE, window=WINDOW)
        self.say(f"{deed} of {key_of(fate.hour)}; garbage: {[mark.state for mark in marks]}")
        if deed != "collect garbage":
            self.rows[fate.hour].owed = True
            self.act(Act(AGAIN), fate)

    def _undo(self, fate: Fate) -> None:
        """Undo the last move of main, and run the hours again that are lost by it."""
        if not standing_runs(self._lake):
            return
        while True:
            with suppress(PreconditionFailedError):  # an hour was published at the same time
                self._lake.undo("main")
                break
        move = next(move for move in self._lake.moves("main") if move.action == "undo")
        heads = (head for head in (move.before, move.after) if head is not None)
        stood, stands = (standing_runs(self._lake, head) for head in heads)
        before, after = map(hours_of, (stood, stands))
        self.lost(stood.keys() - stands.keys())
        for hour, row in self.rows.items():
            working = len(row.ran) <= row.begun
            row.owed = row.owed or working or hour in before - after
            if hour not in before - after or hour == fate.hour:
                continue
            self.say(f"main lost {key_of(hour)}")
            if working:
                self._acts[hour].append(Act(AGAIN))
            else:
                row.begun += 1
                row.idle = 0
                self._do(Act(AGAIN), row.fate)

    def _strike(self, ended: int) -> None:
        while self._disasters and self._disasters[0].over <= ended:
            disaster = self._disasters.pop(0)
            self.say(f"{disaster.deed} with {ended} hours over")
            self.done[disaster.deed] += 1
            self.strike(disaster.deed)


def _began(ran: str) -> bool:
    """Return whether any task of a run began."""
    return bool(ran.partition(": ")[2])
