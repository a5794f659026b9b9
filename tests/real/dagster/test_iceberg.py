"""The flights of hours in a table of Iceberg through Dagster: four processes at once, and a refused hour."""

import csv
import io
import subprocess
import sys
from collections import Counter
from datetime import UTC, datetime

import pytest

from graveler.config import program_environment
from graveler.demo.flights import hour_folder, load_flights
from graveler.iceberg import GravelerCatalog
from tests.real.dagster.programs.flights import ICEBERG, ROOT

HOURS = [datetime(2013, 1, 1, hour, tzinfo=UTC) for hour in range(10, 14)]


@pytest.fixture(scope="module")
def flights():
    return load_flights().flights


@pytest.fixture
def environment(tmp_path, lake):
    """The environment of the example's processes, with the tables that it needs."""
    made = ICEBERG.with_name("iceberg_tables.py")
    path = f"{ROOT}:{ROOT / 'integrations'}"
    env = program_environment({"PYTHONPATH": path, "HOME": str(tmp_path)})
    subprocess.run([sys.executable, made, lake], env=env, check=True)
    return {**env, "GRAVELER_LAKE": lake, "FLIGHTS_LANDING": str(tmp_path / "landing")}


@pytest.fixture
def land(tmp_path, flights):
    """Write the file of an hour as its sender does."""

    def write(hour, more=""):
        folder = tmp_path / "landing" / hour_folder(hour)
        folder.mkdir(parents=True)
        (folder / "flights.csv").write_text(flights.text(hour) + more)

    return write


def start(environment, *hours):
    names = [f"{hour:%Y-%m-%d-%H:%M}" for hour in hours]
    program = "tests.real.dagster.programs.iceberg_hour"
    return subprocess.Popen(
        [sys.executable, "-m", program, *names], env=environment, stdout=subprocess.PIPE, text=True
    )


def keys_of(repo):
    rows = GravelerCatalog.of(repo.ref("main")).load_table("db.flights").scan().to_arrow()
    return Counter((row["time_hour"], row["carrier"], row["flight"]) for row in rows.to_pylist())


def keys_at_source(flights, hours):
    return Counter(
        (hour, row["carrier"], int(row["flight"]))
        for hour in hours
        for row in csv.DictReader(io.StringIO(flights.text(hour)))
    )


def test_hours_at_once_are_all_published(repo, environment, land, flights):
    for hour in HOURS:
        land(hour)
    started = [start(environment, hour) for hour in HOURS]
    assert [process.communicate()[0] for process in started] == ["True\n"] * 4
    assert keys_of(repo) == keys_at_source(flights, HOURS)


def test_an_hour_with_a_flight_twice_is_refused(repo, environment, land, flights):
    land(HOURS[0])
    land(HOURS[1], flights.lines[f"{HOURS[1]:%Y-%m-%dT%H:%M}:00Z"][0])
    assert start(environment, *HOURS[:2]).communicate()[0] == "True\nFalse\n"
    assert keys_of(repo) == keys_at_source(flights, HOURS[:1])
    parked = repo.runs.get("dagster iceberg_job 2013-01-01-11:00")
    assert "occur more than once" in parked.reason
