"""Run everything on all cores, and print one table."""

import logging
import os
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from itertools import repeat
from time import perf_counter

from tests.simulate.judging import judge
from tests.simulate.mutants.mutation import MUTANTS, Kill, hunt
from tests.simulate.scenarios.catalogue import every_scenario, find
from tests.simulate.scenarios.conditions import simulating
from tests.simulate.scenarios.scenario import Scenario
from tests.simulate.scenarios.two_lakes import OPERATIONS, play
from tests.simulate.schedules.explore import Outcome, explore, wander
from tests.simulate.schedules.random_runs import Checked, check_seed

SECONDS = 60.0
"""The time limit of a scenario without faults and without garbage collection."""
SECONDS_WITH_FAULTS = 20.0
"""The time limit of a scenario with faults or garbage collection."""
WALKS = 1_500
"""The number of random schedules of a scenario that was not explored to the end."""
SEEDS = 2_000
HISTORIES = 500
_BLOCK = 100
_WALKS_WITHIN = 20
_PART_OF_SCENARIOS = 0.4
_UNTIL_LAKES = 0.7
_UNTIL_MUTANTS = 0.8
_ALWAYS = float("inf")


def explored(name: str, seconds: float | None, walks: int) -> Outcome:
    """Explore one scenario, and run random schedules if the exploration is incomplete."""
    with simulating():
        outcome = explore(find(name), judge, seconds=seconds)
        if not outcome.complete and not outcome.violation:
            walked = wander(find(name), judge, walks)
            outcome.walks = walked.schedules
            outcome.violation, outcome.schedule = walked.violation, walked.schedule
            outcome.seconds += walked.seconds
        return outcome


def checked(first: int, count: int, deadline: float) -> dict[int, Checked]:
    """Check seeds, until the deadline by `perf_counter`, which all processes share."""
    found = {}
    with simulating():
        for seed in range(first, first + count):
            if perf_counter() >= deadline:
                break
            found[seed] = check_seed(seed)
    return found


def played(seed: int, deadline: float) -> str | None:
    """Return what is wrong with a history of two lakes; None after the deadline."""
    return play(seed) if perf_counter() < deadline else None


def hunted(number: int, *, further: bool) -> Kill:
    """Hunt one mutant."""
    return hunt(MUTANTS[number], further=further)


class Report:
    """Prints the results of the parts, and counts the failures."""

    def __init__(self) -> None:
        self.wrong = 0
        self.schedules = 0
        self._began = perf_counter()
        self._pool = ProcessPoolExecutor(
            os.cpu_count(), initializer=logging.disable, initargs=(logging.CRITICAL,)
        )

    def within(self, seconds: float) -> None:
        """Run about `seconds`: a part of each scenario, of the worlds and histories, the mutants.

        The mutants come last, so that slow ones cost no schedules.
        """
        each = seconds * _PART_OF_SCENARIOS * (os.cpu_count() or 1)
        self.scenarios(seconds=each / sum(1 for _ in every_scenario()), walks=_WALKS_WITHIN)
        self.seeds(deadline=self._began + seconds * _UNTIL_LAKES)
        self.lakes(deadline=self._began + seconds * _UNTIL_MUTANTS)
        self.mutants(deep=False)

    def scenarios(
        self, names: Sequence[str] = (), *, seconds: float | None = None, walks: int = WALKS
    ) -> None:
        """Explore the scenarios of these names to the end, or all scenarios within limits.

        Args:
            seconds: The limit of each scenario; None: by its kind.
        """
        chosen = [s for s in every_scenario() if not names or s.name.partition("+")[0] in names]
        chosen += [find(name) for name in names if name not in {s.name for s in every_scenario()}]
        print(_row("scenario", "processes", "schedules", "judged", "states", "steps", "", "s"))
        complete = 0
        limits = [None if names else seconds or _bound(scenario) for scenario in chosen]
        outcomes = self._pool.map(
            explored, [scenario.name for scenario in chosen], limits, repeat(walks)
        )
        for scenario, outcome in zip(chosen, outcomes, strict=True):
            complete += outcome.complete
            self.schedules += outcome.schedules + outcome.walks
            print(_line(scenario, outcome), flush=True)
            self._tell(outcome.violation, f"{scenario.name} '{outcome.schedule}'")
        print(
            f"{len(chosen)} scenarios, {complete} of them to the end, the others to a bound in "
            f"seconds and at random; {self.schedules} schedules"
        )

    def seeds(self, first: int = 0, count: int = SEEDS, deadline: float = _ALWAYS) -> None:
        """Check seeds of larger worlds."""
        blocks = [
            self._pool.submit(checked, start, min(_BLOCK, first + count - start), deadline)
            for start in range(first, first + count, _BLOCK)
        ]
        count = steps = operations = faults = 0
        for seed, result in _joined(blocks):
            count += 1
            steps += result.steps
            operations += result.operations
            faults += result.faults
            self._tell(result.violation, f"random {seed}")
        self.schedules += count
        print(
            f"{count} seeds of larger worlds: {operations} operations, {steps} calls, "
            f"{faults} faults"
        )

    def lakes(self, first: int = 0, count: int = HISTORIES, deadline: float = _ALWAYS) -> None:
        """Run histories of two lakes."""
        seeds, count = range(first, first + count), 0
        for violation in self._pool.map(played, seeds, repeat(deadline)):
            count += violation is not None
            if violation:
                self.wrong += 1
                print(f"  WRONG two lakes, {violation}", flush=True)
        print(f"{count} histories of {OPERATIONS} operations on two lakes with caches of their own")

    def mutants(self, names: Sequence[str] = (), *, deep: bool = True) -> None:
        """Hunt the mutants whose names contain one of these words, or all mutants.

        Args:
            deep: Whether to hunt the mutants that take minutes, and a mutant in all scenarios.
        """
        chosen = [
            number
            for number, mutant in enumerate(MUTANTS)
            if (deep or not mutant.deep)
            and (not names or any(word in mutant.name for word in names))
        ]
        killed = 0
        for future in [self._pool.submit(hunted, number, further=deep) for number in chosen]:
            kill = future.result()
            killed += bool(kill.scenario)
            where = f"{kill.scenario} after {kill.schedules}" if kill.scenario else "SURVIVED"
            print(f"  {kill.mutant.name:62} {where}; {kill.violation.partition(':')[0]}")
        self.wrong += len(chosen) - killed
        print(f"{killed} of {len(chosen)} mutants found out")

    def end(self) -> int:
        """Print the time that it took; return the number of failures."""
        self._pool.shutdown()
        took = perf_counter() - self._began
        print(f"{took:.0f} s on {os.cpu_count()} cores: {self.wrong or 'nothing'} wrong")
        return self.wrong

    def _tell(self, violation: str, what: str) -> None:
        if violation:
            self.wrong += 1
            print(f"  WRONG {violation}\n  python -m tests.simulate replay {what}", flush=True)


def _bound(scenario: Scenario) -> float:
    large = scenario.budget or scenario.all_steps
    return SECONDS_WITH_FAULTS if large else SECONDS


def _joined(blocks: Sequence["Future[dict[int, Checked]]"]) -> Iterator[tuple[int, Checked]]:
    for block in blocks:
        yield from block.result().items()


def _line(scenario: Scenario, outcome: Outcome) -> str:
    return _row(
        scenario.name,
        " ".join(scenario.names),
        str(outcome.schedules),
        str(outcome.finished),
        str(outcome.states),
        str(outcome.longest),
        "complete" if outcome.complete else f"bound +{outcome.walks}",
        f"{outcome.seconds:.1f}",
    )


def _row(*cells: str) -> str:
    widths = (26, 28, -9, -7, -7, -5, 11, -6)
    return " ".join(
        cell.ljust(width) if width > 0 else cell.rjust(-width)
        for cell, width in zip(cells, widths, strict=True)
    ).rstrip()
