"""A writer that outlives its task: a separate process with the handles of the task.

When its task is dead, it writes garbage to the step's branch as long as writes succeed. When a
newer try or attempt has taken its place, or the run was parked, it tries everything else: it
writes and commits on the run's branch, starts a step, and publishes. None of these actions may be
acknowledged.
"""

import json
import sys
from collections.abc import Callable
from pathlib import Path
from time import monotonic
from typing import Any

import graveler
from graveler.base.clock import SystemClock
from graveler.errors import GravelerError
from graveler.lake import Repository, RunHandle
from graveler.repository.branch import Branch
from tests.real.chaos.faults import say
from tests.real.chaos.hours import GARBAGE

_LIFE = 40.0
_PATIENCE = 200.0
_ROUNDS = 2
"""The number of rounds in which it tries everything after it is fenced."""


class Zombie:
    """The writer."""

    def __init__(self, repository: Repository, orders: dict[str, str]) -> None:
        self._repository = repository
        self._folder = Path(orders["folder"])
        self._handle = RunHandle.from_json(orders["handle"])
        self._run = repository.runs.attach(self._handle)
        self._branch = orders["branch"]
        self._fence = orders["fence"]
        self._fault = orders["fault"]
        self._task = orders["task"]

    def live(self) -> None:
        """Write until its time is over, or until everything was refused in enough rounds."""
        waiting = monotonic() + _PATIENCE
        while _is_alive(self._task) and monotonic() < waiting:
            SystemClock().sleep(0.3)  # until then its writes are valid: its task joins them
        until = monotonic() + _LIFE
        rounds = 0
        while monotonic() < until and rounds < _ROUNDS:
            rounds += self._round(f"zombies/{self._fault}-{GARBAGE}-{rounds}")
            SystemClock().sleep(0.5)

    def _round(self, path: str) -> int:
        """Write once; return 1 if the round had actions that must be refused."""
        step = Branch(self._repository.stores, self._branch, fence=self._fence)
        step_is_dead = self._fence_of(self._branch) != self._fence
        run_is_dead = not self._fence_of(self._handle.branch).startswith(self._handle.fence)
        self._try("step.put", lambda: step.put(path, b"zombie"), dead=step_is_dead)
        if step_is_dead:
            self._try("step.commit", lambda: step.commit("zombie"), dead=True)
        if run_is_dead:
            run = self._run
            self._try("run.put", lambda: run.put(path, b"zombie"), dead=True)
            self._try("run.commit", lambda: run.commit("zombie"), dead=True)
            self._try("run.step", lambda: run.step("zombie").put(path, b"zombie"), dead=True)
            if self._repository.runs.get(run.key).fence != self._handle.fence:
                self._try("run.publish", run.publish, dead=True)
        return int(run_is_dead)

    def _fence_of(self, branch: str) -> str:
        """Return the current fence of a branch. A fence that is gone never comes back."""
        record = self._repository.stores.refs.branches.find(branch)
        return "" if record is None else record.fence

    def _try(self, what: str, deed: Callable[[], Any], *, dead: bool) -> None:
        try:
            deed()
        except GravelerError as error:
            said = str(error.code)
        else:
            said = ""
        say(self._folder, zombie=self._fault, tried=what, dead=dead, refused=said)


def _is_alive(process: str) -> bool:
    try:
        stat = Path("/proc", process, "stat").read_text()
    except OSError:
        return False
    return stat.rpartition(")")[2].split()[0] not in "ZX"


if __name__ == "__main__":
    given = json.loads(sys.argv[1])
    with graveler.open(RunHandle.from_json(given["handle"]).location) as lake:
        Zombie(lake.repository(RunHandle.from_json(given["handle"]).repository), given).live()
