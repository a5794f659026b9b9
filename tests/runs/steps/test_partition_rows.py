"""Rows of frames by the partition of their time, in a zone with summer time."""

from datetime import UTC, date, datetime, timedelta
from zoneinfo import ZoneInfo

import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from graveler.errors import InvalidInputError
from graveler.frames.libraries import library_named
from graveler.frames.rows import PartitionRows

BERLIN = ZoneInfo("Europe/Berlin")


def days(*keys):
    """The rows of days in Berlin."""
    starts = [datetime.fromisoformat(key).replace(tzinfo=BERLIN) for key in keys]
    return {
        key: PartitionRows(key, start, start + timedelta(days=1), "Europe/Berlin")
        for key, start in zip(keys, starts, strict=True)
    }


FRAMES = {
    "pandas": pd.DataFrame,
    "polars": pl.DataFrame,
    "polars, lazy": pl.LazyFrame,
    "pyarrow": pa.table,
}

NAIVE = [
    datetime.fromisoformat("2013-10-26T23:30"),
    datetime.fromisoformat("2013-10-27T00:30"),
    datetime.fromisoformat("2013-10-27T02:30"),
]


@pytest.fixture(params=FRAMES)
def split(request):
    """Return the numbers of the rows of each partition."""

    def numbers(values, rows):
        library = library_named(request.param.partition(",")[0])
        frame = FRAMES[request.param]({"at": values, "n": list(range(len(values)))})
        parts = library.split_rows(frame, "at", rows)
        return {
            key: pl.DataFrame(part if not hasattr(part, "collect") else part.collect())[
                "n"
            ].to_list()
            for key, part in parts.items()
        }

    return numbers


DAYS = days("2013-10-26", "2013-10-27")
APART = {"2013-10-26": [0], "2013-10-27": [1, 2]}


def hours(names, first):
    starts = {name: first + timedelta(hours=number) for number, name in enumerate(names)}
    return {
        name: PartitionRows(name, start, start + timedelta(hours=1), "Europe/Berlin")
        for name, start in starts.items()
    }


def test_a_naive_time_is_in_the_zone_of_the_partition(split):
    assert split(NAIVE, DAYS) == APART
    assert split([date(2013, 10, 26), date(2013, 10, 27)], DAYS) == {
        "2013-10-26": [0],
        "2013-10-27": [1],
    }
    with pytest.raises(InvalidInputError, match="belong to none of the partitions"):
        split(NAIVE, days("2013-10-27"))


@pytest.mark.parametrize("zone", [UTC, BERLIN, ZoneInfo("Asia/Tokyo")], ids=str)
def test_a_time_with_a_zone_is_the_moment_that_it_is(split, zone):
    times = [time.replace(tzinfo=BERLIN).astimezone(zone) for time in NAIVE]
    assert split(times, DAYS) == APART


def test_a_naive_time_occurs_first_or_just_after(split):
    twice = hours(["summer", "winter"], datetime(2013, 10, 27, 0, tzinfo=UTC))
    assert split(NAIVE[2:], twice) == {"summer": [0], "winter": []}
    never = hours(["3"], datetime(2013, 3, 31, 1, tzinfo=UTC))
    assert split([datetime.fromisoformat("2013-03-31T02:30")], never) == {"3": [0]}
