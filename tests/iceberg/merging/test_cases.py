"""Merge cases give the rows of a plain model, as PyIceberg and the rules of the format read them."""

import pytest

from tests.harness.iceberg_cases import CASES, merged_cases
from tests.harness.iceberg_lines import Line


@pytest.mark.parametrize(("version", "partitioned", "others", "here", "row"), CASES)
def test_a_case_merges_to_the_rows_of_the_model(version, partitioned, others, here, row):
    outcomes = ""
    for there, merged in merged_cases(version, partitioned, others, here):
        outcomes += "." if isinstance(merged, Line) else "x"
        if isinstance(merged, Line):
            assert merged.read() == sorted(merged.rows), there
        else:
            assert (merged.table, merged.source, merged.dest) == ("db.t", "run-1", "main")
            assert merged.partitions == (("part=a",) if partitioned else ()), there
    assert outcomes == row
