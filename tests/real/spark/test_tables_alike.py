"""Spark reads a table as the other libraries do."""

import pytest

from graveler.errors import GravelerError
from tests.harness.read_tables import CASES


@pytest.mark.parametrize("case", [case for case in CASES if case.spark], ids=lambda case: case.name)
def test_spark_reads_a_table_like_the_others(spark, branch, case):
    branch.put_many({f"t/{name}": body for name, body in case.files.items()})
    for as_ in ("spark", type(spark.range(1))):
        if isinstance(case.rows, str):
            with pytest.raises(GravelerError, match=case.rows):
                branch.read("t/", as_, **case.terms)
        else:
            found = branch.scan("t/", as_, **case.terms).toArrow().to_pylist()
            assert sorted(found, key=repr) == sorted(case.rows, key=repr)
