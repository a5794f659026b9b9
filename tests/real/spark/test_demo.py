"""The demo's pipeline on real hours. The expected result is counted in the CSV."""

import csv
import io
from collections import Counter

import pyarrow.parquet as pq
import pytest

import graveler
from graveler.demo import hour_prefix, run_demo, run_hour, run_key
from graveler.demo.flights import land, load_flights
from graveler.demo.report import summarize, write_report
from graveler.demo.story import serving
from graveler.errors import InvalidInputError, ObjectNotFoundError


@pytest.fixture(scope="module")
def flights():
    return load_flights()


def landed(source, hour):
    """Return the rows of an hour, read without Spark."""
    return list(csv.DictReader(io.StringIO(source.text(hour))))


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


def number(text):
    return None if text == "NA" else int(text)


@pytest.fixture(scope="module", params=["files", "keep"])
def told(request, tmp_path_factory, spark):
    """The demo of three hours on each storage, and its progress. Tests only read it."""
    folder = tmp_path_factory.mktemp("demo")
    seen: list[tuple[str, int, int]] = []
    terms = {"progress": lambda *what: seen.append(what), "spark": spark}
    return run_demo(folder, hours=3, storage=request.param, **terms), seen


def test_every_flight_is_in_main_once_despite_a_damaged_hour(told, flights):
    result, _ = told
    with graveler.open(result.lake) as lake, serving(lake, result.disks):
        rows = table(lake.repository(result.repository).ref("main"), "output/flights/")
    expected = Counter(
        (f"{hour:%dT%H}", row["carrier"], int(row["flight"]), number(row["dep_delay"]))
        for hour in flights.hours(3)
        for row in landed(flights.flights, hour)
    )
    found = Counter(
        (f"{row['time_hour']:%dT%H}", row["carrier"], row["flight"], row["dep_delay"])
        for row in rows
    )
    assert found == expected
    assert result.flights == result.expected == sum(expected.values()) == 107


def test_the_damaged_hour_does_not_move_main_until_it_is_resent(told):
    result, seen = told
    first, second, damaged, again = result.runs
    assert [run.state for run in result.runs] == ["PUBLISHED", "PUBLISHED", "PARKED", "PUBLISHED"]
    assert [run.attempt for run in result.runs] == [1, 1, 1, 2]
    assert damaged.hour == again.hour
    assert damaged.commit == second.commit
    assert len({first.commit, second.commit, again.commit}) == 3
    assert "no duplicates" in damaged.message
    assert "plausible delays" in damaged.message
    assert [run.rows for run in result.runs] == [6, 52, 0, 49]
    assert first.ranges_reused == 0
    for run in (second, again):
        assert run.ranges_written > 0
        assert run.ranges_reused > 0
    assert [done for _, done, _ in seen] == [0, 0, 0, 1, 2, 3, 4]
    assert {total for _, _, total in seen} == {4}
    assert [what for what, _, _ in seen[2:6]] == [run.key for run in result.runs]


def test_each_server_of_the_demo_is_started_again_as_printed(told, capsys):
    result, _ = told
    with graveler.open(result.lake) as lake, serving(lake, result.disks) as servers:
        report = write_report(lake.repository("flights"), result, result.lake.parent / "r.html")
        known = [server.url for server in lake.keep.servers("demo")]
    summarize(result, report, servers, shown_as=str(result.lake.parent))
    printed = [line for line in capsys.readouterr().out.splitlines() if "keep serve demo" in line]
    assert known == servers
    assert len(printed) == len(servers) == len(result.disks)
    for line, disk, address in zip(printed, result.disks, servers, strict=True):
        assert line.split()[-3:] == [str(disk), "--port", address.rpartition(":")[2].strip("/")]


def test_what_the_demo_cannot_do_is_refused(tmp_path, spark):
    (tmp_path / "precious").write_text("x")
    with pytest.raises(InvalidInputError, match="not an empty folder"):
        run_demo(tmp_path, hours=1, spark=spark)
    assert [path.name for path in tmp_path.iterdir()] == ["precious"]
    with pytest.raises(InvalidInputError, match="storage='s3': give one of files, keep"):
        run_demo(tmp_path / "demo", storage="s3", spark=spark)
    for hours in (0, 6937):
        with pytest.raises(InvalidInputError, match="give 1 to 6936"):
            run_demo(tmp_path / "demo", hours=hours, spark=spark)


def test_an_hour_has_its_input_its_flights_and_its_delays(repo, flights, tmp_path, spark):
    hour = flights.hours(2)[1]
    file = land(flights, hour, tmp_path / "landing") / "flights.csv"
    run_hour(repo, hour, tmp_path / "landing", spark)
    main = repo.ref("main")
    assert [entry.path for entry in main.entries()] == [
        "input/2013/01/01/11:00/flights.csv",
        "input/2013/01/01/11:00/weather.csv",
        "output/delays/2013/01/01/11:00/part-00000-c000.snappy.parquet",
        "output/flights/2013/01/01/11:00/part-00000-c000.snappy.parquet",
    ]
    assert main.get("input/2013/01/01/11:00/flights.csv").decode() == flights.flights.text(hour)
    rows = landed(flights.flights, hour)
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
    known = {row["origin"]: float(row["temp"]) for row in landed(flights.weather, hour)}
    found = {(row["origin"], row["temp"]) for row in table(main, "output/flights/")}
    assert found == {(origin, known[origin]) for origin in ("EWR", "JFK", "LGA")}
    file.write_text("".join(file.read_text().splitlines(keepends=True)[:-1]))
    assert not run_hour(repo, hour, tmp_path / "landing", spark).already
    assert len(table(repo.ref("main"), "output/flights/")) == len(rows) - 1


def test_an_hour_that_has_not_landed_is_an_error(repo, flights, tmp_path, spark):
    hour = flights.hours(1)[0]
    with pytest.raises(ObjectNotFoundError, match=r"2013-01-01T10:00:00.*not landed"):
        run_hour(repo, hour, tmp_path, spark)
    assert repo.runs.get(run_key(hour)).state == "PARKED"
