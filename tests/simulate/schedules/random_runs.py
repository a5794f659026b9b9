"""Larger random worlds: a seed sets the processes, their operations, the faults and the order.

A seed draws its own mix (swarm testing): four to eight processes of some kinds, five to thirty
operations for each, and some kinds of faults or none. Half of the seeds draw every step evenly.
The others give each process a rank and lower a rank at three places (PCT). This finds errors
that need a few particular steps in an otherwise ordered run. After the last fault all
operations must end.
"""

from collections.abc import Callable
from dataclasses import dataclass
from random import Random

from tests.simulate.judging import judge
from tests.simulate.scenarios.scenario import Program, Scenario
from tests.simulate.schedules.client import Client
from tests.simulate.schedules.run import (
    CRASH,
    DOWN_AFTER,
    DOWN_BEFORE,
    KINDS,
    LATE,
    REPLY_LOST,
    WRITE_LOST,
    Choice,
    Run,
)
from tests.simulate.schedules.world import SimulatedWorld

_PATHS = ("a", "b", "c", "d")
_QUIET = 250
"""The maximum number of calls for each process during which no operation ends."""
_RANK_CHANGES = 3
_USUAL_STEPS = 1_000

Deed = Callable[[Client, Random, str], object]


def _prepare(c: Client) -> None:
    for path in _PATHS[:2]:
        c.put(path, f"{path}0")
    c.commit()
    c.tag("base")
    c.create_branch("dev", "base", contents={path: f"{path}0" for path in _PATHS[:2]})
    for number in range(8):
        c.create_branch(f"side{number}", "base", contents={"a": "a0", "b": "b0"})


def _put(c: Client, draw: Random, value: str) -> None:
    c.put(draw.choice(_PATHS), value)


def _delete(c: Client, draw: Random, _: str) -> None:
    c.delete(draw.choice(_PATHS))


def _read(c: Client, draw: Random, _: str) -> None:
    c.read(draw.choice(_PATHS))


def _list(c: Client, *_: object) -> None:
    c.list()


def _commit(c: Client, *_: object) -> None:
    c.commit()


def _reset(c: Client, *_: object) -> None:
    c.reset()


def _merge(c: Client, _: Random, value: str) -> None:
    """Publish a value of the process through its own branch."""
    side, path = f"side{c.process.index - 1}", f"m{c.process.index}"
    c.put(path, value, side)
    if c.told:
        commit = c.commit(side)
        if c.told:
            c.merge(commit, writes={path: value})


def _tagged(c: Client, *_: object) -> None:
    c.list_ref("base")


def _dev(c: Client, draw: Random, value: str) -> None:
    c.put(draw.choice(_PATHS), value, "dev")


def _dev_commit(c: Client, *_: object) -> None:
    c.commit("dev")


def _dev_list(c: Client, *_: object) -> None:
    c.list("dev")


def _dev_again(c: Client, *_: object) -> None:
    c.delete_branch("dev")
    c.create_branch("dev", "base", contents={path: f"{path}0" for path in _PATHS[:2]})


def _dev_back(c: Client, *_: object) -> None:
    c.hard_reset("base", "dev", contents={path: f"{path}0" for path in _PATHS[:2]})


_ROLES: tuple[dict[Deed, int], ...] = (
    {_put: 5, _delete: 2, _read: 1},
    {_put: 4, _commit: 2, _read: 2},
    {_put: 2, _delete: 1, _commit: 1, _list: 1},
    {_commit: 1},
    {_read: 3, _list: 2, _tagged: 1},
    {_merge: 1},
    {_merge: 2, _put: 2, _commit: 1},
    {_put: 3, _reset: 1, _commit: 1},
    {_dev: 3, _dev_commit: 1, _dev_list: 1},
    {_dev_again: 1, _dev: 1, _dev_list: 1},
    {_dev: 3, _dev_back: 1, _dev_commit: 2, _dev_list: 1},
)


def scenario_of(seed: int) -> Scenario:
    """Return the world of a seed."""
    draw = Random(seed)
    programs: dict[str, Program] = {}
    for number in range(1, draw.randint(4, 8) + 1):
        role = draw.choice(_ROLES)
        length = draw.randint(5, 30) // (3 if _merge in role else 2 if _dev_again in role else 1)
        deeds = draw.choices(list(role), list(role.values()), k=max(length, 1))
        programs[f"p{number}"] = _program(f"p{number}", deeds, draw.randrange(1 << 30))
    kinds = [
        kind
        for kind in (CRASH, REPLY_LOST, WRITE_LOST, LATE, DOWN_BEFORE, DOWN_AFTER)
        if draw.random() < 0.5
    ]
    return Scenario(
        f"random {seed}",
        programs,
        _prepare,
        faults=tuple(kinds),
        budget=draw.choice((0, 1, 3, 8)),
        turns=draw.random() < 0.3,
        errors=frozenset({"RefNotFoundError"}),
        begins=_BEGINS,
    )


_BEGINS: list[SimulatedWorld] = []


def _program(name: str, deeds: list[Deed], seed: int) -> Program:
    def program(c: Client) -> None:
        draw = Random(seed)
        for number, deed in enumerate(deeds):
            deed(c, draw, f"{name}.{number}")

    return program


class _Even:
    """Picks every process with the same probability."""

    def __init__(self, draw: Random, _: int) -> None:
        self._draw = draw

    def pick(self, ready: list[int]) -> int:
        return self._draw.choice(ready)


class _Ranked:
    """Picks the process of the highest rank, until its rank is lowered."""

    def __init__(self, draw: Random, processes: int) -> None:
        self._ranks = list(range(processes))
        draw.shuffle(self._ranks)
        self._changes = {draw.randrange(_USUAL_STEPS) for _ in range(_RANK_CHANGES)}
        self._steps = 0

    def pick(self, ready: list[int]) -> int:
        first = max(ready, key=self._ranks.__getitem__)
        self._steps += 1
        if self._steps in self._changes:
            self._ranks[first] = min(self._ranks) - 1
        return first


def drive(run: Run, seed: int) -> str:
    """Take the steps that the seed draws, to the end; return a violation of progress, or ""."""
    draw = Random(~seed)
    picker = (_Even if draw.random() < 0.5 else _Ranked)(draw, len(run.processes) + 1)
    chance = draw.choice((0.002, 0.01, 0.05))
    quiet, completed = 0, run.world.history.completed
    while choices := run.choices():
        run.take(_next(draw, picker, choices, chance))
        quiet += 1
        if run.world.history.completed != completed:
            quiet, completed = 0, run.world.history.completed
        if quiet > _QUIET * len(run.processes):
            return f"no progress: {quiet} calls, and no operation came to its end"
    return ""


def _next(draw: Random, picker: _Even | _Ranked, choices: list[Choice], chance: float) -> Choice:
    faults = [choice for choice in choices if choice % KINDS]
    if faults and draw.random() < chance:
        return draw.choice(faults)
    return picker.pick([choice // KINDS for choice in choices if not choice % KINDS]) * KINDS


@dataclass(frozen=True)
class Checked:
    """The result of one seed.

    Attributes:
        violation: What is wrong, or "".
        steps: The number of calls.
        operations: The number of operations that began.
        faults: The number of faults.
    """

    violation: str
    steps: int
    operations: int
    faults: int


def check_seed(seed: int) -> Checked:
    """Run the world of a seed to its end, and judge it."""
    scenario = scenario_of(seed)
    run = scenario.start()
    try:
        wrong = drive(run, seed) or judge(scenario, run)
    finally:
        run.end()
    faults = sum(choice % KINDS > 0 for choice in run.trace)
    return Checked(wrong, len(run.trace), len(run.world.history.operations), faults)
