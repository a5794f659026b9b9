"""The small scenarios that are explored to the end."""

from collections.abc import Iterator
from dataclasses import replace

from tests.simulate.scenarios import (
    collection,
    copies,
    history,
    imports,
    ingestion,
    moves,
    patches,
    selections,
    stores,
    writes,
)
from tests.simulate.scenarios.scenario import Scenario
from tests.simulate.schedules.run import CRASH, LATE, REPLY_LOST, WRITE_LOST

FAULTS = (CRASH, REPLY_LOST, WRITE_LOST)
"""A process dies at any step, or a conditional write or its reply is lost."""


SMALL: tuple[Scenario, ...] = (
    *writes.SCENARIOS,
    *history.SCENARIOS,
    *ingestion.SCENARIOS,
    *collection.SCENARIOS,
    *copies.SCENARIOS,
    *moves.SCENARIOS,
    *imports.SCENARIOS,
    *selections.SCENARIOS,
    *patches.SCENARIOS,
    *stores.SCENARIOS,
)
"""The scenarios without faults. Each is explored with faults as well."""


_TWICE = ("write-commit", "overwrite-commit", "sealed-left-write", "reset-sealed", "merge-commit")


_LATE = (
    "write-commit",
    "overwrite-commit",
    "write-two-commits",
    "each-writes-and-commits",
    "sealed-left",
    "merge-commit",
    "two-merges",
    "reset-commit",
    "hard-reset-commit",
    "revert-commit",
    "delete-branch",
    "recreate-branch",
    "two-creators",
)


def with_faults(scenario: Scenario, budget: int = 1) -> Scenario:
    """Return the scenario with at most `budget` faults in each schedule."""
    return replace(scenario, name=f"{scenario.name}+{budget}", faults=FAULTS, budget=budget)


def with_late_writes(scenario: Scenario) -> Scenario:
    """Return the scenario with one conditional write that arrives after it was given up."""
    return replace(scenario, name=f"{scenario.name}+late", faults=(LATE,), budget=1)


def every_scenario() -> Iterator[Scenario]:
    """Yield each small scenario without faults and with one fault, and some with two."""
    for scenario in SMALL:
        yield scenario
        yield with_faults(scenario)
        if scenario.name in _TWICE:
            yield with_faults(scenario, 2)
        if scenario.name in _LATE:
            yield with_late_writes(scenario)


def find(name: str) -> Scenario:
    """Return a scenario by name; ``name+2`` has up to two faults, ``name+late`` a late write."""
    plain, _, budget = name.partition("+")
    for scenario in SMALL:
        if scenario.name == plain:
            if budget == "late":
                return with_late_writes(scenario)
            return with_faults(scenario, int(budget)) if budget else scenario
    known = ", ".join(scenario.name for scenario in SMALL)
    raise ValueError(f"no scenario {name!r}: there are {known}; +1 for faults")
