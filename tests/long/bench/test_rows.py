"""Each row of the benchmark at scale runs on tiny data."""

import xml.etree.ElementTree as ET

import pytest

from tests.bench.scale.place import Place
from tests.bench.scale.rows import ROWS, measured


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    folder = tmp_path_factory.mktemp("scale")
    return Place(
        folder,
        folder,
        entries=40_000,
        seconds=0.05,
        hours=3,
        repeats=1,
        commits=2,
        processes=2,
        rows=1_000,
        files=40,
        imported=20_000,
        compared=30_000,
        gateway_mib=4,
    )


@pytest.mark.parametrize("name", ROWS)
def test_the_row(name, place):
    results, plots = measured(name, place)
    assert results
    assert [result for result in results if result.figure == "fails"] == []
    assert "ANOTHER TREE" not in str(results)
    for plot in plots:
        ET.fromstring(plot.svg())  # noqa: S314 - our own output
