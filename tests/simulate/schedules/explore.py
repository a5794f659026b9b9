"""Every schedule of a scenario, except those that are equivalent to another.

The search is depth-first and takes no snapshots: it runs each schedule from its beginning. It
leaves out two kinds of schedules.

Sleep sets: if two steps have the same effect in either order, the explorer runs one order. A
step that begins an operation and a step that ends another one always conflict, so that the
order of completed operations is preserved.

Known states: what can follow depends only on the contents of the stores and on the results
that each process has seen. The explorer therefore continues from a state once. If it reaches
the state again with other steps asleep, it applies Godefroid's rule. The state space has no
cycles, because the results that a process has seen only grow.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random
from time import process_time

from tests.simulate.scenarios.scenario import Scenario
from tests.simulate.schedules.run import KINDS, Choice, Run, Step, dependent


@dataclass
class Outcome:
    """The result of an exploration.

    Attributes:
        schedules: The number of schedules, including those that ended in a known state.
        finished: The number of schedules that ran to their end and were judged.
        states: The number of different states.
        steps: The number of calls in total.
        longest: The number of steps of the longest schedule.
        complete: Whether all schedules were explored.
        violation: What is wrong, or "".
        schedule: The schedule that shows the violation.
        walks: The number of additional random schedules.
        seconds: The processor time.
    """

    schedules: int = 0
    finished: int = 0
    states: int = 0
    steps: int = 0
    longest: int = 0
    complete: bool = False
    violation: str = ""
    schedule: str = ""
    walks: int = 0
    seconds: float = 0.0


@dataclass(slots=True)
class _Node:
    """A state on the path to the current state."""

    taken: Choice
    rest: list[Choice]
    asleep: dict[Choice, Step]
    step: Step | None = field(default=None)


_CHANCE = 0.05
"""The probability of a fault at a random step. It is low, so that faults also come late."""
_ENDLESS = "no progress: {} steps were not enough"
_LOOK_AT_THE_CLOCK = 50
"""The number of schedules between two looks: a look takes as long as a schedule."""

Judge = Callable[[Scenario, Run], str]
"""Returns what is wrong with a run that has ended, or ""."""


def explore(
    scenario: Scenario,
    judge: Judge,
    *,
    most: int | None = None,
    seconds: float | None = None,
    deepest: int = 400,
) -> Outcome:
    """Run the schedules of a scenario until one is wrong.

    Args:
        scenario: The scenario to explore.
        judge: Judges each run that ends.
        most: The maximum number of schedules.
        seconds: The maximum processor time.
        deepest: The maximum number of steps in a schedule. A longer schedule is a violation.
    """
    outcome = Outcome()
    began = process_time()
    visited: dict[int, frozenset[Choice]] = {}
    stack: list[_Node] = []
    while True:
        run = scenario.start()
        try:
            finished = _descend(run, stack, visited, outcome, deepest)
            outcome.schedules += 1
            outcome.longest = max(outcome.longest, len(run.trace))
            wrong = judge(scenario, run) if finished else ""
            if finished is None:
                wrong = _ENDLESS.format(deepest)
            outcome.finished += bool(finished)
        finally:
            run.end()
        outcome.states = len(visited)
        if wrong:
            outcome.violation, outcome.schedule = wrong, run.text()
        outcome.complete = not wrong and not _back(stack)
        over = bool(wrong) or outcome.complete or outcome.schedules == most
        if over or not outcome.schedules % _LOOK_AT_THE_CLOCK:
            outcome.seconds = process_time() - began
            if over or (seconds is not None and outcome.seconds >= seconds):
                return outcome


def _descend(
    run: Run,
    stack: list[_Node],
    visited: dict[int, frozenset[Choice]],
    outcome: Outcome,
    deepest: int,
) -> bool | None:
    """Repeat the steps of the stack, then explore new states.

    Returns:
        True if the run ended, False if it came to a known state, None if it does not end.
    """
    for node in stack:
        node.step = run.take(node.taken)
    outcome.steps += len(stack)
    asleep = _still_asleep(stack[-1]) if stack else {}
    while True:
        choices = run.choices()
        if not choices:
            return True
        if len(run.trace) >= deepest:
            return None
        state = run.state()
        known = visited.get(state)
        if known is None:
            rest = [choice for choice in choices if choice not in asleep]
        else:
            rest = [choice for choice in known if choice not in asleep]
            asleep = {choice: step for choice, step in asleep.items() if choice in known}
        visited[state] = frozenset(asleep)
        if not rest:
            return False
        node = _Node(rest[0], rest[1:], asleep)
        node.step = run.take(node.taken)
        stack.append(node)
        outcome.steps += 1
        asleep = _still_asleep(node)


def _still_asleep(node: _Node) -> dict[Choice, Step]:
    step = node.step
    assert step is not None
    return {choice: other for choice, other in node.asleep.items() if not dependent(other, step)}


def _back(stack: list[_Node]) -> bool:
    """Select the next step that was not tried; return whether there is one."""
    while stack:
        node = stack[-1]
        if node.rest:
            assert node.step is not None
            node.asleep = {**node.asleep, node.taken: node.step}
            node.taken, node.rest = node.rest[0], node.rest[1:]
            return True
        stack.pop()
    return False


def wander(
    scenario: Scenario, judge: Judge, walks: int, *, seed: int = 0, deepest: int = 400
) -> Outcome:
    """Run random schedules, for a scenario that has too many schedules to explore."""
    outcome = Outcome()
    began = process_time()
    draw = Random(seed)
    for _ in range(walks):
        run = scenario.start()
        try:
            while (choices := run.choices()) and len(run.trace) < deepest:
                faults = [choice for choice in choices if choice % KINDS]
                if faults and draw.random() < _CHANCE:
                    run.take(draw.choice(faults))
                else:
                    run.take(draw.choice([choice for choice in choices if not choice % KINDS]))
            wrong = judge(scenario, run) if not choices else _ENDLESS.format(deepest)
        finally:
            run.end()
        outcome.schedules += 1
        outcome.finished += 1
        outcome.steps += len(run.trace)
        outcome.longest = max(outcome.longest, len(run.trace))
        if wrong:
            outcome.violation, outcome.schedule = wrong, run.text()
            break
    outcome.seconds = process_time() - began
    return outcome
