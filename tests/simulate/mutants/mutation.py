"""The mutants, and the search for a scenario that detects one."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from time import perf_counter

from tests.simulate.judging import judge
from tests.simulate.mutants import bundles, collection, history, stores, writes
from tests.simulate.mutants.patch import Mutant, mutated
from tests.simulate.scenarios.catalogue import every_scenario, find
from tests.simulate.scenarios.conditions import simulating
from tests.simulate.schedules.explore import explore, wander

_MOST = 6_000
_WALKS = 60
"""The number of random schedules before the exploration: they detect many mutants quickly."""

MUTANTS: tuple[Mutant, ...] = (
    *writes.MUTANTS,
    *history.MUTANTS,
    *collection.MUTANTS,
    *bundles.MUTANTS,
    *stores.MUTANTS,
)
"""Errors in the protocol. Each must be detected."""


@dataclass(frozen=True)
class Kill:
    """The result of the hunt for a mutant.

    Attributes:
        mutant: The mutant.
        scenario: The scenario that detected it; "" if none did.
        schedules: The number of schedules, over all scenarios tried.
        violation: What was wrong.
        schedule: The schedule that shows the violation.
        seconds: The time that the hunt took.
    """

    mutant: Mutant
    scenario: str
    schedules: int
    violation: str
    schedule: str
    seconds: float


def hunt(mutant: Mutant, *, further: bool = True) -> Kill:
    """Run the mutant's scenarios until one fails, and then all others if `further` is set."""
    began = perf_counter()
    schedules = 0
    names = list(_order(mutant, further=further))
    with simulating():
        for name in names:
            find(name).prepared()  # by the unedited code
    with mutated(mutant), simulating():
        for name in names:
            found = wander(find(name), judge, _WALKS)
            schedules += found.schedules
            if not found.violation:
                found = explore(find(name), judge, most=_MOST)
                schedules += found.schedules
            if found.violation:
                return Kill(
                    mutant,
                    name,
                    schedules,
                    found.violation,
                    found.schedule,
                    perf_counter() - began,
                )
    return Kill(mutant, "", schedules, "", "", perf_counter() - began)


def _order(mutant: Mutant, *, further: bool) -> Iterator[str]:
    yield from mutant.scenarios
    if further:
        others: Iterable[str] = sorted(
            (scenario.name for scenario in every_scenario()), key=lambda name: "+" in name
        )
        yield from (name for name in others if name not in mutant.scenarios)
