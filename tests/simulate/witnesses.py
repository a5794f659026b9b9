"""Two behaviours that the protocol allows, as schedules that can be replayed.

``make`` finds each schedule again, step by step. This is useful when the code makes other
calls than when the schedule was recorded.
"""

from collections.abc import Callable
from dataclasses import dataclass

from tests.simulate.scenarios.scenario import Scenario
from tests.simulate.schedules.client import Client
from tests.simulate.schedules.run import KINDS, Run


@dataclass(frozen=True)
class Witness:
    """An unusual behaviour that the protocol allows.

    Attributes:
        scenario: The scenario in which it occurs.
        make: Takes the steps that show it.
        recorded: The schedule, as text.
    """

    scenario: Scenario
    make: Callable[[Run], None]
    recorded: str


def _increment(c: Client) -> None:
    c.put("k", str(int(c.read("k")) + 1))


def _observe(c: Client) -> None:
    for _ in range(3):
        c.read("k")
        c.commit()


def _one(c: Client) -> None:
    c.put("k", "1")


class _Director:
    """Takes the steps of a run by the names of its processes."""

    def __init__(self, run: Run) -> None:
        self._run = run
        self._number = {process.name: at for at, process in enumerate(run.processes)}

    def calls(self, name: str, count: int = 1) -> None:
        """Let a process make `count` calls."""
        for _ in range(count):
            self._run.take(self._number[name] * KINDS)

    def operations(self, name: str, count: int = 1) -> None:
        """Let a process complete `count` operations."""
        history = self._run.world.history
        for _ in range(count):
            completed = history.completed
            while history.completed == completed:
                self.calls(name)

    def until(self, name: str, call: str) -> None:
        """Let a process continue until its next call is this one."""
        process = self._run.processes[self._number[name]]
        while process.pending is not None and process.pending.name != call:
            self.calls(name)


def _one_three_two(run: Run) -> None:
    director = _Director(run)
    director.operations("observer", 2)  # sees 1
    director.operations("first")
    director.until("first", "set")
    director.calls("first")  # writes 2, and has not read the record again
    director.operations("second", 2)  # reads 2, writes 3
    director.operations("observer", 2)  # sees 3; its commit seals the token of both writes
    director.operations("first")  # reads the record again, and writes 2 once more
    director.operations("observer", 2)  # sees 2


_COMMITS = 6


def _commit_often(c: Client) -> None:
    for _ in range(_COMMITS):
        c.commit()


def _banana(run: Run) -> None:
    director = _Director(run)
    director.calls("anna")
    director.calls("nancy")
    director.calls("anna")  # writes A
    here, there = "nancy", "anna"
    director.operations("committer")
    for _ in range(_COMMITS - 1):
        director.calls(here, 3)  # too late under the old token, reads, writes under the new one
        director.calls(there)  # reads, and will be too late
        director.operations("committer")
        here, there = there, here
    director.operations(here)
    director.operations(there)


def values(run: Run, process: str, kind: str) -> list[str]:
    """Return a process's results, operation by operation."""
    return [
        operation.result
        for operation in run.world.history.operations
        if operation.process == process and operation.kind == kind
    ]


WITNESSES = {
    "1-3-2": Witness(
        Scenario("1-3-2", {"first": _increment, "second": _increment, "observer": _observe}, _one),
        _one_three_two,
        "observer*10 first*5 second*6 observer*10 first*3 observer*10",
    ),
    "b-a-n-a-n-a": Witness(
        Scenario(
            "b-a-n-a-n-a",
            {
                "anna": lambda c: c.put("k", "A"),
                "nancy": lambda c: c.put("k", "N"),
                "committer": _commit_often,
            },
            lambda c: [c.put("k", "B"), c.commit()],  # type: ignore[func-returns-value]
        ),
        _banana,
        "anna nancy anna committer*7 nancy*3 anna committer*7 anna*3 nancy committer*7 nancy*3 "
        "anna committer*7 anna*3 nancy committer*7 nancy*3 anna committer*7 anna*4 nancy*3",
    ),
}
