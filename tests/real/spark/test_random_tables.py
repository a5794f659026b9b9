"""Random tables are what Spark makes of the same rows."""

import pytest

from tests.harness.tables import check_random_folder, check_random_table


@pytest.mark.parametrize("seed", range(4))
def test_a_random_table_is_read_as_spark_unites_it(repo, spark, seed):
    check_random_table(seed, repo, spark)


@pytest.mark.parametrize("seed", range(3))
def test_a_random_table_is_what_plain_spark_has_in_a_folder(repo, spark, tmp_path, seed):
    check_random_folder(seed, repo, spark, tmp_path / "plain")
