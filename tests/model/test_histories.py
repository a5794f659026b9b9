"""Fifty random histories; ``python -m tests.model`` runs more of them."""

import pytest

from tests.model.driver import check, check_seed
from tests.model.shrinking import shrunk


@pytest.mark.parametrize("seed", range(50))
def test_a_random_history_agrees_with_the_model(seed):
    checked, operations = check_seed(seed)
    if checked.violation:
        kept, violation = shrunk(operations[: checked.at], check)
        pytest.fail("\n    ".join([f"seed {seed}: {violation}", *map(str, kept)]))
