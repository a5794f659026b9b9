import csv
import io
from datetime import UTC, datetime, timedelta, timezone

import pytest

from graveler.demo.flights import damage, hour_folder, hour_prefix, land, landed_files, load_flights
from graveler.errors import InvalidInputError

FIRST = datetime(2013, 1, 1, 10, tzinfo=UTC)


@pytest.fixture(scope="module")
def flights():
    return load_flights()


def rows(text):
    return list(csv.DictReader(io.StringIO(text)))


def test_the_hours_are_those_in_which_flights_leave(flights):
    hours = flights.hours()
    assert len(hours) == 6936
    assert hours[:20] == [*(FIRST + timedelta(hours=n) for n in range(19)), FIRST.replace(day=2)]
    assert flights.hours(2) == hours[:2]


def test_no_flight_is_lost_by_cutting_the_year_into_hours(flights):
    assert sum(len(lines) for lines in flights.flights.lines.values()) == 336_776


def test_an_hour_holds_its_own_flights_and_weather(flights):
    hour = FIRST + timedelta(hours=1)
    found = rows(flights.flights.text(hour))
    assert len(found) == 52
    assert {row["time_hour"] for row in found} == {"2013-01-01T11:00:00Z"}
    assert {row["origin"] for row in rows(flights.weather.text(hour))} == {"EWR", "JFK", "LGA"}


def test_a_damaged_hour_has_rows_twice_and_delays_as_text(flights):
    whole = rows(flights.flights.text(FIRST))
    broken = rows(damage(flights.flights.text(FIRST)))
    assert broken[0] == whole[0]
    assert [row["dep_delay"] for row in broken[:2]] == ["2", "4 min"]
    assert [row["flight"] for row in broken] == [row["flight"] for row in [*whole, *whole[:2]]]


def test_an_hour_that_arrives_again_replaces_what_arrived_before(flights, tmp_path):
    land(flights, FIRST, tmp_path, damaged=True)
    assert landed_files(FIRST.replace(day=2), tmp_path) == []
    folder = land(flights, FIRST, tmp_path)
    assert folder == tmp_path / "2013/01/01/10-00"
    assert [file.name for file in landed_files(FIRST, tmp_path)] == ["flights.csv", "weather.csv"]
    assert (folder / "flights.csv").read_text() == flights.flights.text(FIRST)


def test_hours_are_utc_in_paths_and_folders():
    new_york = datetime(2013, 1, 1, 5, tzinfo=timezone(timedelta(hours=-5)))
    assert hour_prefix("output/flights", new_york) == "output/flights/2013/01/01/10:00/"
    assert hour_prefix("input/", FIRST) == "input/2013/01/01/10:00/"
    assert hour_folder(new_york) == "2013/01/01/10-00"


@pytest.mark.parametrize("hour", [datetime(2013, 1, 1, 10), FIRST.replace(minute=30)])  # noqa: DTZ001
def test_what_is_no_hour_is_refused(hour):
    with pytest.raises(InvalidInputError, match="2013-01-01T10:"):
        hour_prefix("input", hour)
