"""Random histories of two branches, against the plain model."""

from tests.harness.iceberg_merges import check_histories


def test_random_histories_have_the_rows_of_the_model():
    seen = check_histories(40)
    assert min(seen["merge", "Line"], seen["merge", "TableConflict"], seen["revert", "Line"]) > 2
