"""Random histories of runs: rows of tables are where the files of the same writers are."""

import pytest

from tests.harness.iceberg_runs import check_seed


@pytest.mark.parametrize("seed", [1, 2])
def test_rows_follow_the_rules_of_files(seed):
    assert check_seed(seed, 20).total() == 20
