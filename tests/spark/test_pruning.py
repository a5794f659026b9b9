"""Which files of a table Spark reads."""

import math
from dataclasses import replace
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from graveler.errors import InvalidInputError
from graveler.frames.pruning import in_partitions_of, prune
from graveler.frames.where import conditions
from graveler.model import Entry
from graveler.reads.schemas import PARTITIONS


def table(*folders):
    return [(f"{folder}/a", Entry(f"t/{folder}/a", "data/x", 1)) for folder in folders]


def pruned(files, zone=UTC, **where: Any):
    found = prune("t/", files, conditions(where), lambda: zone)
    return [relative.removesuffix("/a") for relative, _ in found]


@pytest.mark.parametrize(
    ("folder", "value", "other"),
    [
        ("v=a b%2Fc", "a b/c", "a b%2Fc"),
        ("v=1", 1, 10),
        ("v=1.50", Decimal("1.5"), "1.5"),
        ("v=NaN", math.nan, 1),
        ("v=true", True, False),
        ("v=2026-01-03", date(2026, 1, 3), date(2026, 1, 4)),
        ("v=2026-1-3", date(2026, 1, 3), "2026-01-03"),
        ("v=2026-01-03 05%3A00%3A00", datetime(2026, 1, 3, 5, tzinfo=UTC), date(2026, 1, 3)),
        ("v=2026-01-03 05%3A00%3A00.5", datetime(2026, 1, 3, 5, 0, 0, 500_000), "5"),  # noqa: DTZ001
        ("v=__HIVE_DEFAULT_PARTITION__", None, "__HIVE_DEFAULT_PARTITION__"),
    ],
)
def test_a_partition_is_compared_as_what_is_asked_for(folder, value, other):
    assert pruned(table(folder, "v=zzz"), v=value) == [folder]
    assert pruned(table(folder, "v=zzz"), v=other) == []


def test_a_time_is_compared_in_the_zone_of_the_session():
    folders = (
        "v=2026-07-01 05%3A00%3A00",
        "v=2026-07-01 07%3A00%3A00",
        "v=2026-07-01T07%3A00%3A00Z",
    )
    files = table(*folders)
    berlin = ZoneInfo("Europe/Berlin")
    for time in (datetime(2026, 7, 1, 5, tzinfo=UTC), datetime(2026, 7, 1, 7)):  # noqa: DTZ001
        assert pruned(files, berlin, v=time) == [folders[1]]
    assert pruned(files, berlin, v=datetime(2026, 7, 1, 9)) == [folders[2]]  # noqa: DTZ001


def test_the_first_and_last_times_and_a_second_hour():
    berlin = ZoneInfo("Europe/Berlin")
    twice = "2026-10-25 02%3A30%3A00"  # the clock shows it twice
    folders = [
        f"v={text}" for text in ("0001-01-01 00%3A00%3A00", "9999-12-31 23%3A59%3A59", twice)
    ]
    files = table(*folders)
    for zone in (berlin, ZoneInfo("America/New_York")):
        assert pruned(files, zone, v=datetime(1, 1, 1)) == folders[:1]  # noqa: DTZ001
        assert pruned(files, zone, v=datetime(9999, 12, 31, 23, 59, 59)) == folders[1:2]  # noqa: DTZ001
    assert pruned(files, berlin, v=datetime(2026, 10, 25, 0, 30, tzinfo=UTC)) == folders[2:]


def test_all_columns_must_match_and_one_of_their_values():
    files = table("dt=1/h=1", "dt=1/h=2", "dt=1/h=3", "dt=2/h=1")
    assert pruned(files, dt=1, h=[1, 3]) == ["dt=1/h=1", "dt=1/h=3"]
    assert pruned(files, h=range(2, 9)) == ["dt=1/h=2", "dt=1/h=3"]
    assert pruned(files, h=[]) == []


def test_what_is_in_no_path_is_named():
    for where, message in (
        ({"amount": 5}, r"'amount' is not a partition column of 't/' \(.*dt, h"),
        ({"dt": b"1"}, r"where: 'dt'=b'1': give text, a number"),
    ):
        with pytest.raises(InvalidInputError, match=message):
            pruned(table("dt=1/h=1"), **where)
    with pytest.raises(InvalidInputError, match="the table has none"):
        prune("t/", [("a", Entry("t/a", "data/x", 1))], conditions({"dt": 1}), lambda: UTC)


def same(kind, written, *folders, by=""):
    """Return the folders of the partition `written`, if the frame's column `v` is a `kind`."""
    from pyspark.sql.types import StructType

    schema = StructType().add("n", "integer").add("v", kind)
    files = [
        (name, replace(entry, metadata={PARTITIONS: by} if by else {}))
        for name, entry in table(*folders, written)
    ]
    found = in_partitions_of([f"{written}/a"], files, schema, lambda: UTC)
    return [name.removesuffix("/a") for name in found if name != f"{written}/a"]


@pytest.mark.parametrize(
    ("kind", "written", "others"),
    [
        ("integer", "v=1", ["v=01", "v=+1", "v=1.0"]),
        ("long", "v=-3", ["v=-03"]),
        ("decimal(5,2)", "v=1.50", ["v=1.5", "v=01.5"]),
        ("double", "v=1.0", ["v=1", "v=1.00"]),
        (
            "timestamp",
            "v=2026-01-03 05:00:00Z",
            ["v=2026-01-03 05%3A00%3A00", "v=2026-01-03 06:00+01"],
        ),
        ("date", "v=2026-01-03", ["v=2026-1-3", "v=2026-01-3"]),
        ("string", "v=1", []),
        ("integer", "v=__HIVE_DEFAULT_PARTITION__", []),
    ],
)
def test_a_partition_is_found_in_all_its_spellings(kind, written, others):
    assert (
        same(kind, written, *others, "v=2026-01-30" if kind in ("date", "timestamp") else "v=30")
        == others
    )


def test_a_column_of_other_values_or_written_as_text_is_text():
    assert same("integer", "v=1", "v=01", "v=x") == []
    assert same("date", "v=2026-01-03", "v=2026-1-3", "v=2026-01-03 05%3A00%3A00") == []
    assert same("integer", "v=1", "v=01", "v=__HIVE_DEFAULT_PARTITION__") == ["v=01"]
    text = '{"fields": [{"name": "v", "type": "string"}]}'
    assert same("integer", "v=1", "v=01", by=text) == []
    assert same("integer", "v=1", "v=01", by=text.replace("string", "integer")) == ["v=01"]
    assert same("integer", "v=1", "x/v=1", "v=1/sub") == []  # beside the partitions
