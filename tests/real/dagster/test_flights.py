"""The hours of the flights through Dagster: one is damaged."""

import csv
import io
from datetime import UTC, datetime

import dagster as dg
import pandas as pd
import pytest

from graveler.demo.flights import land, load_flights
from graveler.spark import read
from tests.real.dagster.programs.endings import ended
from tests.real.dagster.programs.flights import DAG, ICEBERG, WEATHER, load
from tests.real.dagster.programs.looking import on_main

HOURS = [datetime(2013, 1, 1, hour, tzinfo=UTC) for hour in (10, 11, 12)]
GOOD, DAMAGED, LAST = (f"{hour:%Y-%m-%d-%H:%M}" for hour in HOURS)


@pytest.fixture(scope="module")
def flights():
    return load_flights()


@pytest.fixture(autouse=True)
def landing(tmp_path, flights, lake, monkeypatch):
    for hour in HOURS:
        land(flights, hour, tmp_path / "landing", damaged=hour == HOURS[1])
    monkeypatch.setenv("GRAVELER_LAKE", lake)
    monkeypatch.setenv("FLIGHTS_LANDING", str(tmp_path / "landing"))


def landed(flights, hour):
    return sorted(
        (row["carrier"], int(row["flight"]))
        for row in csv.DictReader(io.StringIO(flights.flights.text(hour)))
    )


def test_main_holds_exactly_the_good_hours_and_every_row_once(spark, repo, flights, instance):
    defs = load(DAG).defs
    good, damaged, last = (
        defs.resolve_job_def("flights_job").execute_in_process(
            instance=instance, partition_key=hour, raise_on_error=False
        )
        for hour in (GOOD, DAMAGED, LAST)
    )
    assert (good.success, damaged.success, last.success) == (True, False, True)
    ended(defs, instance, damaged.run_id)
    assert {path[:24] for path in on_main(repo, "input/")} == {
        f"input/2013/01/01/{hour}:00/{file}" for hour in ("10", "12") for file in "fw"
    }
    rows = read(repo.ref("main"), "output/flights/", spark=spark).select("carrier", "flight")
    assert sorted((row.carrier, row.flight) for row in rows.collect()) == sorted(
        landed(flights, HOURS[0]) + landed(flights, HOURS[2])
    )
    parked = repo.runs.get(f"dagster flights_job {DAMAGED}")
    assert (parked.state, parked.owner) == ("PARKED", damaged.run_id)
    assert "no duplicates: 2013/01/01/11:00: 14 flights more than once" in parked.reason
    looked_at = read(repo.ref(parked.branch), "output/flights/2013/01/01/11:00/", spark=spark)
    assert looked_at.count() > len(landed(flights, HOURS[1]))
    assert [branch.name for branch in repo.branches(hidden=True)] == ["main", parked.branch]
    assert repo.commit("main").metadata["dagster.run_id"] == last.run_id


def test_the_weather_of_an_hour_is_kept_as_frames(repo, instance):
    job = load(WEATHER).defs.resolve_job_def("weather_job")
    job.execute_in_process(instance=instance, partition_key=GOOD)
    paths = on_main(repo)
    assert paths == [
        "weather/coldest/2013/01/01/10:00/data.parquet",
        "weather/observed/2013/01/01/10:00/data.parquet",
    ]
    with repo.ref("main").open(paths[0]) as file:
        coldest = pd.read_parquet(file)
    with repo.ref("main").open(paths[1]) as file:
        assert coldest["temp"].to_list() == [pd.read_parquet(file)["temp"].min()]
    # this run wrote what the second asset read, so its input is the commit from which the run began
    record = repo.runs.get(f"dagster weather_job {GOOD}")
    assert {read.prefix for read in record.inputs} == {"weather/observed/2013/01/01/10:00/"}


@pytest.mark.parametrize("example", [DAG, ICEBERG, WEATHER], ids=lambda path: path.stem)
def test_an_example_is_short_and_can_be_loaded(example):
    assert len(example.read_text().splitlines()) <= 25
    dg.Definitions.validate_loadable(load(example).defs)
