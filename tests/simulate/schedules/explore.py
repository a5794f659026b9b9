"""Every schedule of a scenario, but for those that differ in nothing.

Depth first and without snapshots: each schedule is run from its beginning. Two things are
left out. Sleep sets: where two steps could be taken in either order with the same effect, one
order is enough (a step of an operation's beginning and one of another's end are never taken
to be such, so that what was over before what began stays true). And states seen before: the
contents of the stores and all that each process has seen decide what can follow, so a state
is gone on from once, with Godefroid's rule for states that were reached with other steps
asleep. The space has no cycles, for a process never forgets.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random
from time import process_time

from tests.simulate.scenarios.scenario import Scenario
from tests.simulate.schedules.run import KINDS, Choice, Run, Step, dependent


@dataclass
class Outcome:
    """What exploring found.

    Attributes:
        schedules: How many were run, those that ended in a known state among them.
        finished: How many of them ran to their end, and were judged.
        states: How many different states were seen.
        steps: Calls made, all in all.
        longest: Steps of the longest schedule.
        complete: Nothing was left out.
        violation: What is wrong, with the schedule that shows it.
        walks: How many more were run at random.
        seconds: How long the processor was at it.
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
    """A state on the way to the present one."""

    taken: Choice
    rest: list[Choice]
    asleep: dict[Choice, Step]
    step: Step | None = field(default=None)


_CHANCE = 0.05
"""Of a fault at a random step: faults have to come late as well as early."""
_ENDLESS = "no progress: {} steps were not enough"
_LOOK_AT_THE_CLOCK = 50
"""After so many schedules: it costs as much as running one."""

Judge = Callable[[Scenario, Run], str]
"""Says what is wrong with a run that has ended, or ""."""


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
        scenario: What to explore.
        judge: Judges each run that ends.
        most: At most so many schedules.
        seconds: At most for so long, by the processor's clock.
        deepest: More steps than that in one schedule are no progress.
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
    """Repeat the steps of the stack, then go on to new states; return whether it ended.

    None: it does not end.
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
    """Turn to the next step that was not tried; return whether there is one."""
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
    """Run random schedules: where there are too many, these are from the whole range."""
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
