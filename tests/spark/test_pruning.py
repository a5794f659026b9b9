"""Which files of a table Spark gets to see."""

import math
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pytest

from graveler.errors import InvalidInputError
from graveler.model import Entry
from graveler.spark.pruning import prune


def table(*folders):
    return [(f"{folder}/a", Entry(f"t/{folder}/a", "data/x", 1)) for folder in folders]


def pruned(files, **where: Any):
    return [relative.removesuffix("/a") for relative, _ in prune("t/", files, where)]


@pytest.mark.parametrize(
    ("folder", "value", "other"),
    [
        ("v=a b%2Fc", "a b/c", "a b%2Fc"),
        ("v=1", 1, 10),
        ("v=01", 1, "1"),
        ("v=1.50", Decimal("1.5"), "1.5"),
        ("v=0.1", 0.1, 1),
        ("v=NaN", math.nan, 1),
        ("v=true", True, False),
        ("v=2026-01-03", date(2026, 1, 3), date(2026, 1, 4)),
        ("v=2026-01-03 05%3A00%3A00", datetime(2026, 1, 3, 5, tzinfo=UTC), date(2026, 1, 3)),
        ("v=2026-01-03 05%3A00%3A00.5", datetime(2026, 1, 3, 5, 0, 0, 500_000), "5"),  # noqa: DTZ001
        ("v=__HIVE_DEFAULT_PARTITION__", None, "__HIVE_DEFAULT_PARTITION__"),
    ],
)
def test_a_partition_is_compared_as_what_is_asked_for(folder, value, other):
    assert pruned(table(folder, "v=zzz"), v=value) == [folder]
    assert pruned(table(folder, "v=zzz"), v=other) == []


def test_all_columns_must_match_and_one_of_their_values():
    files = table("dt=1/h=1", "dt=1/h=2", "dt=1/h=3", "dt=2/h=1")
    assert pruned(files, dt=1, h=[1, 3]) == ["dt=1/h=1", "dt=1/h=3"]
    assert pruned(files, h=range(2, 9)) == ["dt=1/h=2", "dt=1/h=3"]
    assert pruned(files, h=[]) == []


def test_a_column_that_is_in_no_path_is_named():
    with pytest.raises(
        InvalidInputError, match=r"'amount' is no partition column of 't/' \(.*dt, h"
    ):
        pruned(table("dt=1/h=1"), amount=5)
    with pytest.raises(InvalidInputError, match="the table has none"):
        prune("t/", [("a", Entry("t/a", "data/x", 1))], {"dt": 1})


def test_a_value_of_no_type_of_paths_is_named():
    with pytest.raises(InvalidInputError, match=r"where: 'dt'=b'1': give text, a number"):
        pruned(table("dt=1"), dt=b"1")
