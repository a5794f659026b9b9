import io
from datetime import UTC, datetime

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from graveler.demo import GATES
from graveler.demo.flights import FLIGHTS_SQL
from graveler.errors import GateFailedError
from graveler.testing import World

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
def repo():
    with World().open() as lake:
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


TWICE = {RAW: csv(2), OUTPUT: parquet([ROW]), OUTPUT.replace("-0", "-1"): parquet([ROW])}
TEXT = parquet([ROW | {"dep_delay": "2"}], dep_delay=pa.string())
TWO = (ROW, ROW | {"flight": 2})
LATE = ({"dep_delay": None}, {"dep_delay": -121}, {"dep_delay": 2881}, {"dep_time": None})
REFUSED = [
    # files of an hour, the gate that refuses or warns, its reason
    ({RAW: csv(1), OUTPUT: TEXT}, "schema", f"{OUTPUT!r} dep_delay is string, not int32"),
    ({RAW: csv(1), OUTPUT: parquet([ROW], drop=["visib"])}, "schema", "visib"),
    *((hour(*TWO) | {RAW: csv(n)}, "row count", f"{HOUR}: 2 rows, {n} landed") for n in (0, 1, 3)),
    ({RAW: csv(2)}, "row count", f"{HOUR}: 0 rows, 2 landed"),
    (hour(), "row count", f"{HOUR}: 0 rows, 0 landed"),
    ({OUTPUT: parquet([ROW])}, "row count", f"{RAW} is missing"),
    (hour(ROW, ROW, ROW | {"carrier": "AA"}), "no duplicates", "1 flights more than once: UA 1"),
    (TWICE, "no duplicates", "1 flights more than once"),
    *(
        (hour(ROW | wrong, TWO[1]), "plausible delays", "1 flights with an impossible delay: UA 1")
        for wrong in LATE
    ),
    (hour(ROW | {"temp": None}), "weather known", f"{HOUR}: no temperature at EWR"),
]


@pytest.mark.parametrize(("files", "gate", "reason"), REFUSED, ids=[each[1] for each in REFUSED])
def test_a_wrong_hour_is_refused_by_one_gate(repo, files, gate, reason):
    said = refusals(repo, files)
    assert reason in said[gate]
    assert len(said) == 1 or files[OUTPUT] == TEXT
    assert (repo.runs.get("hour").state == "PUBLISHED") == (gate == "weather known")


def test_only_the_hours_that_change_are_judged(repo):
    with repo.run("earlier, not judged") as run:
        run.put(OUTPUT.replace("10:00", "09:00"), b"not parquet")
    with repo.run("hour", gates=GATES) as run:
        for path, body in hour(ROW).items():
            run.put(path, body)
    assert all(verdict.passed for verdict in run.result.verdicts)
