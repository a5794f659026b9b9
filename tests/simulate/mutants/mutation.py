"""The mutants, and whether the scenarios find one out."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from time import perf_counter

from tests.simulate.judging import judge
from tests.simulate.mutants import bundles, collection, history, writes
from tests.simulate.mutants.patch import Mutant, mutated
from tests.simulate.scenarios.catalogue import every_scenario, find
from tests.simulate.scenarios.conditions import simulating
from tests.simulate.schedules.explore import explore, wander

_MOST = 6_000
_WALKS = 60
"""Random schedules before the exploration: many mutants show at once in one of them."""

MUTANTS: tuple[Mutant, ...] = (
    *writes.MUTANTS,
    *history.MUTANTS,
    *collection.MUTANTS,
    *bundles.MUTANTS,
)
"""Ways to get the protocol wrong. Every one must be found out."""


@dataclass(frozen=True)
class Kill:
    """How a mutant was found out.

    Attributes:
        mutant: Which.
        scenario: Where it showed; "" if nowhere.
        schedules: How many it took, over all scenarios tried.
        violation: What was wrong.
        schedule: What shows it.
        seconds: How long it took.
    """

    mutant: Mutant
    scenario: str
    schedules: int
    violation: str
    schedule: str
    seconds: float


def hunt(mutant: Mutant, *, further: bool = True) -> Kill:
    """Run the mutant's scenarios until one is wrong; then all others, if `further`."""
    began = perf_counter()
    schedules = 0
    names = list(_order(mutant, further=further))
    with simulating():
        for name in names:
            find(name).prepared()  # by the code as it is
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
