"""Random tables are what Spark makes of the same rows."""

import pytest

from tests.harness.tables import check_random_table


@pytest.mark.parametrize("seed", range(10))
def test_a_random_table_is_read_as_spark_unites_it(repo, spark, seed):
    check_random_table(seed, repo, spark)
