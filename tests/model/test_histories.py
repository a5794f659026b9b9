"""Twelve random histories; ``python -m tests.model`` runs more of them, and hunts the mutants."""

import pytest

from tests.model.driver import check, check_seed
from tests.model.mutants import MUTANTS
from tests.model.shrinking import shrunk
from tests.simulate.mutants.patch import mutated


@pytest.mark.parametrize("seed", range(12))
def test_a_random_history_agrees_with_the_model(seed):
    checked, operations = check_seed(seed)
    if checked.violation:
        kept, violation = shrunk(operations[: checked.at], check)
        pytest.fail("\n    ".join([f"seed {seed}: {violation}", *map(str, kept)]))


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_a_mutant_fits_the_code(mutant):
    with mutated(mutant):
        pass
