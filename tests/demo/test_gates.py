import io
from datetime import UTC, datetime

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import graveler
from graveler.demo import GATES
from graveler.demo.flights import FLIGHTS_SQL
from graveler.errors import GateFailedError

HOUR = "2013/01/01/10:00"
RAW = f"input/{HOUR}/flights.csv"
OUTPUT = f"output/flights/{HOUR}/part-0.parquet"
TYPES = {
    "timestamp": pa.timestamp("us", tz="UTC"),
    "string": pa.string(),
    "int": pa.int32(),
    "double": pa.float64(),
}
ROW = {
    "time_hour": datetime(2013, 1, 1, 10, tzinfo=UTC),
    "carrier": "UA",
    "flight": 1,
    "tailnum": None,
    "origin": "EWR",
    "dest": "IAH",
    "sched_dep_time": 515,
    "dep_time": 517,
    "dep_delay": 2,
    "arr_delay": 11,
    "air_time": 227,
    "distance": 1400,
    "temp": 39.0,
    "wind_speed": 12.7,
    "precip": 0.0,
    "visib": 10.0,
}


@pytest.fixture
def repo(tmp_path):
    with graveler.open(tmp_path / "lake", create=True) as lake:
        yield lake.create_repository("flights")


def parquet(rows, drop=(), **types):
    kinds = {name: TYPES[kind] for name, kind in FLIGHTS_SQL.items() if name not in drop} | types
    schema = pa.schema(list(kinds.items()))
    out = io.BytesIO()
    pq.write_table(pa.Table.from_pylist(rows, schema=schema), out)
    return out.getvalue()


def csv(count):
    return b"flight\n" + b"1\n" * count


def refusals(repo, files):
    """Return the reasons for which gates refuse an hour with these files, by gate."""
    try:
        with repo.run("hour", gates=GATES) as run:
            for path, body in files.items():
                run.put(path, body)
    except GateFailedError as error:
        verdicts = error.verdicts
        assert not list(repo.ref("main").entries())
    else:
        verdicts = run.result.verdicts
        assert [entry.path for entry in repo.ref("main").entries()] == sorted(files)
    assert [verdict.gate for verdict in verdicts] == [gate.name for gate in GATES]
    return {verdict.gate: verdict.reason for verdict in verdicts if not verdict.passed}


def hour(*rows):
    return {RAW: csv(len(rows)), OUTPUT: parquet(rows)}


def test_a_good_hour_passes_every_gate(repo):
    assert refusals(repo, hour(ROW, ROW | {"flight": 2, "dep_time": None, "dep_delay": None})) == {}


def test_a_column_of_another_type_is_refused(repo):
    body = parquet([ROW | {"dep_delay": "2"}], dep_delay=pa.string())
    said = refusals(repo, {RAW: csv(1), OUTPUT: body})
    assert f"{OUTPUT}: columns differ" in said["schema"]
    assert "dep_delay" in said["schema"]


def test_a_missing_column_is_refused(repo):
    said = refusals(repo, {RAW: csv(1), OUTPUT: parquet([ROW], drop=["visib"])})
    assert list(said) == ["schema"]
    assert "visib" in said["schema"]


@pytest.mark.parametrize("landed", [0, 1, 3])
def test_a_row_lost_or_invented_is_refused(repo, landed):
    said = refusals(repo, hour(ROW, ROW | {"flight": 2}) | {RAW: csv(landed)})
    assert said == {"row count": f"{HOUR}: 2 rows, {landed} landed"}


def test_an_hour_without_output_is_refused(repo):
    assert refusals(repo, {RAW: csv(2)}) == {"row count": f"{HOUR}: 0 rows, 2 landed"}


def test_an_hour_without_flights_is_refused(repo):
    assert refusals(repo, hour()) == {"row count": f"{HOUR}: 0 rows, 0 landed"}


def test_output_without_input_is_refused(repo):
    said = refusals(repo, {OUTPUT: parquet([ROW])})
    assert list(said) == ["row count"]
    assert f"{RAW} is missing" in said["row count"]


def test_a_flight_that_is_there_twice_is_refused(repo):
    said = refusals(repo, hour(ROW, ROW, ROW | {"carrier": "AA"}))
    assert said == {"no duplicates": f"{HOUR}: 1 flights more than once: UA 1"}


def test_a_flight_that_is_there_twice_in_two_files_is_refused(repo):
    files = {RAW: csv(2), OUTPUT: parquet([ROW]), OUTPUT.replace("-0", "-1"): parquet([ROW])}
    assert list(refusals(repo, files)) == ["no duplicates"]


@pytest.mark.parametrize(
    "wrong",
    [
        {"dep_delay": None},
        {"dep_delay": -121},
        {"dep_delay": 2881},
        {"dep_time": None},
    ],
)
def test_a_delay_that_cannot_be_true_is_refused(repo, wrong):
    said = refusals(repo, hour(ROW | wrong, ROW | {"flight": 2}))
    assert list(said) == ["plausible delays"]
    assert "1 flights with an impossible delay: UA 1" in said["plausible delays"]


def test_missing_weather_is_said_and_let_through(repo):
    assert refusals(repo, hour(ROW | {"temp": None})) == {
        "weather known": f"{HOUR}: no temperature at EWR"
    }
    assert repo.runs.get("hour").state == "PUBLISHED"


def test_only_the_hours_that_change_are_judged(repo):
    with repo.run("earlier, not judged") as run:
        run.put(OUTPUT.replace("10:00", "09:00"), b"not parquet")
    with repo.run("hour", gates=GATES) as run:
        for path, body in hour(ROW).items():
            run.put(path, body)
    assert all(verdict.passed for verdict in run.result.verdicts)
