"""The rows of the benchmark on Spark run, on data that is tiny."""

import pytest

from tests.bench.scale.place import Place
from tests.bench.scale.rows import ON_SPARK, measured


@pytest.mark.parametrize("name", ON_SPARK)
def test_the_row(name, tmp_path):
    place = Place(
        tmp_path,
        tmp_path,
        repeats=1,
        rows=1_000,
        files=40,
        imported=20_000,
        compared=30_000,
        gateway_mib=4,
    )
    results, _ = measured(name, place)
    assert results
    assert [result for result in results if "fails" in result.figure] == []
    assert "ANOTHER TREE" not in str(results)
