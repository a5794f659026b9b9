"""The built-in checks, each at a table of files: what passes, what is refused, what is odd."""

import gzip
import json
import math
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from graveler import checks
from graveler.errors import GateFailedError, InvalidInputError
from graveler.gates import Gate
from graveler.runs import Origin
from tests.gates.parquet import parquet, rows

DAMAGED = rows(3)[:-20] + b"\0" * 16 + b"PAR1"
HUGE = 2**62
MANY: Any = "many"
THREE: Any = 3
NAMES: Any = ["x"]
HOUR: Any = "1h"
NOTHING: Any = None
NESTED = [{"fare": {"amount": 1, "tip": None}}, {"fare": {"amount": 3, "tip": 2}}]


def said(repo, gate, files, *, on_main=None, delete=(), metadata=None):
    """What a gate says of a run that writes these files: "" where it passes."""
    if on_main:
        with repo.run("before") as before:
            for path, data in on_main.items():
                before.put(path, data)
    try:
        with repo.run("hour 05", gates=[gate], metadata=metadata, on_failure="drop") as run:
            for path, data in files.items():
                run.put(path, data)
            run.delete_many(delete)
            if not files:
                run.put("elsewhere", b"1")
    except GateFailedError as error:
        return error.verdicts[0].reason
    return ""


def nested(values):
    return parquet({"trip": values})


def dbt(*results):
    """The file in which dbt records results, given as id, status and message."""
    rows = [dict(zip(("unique_id", "status", "message"), row, strict=False)) for row in results]
    return {"dbt/05/run_results.json": json.dumps({"metadata": {}, "results": rows}).encode()}


MODEL = ("model.flights.departures", "success", "OK")
TEST = ("test.flights.unique_departures_flight.f2c2", "pass", None)
FAILED = ("test.flights.not_null_departures_flight.f2c2", "fail", "Got 1 result,\n  not 0")

CASES = {
    # gate, files, "" or what is said
    "rows enough": (checks.row_count("t/", 3), {"t/a.parquet": rows(3)}, ""),
    "rows of all files": (
        checks.row_count("t/", 5, 5),
        {"t/a.parquet": rows(3), "t/b.pq": rows(1), "t/c.csv": b"id\n7\n"},
        "",
    ),
    "rows too few": (
        checks.row_count("t/", 4),
        {"t/a.parquet": rows(3)},
        "3 rows in 1 files below 't/': expected at least 4",
    ),
    "rows too many": (checks.row_count("t/", 0, 2), {"t/a.parquet": rows(3)}, "at most 2"),
    "rows of nothing": (
        checks.row_count("t/"),
        {},
        "0 rows in 0 files below 't/': expected at least 1; nothing there would change",
    ),
    "rows of nothing, allowed": (checks.row_count("t/", missing="allow"), {}, ""),
    "rows of an empty file": (checks.row_count("t/"), {"t/a.parquet": rows(0)}, "0 rows"),
    "rows, marker files left out": (
        checks.row_count("t/", 3, 3),
        {"t/_SUCCESS": b"", "t/.a.crc": b"x", "t/a.parquet": rows(3)},
        "",
    ),
    "rows of an unknown kind": (checks.row_count("t/"), {"t/a.txt": b"x"}, "cannot be counted"),
    "rows of csv with lines in quotes": (
        checks.row_count("t/", 2, 2),
        {"t/a.csv": b'a,b\n1,"x\ny"\n2,z\n\n'},
        "",
    ),
    "rows of a damaged file": (
        checks.row_count("t/"),
        {"t/a.parquet": DAMAGED},
        "CorruptionError: 't/a.parquet' cannot be read as Parquet",
    ),
    "rows of an empty object": (checks.row_count("t/"), {"t/a.parquet": b""}, "CorruptionError"),
    "rows of a csv in another code": (
        checks.row_count("t/"),
        {"t/a.csv": b"a\n\xff\xfe\n"},
        "cannot be read as CSV",
    ),
    "schema as said": (
        checks.schema("t/", {"id": "int64"}),
        {"t/a.parquet": rows(2, x=["a", "b"])},
        "",
    ),
    "schema lacks a column": (
        checks.schema("t/", {"id": "int64", "fare": ""}),
        {"t/a.parquet": rows(2)},
        "'t/a.parquet' lacks fare",
    ),
    "schema has another type": (
        checks.schema("t/", {"id": "string"}),
        {"t/a.parquet": rows(2)},
        "id is int64, not string",
    ),
    "schema takes nothing new": (
        checks.schema("t/", {"id": "int64"}, evolution="none"),
        {"t/a.parquet": rows(2, x=["a", "b"])},
        "has new columns x",
    ),
    "schema may widen": (
        checks.schema("t/", {"id": "int32"}, evolution="widen"),
        {"t/a.parquet": rows(2)},
        "",
    ),
    "schema may not narrow": (
        checks.schema("t/", {"id": "int64"}, evolution="widen"),
        {"t/a.parquet": parquet({"id": pa.array([1], pa.int32())})},
        "id is int32, not int64",
    ),
    "schema of a struct": (
        checks.schema("t/", {"trip": "struct<fare: struct<amount: int64, tip: int64>>"}),
        {"t/a.parquet": nested(NESTED)},
        "",
    ),
    "schema of a csv header": (
        checks.schema("t/", {"id": "int64", "x": "string"}, evolution="none"),
        {"t/a.csv": "\ufeffid,x\n1,2\n".encode()},
        "",
    ),
    "schema of a csv without a column": (
        checks.schema("t/", {"id": "", "fare": ""}),
        {"t/a.csv": b"id,x\n"},
        "lacks fare",
    ),
    "schema of an empty csv": (checks.schema("t/", {"id": ""}), {"t/a.csv": b""}, "no header"),
    "schema of files that differ": (
        checks.schema("t/", evolution="none"),
        {"t/a.parquet": rows(2), "t/b.parquet": rows(2, x=[1, 2])},
        "'t/b.parquet' has new columns x",
    ),
    "schema of nothing": (checks.schema("t/", {"id": ""}), {}, "there is nothing below 't/'"),
    "schema of a damaged file": (
        checks.schema("t/"),
        {"t/a.parquet": DAMAGED},
        "cannot be read as Parquet",
    ),
    "no nulls": (checks.not_null("t/", "id"), {"t/a.parquet": rows(3)}, ""),
    "nulls": (
        checks.not_null("t/", "id", "x"),
        {"t/a.parquet": rows(3, x=["a", None, None]), "t/b.parquet": rows(1, x=["a"])},
        "column 'x' has 2 nulls in 4 rows",
    ),
    "a share of nulls": (
        checks.not_null("t/", "x", share=0.5),
        {"t/a.parquet": rows(4, x=["a", None, None, "b"])},
        "",
    ),
    "nulls where no footer says": (
        checks.not_null("t/", "x"),
        {"t/a.parquet": parquet({"x": [1, None]}, write_statistics=False)},
        "has 1 nulls in 2 rows",
    ),
    "nulls of a csv": (checks.not_null("t/", "x"), {"t/a.csv": b"id,x\n1,\n"}, "1 nulls in 1"),
    "nulls within a struct": (
        checks.not_null("t/", "trip.fare.tip"),
        {"t/a.parquet": nested(NESTED)},
        "column 'trip.fare.tip' has 1 nulls in 2 rows",
    ),
    "nulls of a column that is not there": (
        checks.not_null("t/", "fare"),
        {"t/a.parquet": rows(1)},
        "has no column 'fare': it has id",
    ),
    "nulls within a list": (
        checks.not_null("t/", "x.list.element"),
        {"t/a.parquet": parquet({"x": [[1, None]]})},
        "lies within a list",
    ),
    "nulls of an unknown kind": (checks.not_null("t/", "x"), {"t/a.txt": b"x"}, "neither Parquet"),
    "unique": (
        checks.unique("t/", "id"),
        {"t/a.parquet": rows(3), "t/b.csv": b"id\n7\n"},
        "",
    ),
    "not unique between files": (
        checks.unique("t/", "id"),
        {"t/a.parquet": rows(3), "t/b.parquet": rows(2)},
        "2 values of id are there more than once (id=",
    ),
    "unique together": (
        checks.unique("t/", "id", "x"),
        {"t/a.parquet": rows(2, x=["a", "a"]), "t/b.parquet": rows(2, x=["b", "b"])},
        "",
    ),
    "unique within a struct": (
        checks.unique("t/", "trip.fare.amount"),
        {"t/a.parquet": nested([*NESTED, NESTED[0]])},
        "trip.fare.amount=1: 2 times",
    ),
    "huge numbers are distinct": (
        checks.unique("t/", "id"),
        {"t/a.parquet": parquet({"id": [HUGE, HUGE + 1]})},
        "",
    ),
    "nothing is unique": (checks.unique("t/", "id"), {}, "there is nothing below 't/'"),
    "in range": (checks.in_range("t/", "id", 0, 2), {"t/a.parquet": rows(3)}, ""),
    "too small": (
        checks.in_range("t/", "id", 1),
        {"t/a.parquet": rows(3)},
        "column 'id' has 0, less than 1",
    ),
    "too large by one": (
        checks.in_range("t/", "id", at_most=HUGE),
        {"t/a.parquet": parquet({"id": [HUGE, HUGE + 1]})},
        f"has {HUGE + 1}, more than {HUGE}",
    ),
    "range of floats": (
        checks.in_range("t/", "x", 0.0, 1.0),
        {"t/a.parquet": rows(2, x=[0.5, 1.0])},
        "",
    ),
    "NaN": (
        checks.in_range("t/", "x", 0.0),
        {"t/a.parquet": rows(2, x=[0.5, float("nan")])},
        "1 values that are NaN",
    ),
    "NaN, allowed": (
        checks.in_range("t/", "x", 0.0, nan=True),
        {"t/a.parquet": rows(2, x=[0.5, float("nan")])},
        "",
    ),
    "infinity": (
        checks.in_range("t/", "x", at_most=9.0),
        {"t/a.parquet": rows(1, x=[float("inf")])},
        "has inf, more than 9.0",
    ),
    "range of decimals": (
        checks.in_range("t/", "x", 1, 2),
        {"t/a.parquet": rows(1, x=[Decimal("2.01")])},
        "has 2.01, more than 2",
    ),
    "range of dates": (
        checks.in_range("t/", "x", date(2013, 1, 1), "2013-01-31"),
        {"t/a.parquet": rows(2, x=[date(2013, 1, 1), date(2013, 2, 1)])},
        "has 2013-02-01, more than 2013-01-31",
    ),
    "range of times": (
        checks.in_range("t/", "x", datetime(2013, 1, 1, 5, tzinfo=UTC)),
        {"t/a.parquet": rows(1, x=[datetime(2013, 1, 1, 4, 59)])},  # noqa: DTZ001 - no zone
        "less than 2013-01-01T05:00:00+00:00",
    ),
    "range of texts": (
        checks.in_range("t/", "x", "a", "m"),
        {"t/a.parquet": rows(2, x=["b", "z"])},
        "has z, more than m",
    ),
    "range of another type": (
        checks.in_range("t/", "x", 1),
        {"t/a.parquet": rows(1, x=["b"])},
        "cannot be compared with 1",
    ),
    "range of nulls alone": (
        checks.in_range("t/", "x", 1),
        {"t/a.parquet": rows(2, x=pa.array([None, None], pa.int64()))},
        "",
    ),
    "range where no footer says": (
        checks.in_range("t/", "x", 1),
        {"t/a.parquet": parquet({"x": [1, 0]}, write_statistics=False)},
        "has 0, less than 1",
    ),
    "range of many row groups": (
        checks.in_range("t/", "x", 1),
        {"t/a.parquet": parquet({"x": [5, None, None, 0, 3]}, row_group_size=1)},
        "has 0, less than 1",
    ),
    "range of a csv": (checks.in_range("t/", "x", 1), {"t/a.csv": b"x\n5\n0\n"}, "has 0, less"),
    "range of an empty file": (checks.in_range("t/", "id", 1), {"t/a.parquet": rows(0)}, ""),
    "dbt": (checks.dbt_results("dbt/"), dbt(MODEL, TEST), ""),
    "dbt, a test failed": (
        checks.dbt_results("dbt/"),
        dbt(MODEL, TEST, FAILED),
        "not_null_departures_flight: fail: Got 1 result, not 0",
    ),
    "dbt, a test warns": (checks.dbt_results("dbt/"), dbt(TEST, (*TEST[:1], "warn", "Got 1")), ""),
    "dbt, a model failed": (
        checks.dbt_results("dbt/"),
        dbt(TEST, (MODEL[0], "error", "Binder Error")),
        "departures: error: Binder Error",
    ),
    "dbt, a model was skipped": (
        checks.dbt_results("dbt/"),
        dbt(TEST, (MODEL[0], "skipped")),
        "departures: skipped",
    ),
    "dbt without tests": (
        checks.dbt_results("dbt/"),
        dbt(MODEL),
        "0 tests ran: expected at least 1",
    ),
    "dbt without tests, allowed": (checks.dbt_results("dbt/", tests_at_least=0), dbt(MODEL), ""),
    "dbt without a file": (
        checks.dbt_results("dbt/"),
        {},
        "brings no run_results.json below 'dbt/'",
    ),
    "dbt with another file": (
        checks.dbt_results("dbt/"),
        {"dbt/manifest.json": b"{}"},
        "brings no run_results.json",
    ),
    "dbt without a file, allowed": (checks.dbt_results("dbt/", missing="allow"), {}, ""),
    "dbt, half a file": (
        checks.dbt_results("dbt/"),
        {"dbt/run_results.json": b'{"results": ['},
        "'dbt/run_results.json' cannot be read as JSON",
    ),
    "dbt, a list": (
        checks.dbt_results("dbt/"),
        {"dbt/run_results.json": b"[]"},
        "no list of results",
    ),
    "dbt, deep": (
        checks.dbt_results("dbt/"),
        {"dbt/run_results.json": b"[" * 200_000},
        "cannot be read as JSON",
    ),
    "dbt, no status": (
        checks.dbt_results("dbt/"),
        dbt(("model.a.b",)),
        "without unique_id and status",
    ),
    "format": (
        checks.file_format("t/"),
        {"t/a.parquet": rows(1), "t/_SUCCESS": b""},
        "",
    ),
    "another format": (
        checks.file_format("t/", "parquet", "csv"),
        {"t/a.json": b"{}"},
        "'t/a.json' is not named as parquet or csv",
    ),
    "a name that lies": (checks.file_format("t/"), {"t/a.parquet": b"a,b\n"}, "cannot be read as"),
    "damaged": (checks.file_format("t/"), {"t/a.parquet": DAMAGED}, "cannot be read as Parquet"),
    "csv": (
        checks.file_format("t/", "csv"),
        {
            "t/a.csv": "\ufeffid,name\r\n1,Zürich\r\n".encode(),
            "t/b.csv": b'"a\nb",c\n1,2\n',
            "t/c.csv.gz": gzip.compress(b"id\n1\n"),
            "t/d.csv": b"<DATE>,<HEAD>\n1,2\n\x1a",
            "t/e.csv": b"id\n" + b"1\n" * (1 << 19) + "é".encode() * 9,
            "t/f.csv.gz": gzip.compress(b"id\n" + "aé\n".encode() * (1 << 19)),
        },
        "",
    ),
    "csv that is binary": (
        checks.file_format("t/", "csv"),
        {"t/a.csv": bytes(range(256))},
        "'t/a.csv' cannot be read as CSV: 'utf-8'",
    ),
    "csv with a NUL below its header": (
        checks.file_format("t/", "csv"),
        {"t/a.csv": b"a,b\n\0\0,1\n"},
        "'t/a.csv' is no CSV: it holds '\\x00'",
    ),
    "csv of another code below its header": (
        checks.file_format("t/", "csv"),
        {"t/a.csv": "a,b\nZürich,1\n".encode("latin-1")},
        "cannot be read as CSV",
    ),
    "csv that is a web page": (
        checks.file_format("t/", "csv"),
        {"t/a.csv": b"<!DOCTYPE html>\n<html>503, try later</html>"},
        "'t/a.csv' is no CSV: it holds '<!DOCTYPE'",
    ),
    "csv that is a web page, below an empty line": (
        checks.file_format("t/", "csv"),
        {"t/a.csv": b"\r\n  <html>"},
        "is no CSV",
    ),
    "csv that is another file, packed": (
        checks.file_format("t/", "csv"),
        {"t/a.csv.gz": gzip.compress(b"a,b\n\0")},
        "is no CSV",
    ),
    "csv, packed, cut off": (
        checks.file_format("t/", "csv"),
        {"t/a.csv.gz": gzip.compress(b"id\n1\n")[:-9]},
        "its end is missing",
    ),
    "csv, packed, damaged": (
        checks.file_format("t/", "csv"),
        {"t/a.csv.gz": gzip.compress(b"id\n1\n")[:9] + b"\xff" * 20},
        "cannot be read as CSV",
    ),
    "json": (
        checks.file_format("t/", "json"),
        {"t/a.json": b'{"a":\n1}', "t/b.jsonl": b'{"a":1}\n{"a":2}\n', "t/c.json": b"[1,2]"},
        "",
    ),
    "no json": (checks.file_format("t/", "json"), {"t/a.json": b"<a/>"}, "cannot be read as JSON"),
    "no json, and large": (
        checks.file_format("t/", "json"),
        {"t/a.json": b"x" * 100_000},
        "does not begin as JSON does",
    ),
    "size": (checks.file_size("t/", 1, 10), {"t/a": b"1234567890"}, ""),
    "empty": (checks.file_size("t/"), {"t/a": b""}, "'t/a' has 0 bytes, less than 1"),
    "too large": (checks.file_size("t/", at_most=3), {"t/a": b"1234"}, "4 bytes, more than 3"),
    "too many": (
        checks.file_size("t/", files_at_most=1),
        {"t/a": b"1", "t/b": b"1"},
        "2 files, more than 1",
    ),
    "many are reported by a few": (
        checks.file_size("t/"),
        {f"t/{number}": b"" for number in range(9)},
        "; and 4 more",
    ),
    "fresh": (checks.freshness("t/"), {"t/a": b"1"}, ""),
    "nothing is fresh": (checks.freshness("t/"), {}, "nothing below 't/' tells a time"),
    "a column that is fresh": (
        checks.freshness("t/", timedelta(days=2), column="x"),
        {"t/a.parquet": rows(1, x=[datetime(2013, 1, 1)])},  # noqa: DTZ001 - no zone
        "",
    ),
    "a column that is stale": (
        checks.freshness("t/", timedelta(days=2), column="x"),
        {"t/a.parquet": rows(2, x=[date(2012, 12, 1), date(2012, 12, 2)])},
        "the newest below 't/' is of 2012-12-02T00:00:00+00:00",
    ),
    "a column that is no time": (
        checks.freshness("t/", column="id"),
        {"t/a.parquet": rows(1)},
        "has int, which is no time",
    ),
    "within": (checks.only_within("t/", "u/"), {"t/a": b"1", "u/a": b"1"}, ""),
    "without": (
        checks.only_within("t/"),
        {"t/a": b"1", "u/a": b"1"},
        "'u/a' would be added outside of what the run may touch",
    ),
    "within what metadata does not say": (
        checks.only_within("t/{hour}/"),
        {"t/05/a": b"1"},
        "the run has no 'hour' among its metadata",
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_a_check_says(repo, case):
    gate, files, expected = CASES[case]
    there = said(repo, gate, files)
    assert expected in there
    assert bool(there) is bool(expected)


def test_results_that_dbt_wrote_in_another_run_are_stale(repo):
    gate = checks.dbt_results("dbt/")
    ((path, body),) = dbt(MODEL, TEST).items()

    def written_in(run):
        metadata = {"env": {"GRAVELER_RUN": run}}
        return {path: json.dumps({**json.loads(body), "metadata": metadata}).encode()}

    assert said(repo, gate, written_in("hour 05")) == ""
    refused = said(repo, gate, written_in("hour 04"))
    assert "is stale: dbt wrote it in run 'hour 04', and has written none in this run" in refused
    assert "delete it before dbt starts" in refused
    branch = repo.create_branch("by-hand", "main", exist_ok=True)
    branch.put(path, written_in("hour 04")[path])
    branch.commit("no run")
    repo.gates.require("main", gate)
    repo.merge("by-hand", into="main")


def test_a_run_stays_within_its_partition(repo):
    gate = checks.only_within("t/{hour}/")
    assert said(repo, gate, {"t/05/a": b"1"}, metadata={"hour": "05"}) == ""
    assert "'t/06/a' would be added" in said(repo, gate, {"t/06/a": b"1"}, metadata={"hour": "05"})


@pytest.mark.parametrize(
    ("prefix", "hour", "path"),
    [
        ("t/{hour}/", "2013-01-01T05:00Z", "t/2013/01/01/05:00/a"),
        ("t/{hour}/", "2013-01-01T05:00", "t/2013/01/01/05:00/a"),
        ("t/{hour}/", "2013-01-01T06:00+01:00", "t/2013/01/01/05:00/a"),
        ("t/{hour}/", "2013/01/01/05:00", "t/2013/01/01/05:00/a"),
        ("t/{hour}/", "2013/01/01/05:00/", "t/2013/01/01/05:00/a"),
        ("t/{hour}/", "2013-01-01T05:00Z", "t/2013-01-01T05:00Z/a"),
        ("t/{hour:%Y/%m/%d}/", "2013-01-01T00:00Z", "t/2013/01/01/23:00/a"),
        ("t/{hour:%Y/%m/%d}/", "2013/01/01/00:00", "t/2013/01/01/23:00/a"),
        ("t/{dagster.partition}/", "2013-01-01T05:00Z", "t/eu/a"),
        ("t/{key}/", "2013-01-01T05:00Z", "t/hour 05/a"),
        ("t/{{x}}/{hour}/", "05", "t/{x}/05/a"),
    ],
)
def test_a_time_of_the_run_is_also_its_folder(repo, prefix, hour, path):
    gate = checks.only_within(prefix)
    metadata = {"hour": hour, "dagster.partition": "eu"}
    assert said(repo, gate, {path: b"1"}, metadata=metadata) == ""
    other = path.replace("t/", "t/2013/02/", 1)
    assert "would be added" in said(repo, gate, {other: b"1"}, metadata=metadata)


@pytest.mark.parametrize("hour", ["2013-01-01", "20130101", "0001-01-01T00:00+14:00", "5:0"])
def test_what_is_no_hour_stands_for_itself_alone(repo, hour):
    gate = checks.only_within("t/{hour}/")
    assert said(repo, gate, {f"t/{hour}/a": b"1"}, metadata={"hour": hour}) == ""
    folder = {"t/2013/01/01/00:00/a": b"1"}
    assert "would be added" in said(repo, gate, folder, metadata={"hour": hour})


def test_the_integrations_run_folder_is_one_they_may_touch(repo):
    metadata = Origin("dagster", "hourly", partition="eu", hour="2013-01-01T05:00Z").metadata()
    for gate in (checks.only_within("t/{hour}/"), checks.nothing_deleted_outside("t/{hour}/")):
        assert said(repo, gate, {"t/2013/01/01/05:00/a": b"1"}, metadata=metadata) == ""


@pytest.mark.parametrize(
    ("prefix", "reason"),
    [
        ("{region}", "what they name is empty"),
        ("t/{region:%Y}", "cannot be filled in"),
        ("t/{hour.year}/", "the run has no 'hour.year'"),
    ],
)
def test_a_prefix_that_matches_nothing_of_the_run_passes_nothing(repo, prefix, reason):
    metadata = {"hour": "2013-01-01T05:00Z", "region": ""}
    assert reason in said(repo, checks.only_within(prefix), {"t/a": b"1"}, metadata=metadata)


def test_a_commit_names_a_gate_of_several_prefixes_as_one(repo):
    gate = checks.only_within("t/", "u/")
    with repo.run("hour 05", gates=[gate]) as run:
        run.put("t/a", b"1")
    assert repo.why("t/a").gates == (gate.name,)


def test_nothing_is_deleted_but_where_it_may_be(repo):
    gate = checks.nothing_deleted_outside("t/")
    main = {"t/a": b"1", "u/a": b"1"}
    assert said(repo, gate, {"u/b": b"1", "u/a": b"2"}, on_main=main, delete=["t/a"]) == ""
    assert "'u/a' would be deleted" in said(repo, gate, {}, delete=["u/a"])


def test_what_puts_main_back_may_delete(repo):
    repo.gates.require("main", checks.nothing_deleted_outside("t/"), checks.row_count("t/"))
    with repo.run("hour 05") as run:
        run.put("t/a.parquet", rows(3))
        run.put("u/a", b"1")
    repo.revert("main", parent=1)
    assert [entry.path for entry in repo.ref("main").entries()] == ["settled"]


def test_the_schema_is_that_of_the_newest_file_on_main(repo):
    gate = checks.schema("t/")
    assert said(repo, gate, {"t/a.parquet": rows(1)}) == ""
    with repo.run("later") as run:
        run.put("t/b.parquet", rows(1, x=["a"]))
    assert "'t/c.parquet' lacks x" in said(repo, gate, {"t/c.parquet": rows(1)})


@pytest.mark.parametrize("scope", ["changes", "all"])
def test_old_files_are_judged_again_only_where_that_is_asked(repo, scope):
    bad = {"t/a.parquet": rows(1, x=pa.array([None], pa.string()))}
    gate = checks.not_null("t/", "x", scope=scope)
    there = said(repo, gate, {"t/b.parquet": rows(1, x=["a"])}, on_main=bad)
    assert there == ("" if scope == "changes" else "column 'x' has 1 nulls in 2 rows")


def test_each_run_may_be_unique_and_both_together_not(repo):
    gate = checks.unique("t/", "id")
    assert said(repo, gate, {"t/a.parquet": rows(2)}) == ""
    assert "more than once" in said(repo, gate, {"t/b.parquet": rows(1)})
    assert said(repo, checks.unique("t/", "id", scope="changes"), {"t/c.parquet": rows(1)}) == ""


def test_a_reference_must_be_found(repo):
    carriers = {"c/a.parquet": parquet({"code": ["AA", "UA", None]})}
    gate = checks.refers_to("t/", "carrier", "c/", "code")
    good = {"t/a.parquet": parquet({"carrier": ["AA", None, "AA"]})}
    assert said(repo, gate, good, on_main=carriers) == ""
    lost = said(repo, gate, {"t/b.parquet": parquet({"carrier": ["ZZ", "UA", "YY"]})})
    assert "2 values of 'carrier' below 't/' are not in 'code' below 'c/': 'YY', 'ZZ'" in lost
    assert "are not in" in said(
        repo,
        checks.refers_to("t/", "carrier", "n/"),
        {"t/c.parquet": parquet({"carrier": ["AA"]})},
    )
    assert said(repo, gate, {"u/a": b"1"}) == ""


def test_a_reference_is_judged_again_when_what_it_refers_to_goes(repo):
    gate = checks.refers_to("t/", "carrier", "c/", "code", scope="all")
    with repo.run("before", gates=[gate]) as run:
        run.put("c/a.parquet", parquet({"code": ["AA"]}))
        run.put("t/a.parquet", parquet({"carrier": ["AA"]}))
    assert "are not in" in said(repo, gate, {}, delete=["c/a.parquet"])


def test_a_stale_folder_is_not_fresh_though_it_was_judged_before(repo):
    gate = checks.freshness("t/", timedelta(hours=1))
    assert said(repo, gate, {"t/a": b"1"}) == ""
    repo.stores.clock.sleep(7_200)
    assert "ago: more than 1:00:00" in said(repo, gate, {})


def hours(repo, numbers, gate=None):
    """Publish a run for each number, of so many rows; return what the last one's gate said."""
    for hour, number in enumerate(numbers):
        last = hour == len(numbers) - 1
        try:
            with repo.run(f"hour {hour}", gates=[gate] if last and gate else []) as run:
                run.put(f"t/{hour:02}/a.parquet", rows(number))
        except GateFailedError as error:
            return error.verdicts[0]
    return repo.runs.get(f"hour {len(numbers) - 1}").verdicts[0]


@pytest.mark.parametrize(
    ("numbers", "options", "expected"),
    [
        ([10, 10, 10, 9], {}, ""),
        ([10, 12, 8, 4], {}, "4 rows below 't/', where 3 earlier commits brought 10 (median)"),
        ([10, 10, 10, 5], {}, ""),
        ([10, 10, 10, 40], {}, ""),
        ([10, 10, 10, 40], {"more": 2.0}, "more than 200% more"),
        ([10, 10, 1], {}, ""),  # too few to compare with
        ([1], {}, ""),
        ([1000, 10, 10, 10, 9], {}, ""),  # one odd day is not what is usual
        ([100, 1, 1, 1, 1], {"history": 3}, ""),
        ([100, 1, 1, 1, 1], {"history": 3.0}, ""),
    ],
)
def test_rows_are_compared_with_what_is_usual(repo, numbers, options, expected):
    verdict = hours(repo, numbers, checks.row_count_change("t/", **options))
    assert expected in verdict.reason
    assert verdict.passed is not bool(expected)
    assert verdict.facts["rows"] == numbers[-1]


def test_commits_elsewhere_are_no_history(repo):
    hours(repo, [10, 10, 10], checks.row_count("t/"))
    for number in range(5):
        with repo.run(f"other {number}") as run:
            run.put(f"u/{number}", b"1")
    verdict = hours(repo, [10, 10, 10, 10], checks.row_count_change("t/"))
    assert verdict.facts["compared"] >= 3


@pytest.mark.parametrize(
    ("make", "expected"),
    [
        (lambda: checks.schema(evolution="any"), "evolution 'any'"),
        (lambda: checks.row_count(scope="some"), "scope 'some'"),
        (lambda: checks.row_count(missing="maybe"), "missing 'maybe'"),
        (lambda: checks.row_count_change(history=1), "history 1"),
        (lambda: checks.not_null("t/"), "at least one column"),
        (lambda: checks.unique("t/"), "at least one column"),
        (lambda: checks.in_range("t/", "x"), "at_least or at_most"),
        (lambda: checks.file_format("t/", "orc"), "formats"),
        (lambda: checks.dbt_results("dbt/", tests_at_least=-1), "tests_at_least=-1"),
        (lambda: checks.freshness("t/", 0), "max_age"),
        (checks.only_within, "at least one prefix"),
        (lambda: checks.only_within(""), "none empty"),
        (lambda: checks.refers_to("t/", "x", ""), "the other prefix"),
        (lambda: checks.row_count(severity="loud"), "severity 'loud'"),
        (lambda: checks.row_count("t/", MANY), "at_least 'many': give a whole number or null"),
        (lambda: checks.row_count("t/", at_most=True), "at_most True: give a whole number"),
        (lambda: checks.row_count_change("t/", less=float("nan")), "less nan: give a number"),
        (lambda: checks.not_null("t/", THREE), "give a list of texts"),
        (lambda: checks.row_count(THREE), "prefix 3: give text"),
        (lambda: checks.only_within(THREE), "give a list of texts"),
        (lambda: checks.row_count_change(less=50), "from 0 to below 1, 0.5 for 50 %"),
        (lambda: checks.row_count_change(less=-0.1), "less -0.1"),
        (lambda: checks.row_count_change(more=50), "from 0 to 10, 0.5 for 50 %"),
        (lambda: checks.not_null("t/", "x", share=5), "share 5: .* 0.05 for 5 %"),
        (lambda: checks.row_count("t/", at_least=5, at_most=1), "5 and at_most 1: nothing lies"),
        (lambda: checks.row_count("t/", at_least=-1), "numbers from 0 to"),
        (lambda: checks.file_size("t/", 5, 1), "nothing lies between"),
        (lambda: checks.file_size("t/", files_at_most=0), "files_at_most 0"),
        (lambda: checks.in_range("t/", "x", 5, 1), "nothing lies between"),
        (lambda: checks.in_range("t/", "x", "b", "a"), "nothing lies between"),
        (lambda: checks.in_range("t/", "x", date(2013, 1, 2), date(2013, 1, 1)), "nothing lies"),
        (
            lambda: checks.in_range("t/", "x", "2013-01-01T01:00+02:00", "2012-12-31T22:00Z"),
            "nothing lies",
        ),
        (lambda: checks.in_range("t/", "x", 1, "a"), "two of one type"),
        (lambda: checks.in_range("t/", "x", float("nan")), "at_least nan: give a number"),
        (lambda: checks.schema("t/", NAMES), r"column 'x': give types by name, as {'id': 'int64'}"),
        (lambda: checks.schema("t/", {"x": "float64"}), "no type 'float64': did you mean 'double'"),
        (lambda: checks.schema("t/", {"x": "int46"}), "did you mean 'int64'"),
        (lambda: checks.schema("t/", {"x": "timestamp"}), "did you mean 'timestamp"),
        (lambda: checks.schema("t/", {"x": "nonsense"}), "no type 'nonsense': give it as Arrow"),
        (lambda: checks.schema("t/", THREE), "columns 3"),
        (lambda: checks.freshness("t/", "an hour"), "max_age='an hour': give a timedelta"),
        (lambda: checks.freshness("t/", NOTHING), "max_age None: give a number"),
        (lambda: checks.freshness("t/", math.inf), "max_age inf: give seconds above 0, at most 31"),
        (lambda: checks.freshness("t/", 1e300), "max_age 1e.300: give seconds above 0, at most"),
        (lambda: checks.freshness("t/", 10**400), "max_age 1000.*: give seconds above 0"),
        (lambda: checks.freshness("t/", timedelta.max), "max_age .*: give seconds above 0"),
        (lambda: checks.row_count_change(less=None), "less None and more None: nothing is"),
        (lambda: checks.row_count_change(less=1.0), "less 1.0: give a share from 0 to below 1"),
        (lambda: checks.not_null("t/", "x", share=1.0), "share 1.0: give a share from 0 to below"),
        (lambda: checks.not_null("t/", ""), "column ''"),
        (lambda: checks.not_null("t/", "x", "x"), "column 'x' is named twice"),
        (lambda: checks.unique("t/", "x", "x"), "column 'x' is named twice"),
        (lambda: checks.in_range("t/", "x", -math.inf), "-inf and at_most None: every value"),
        (lambda: checks.in_range("t/", "x", -math.inf, math.inf), "inf and at_most inf: every"),
        (lambda: checks.in_range("t/", "x", math.inf), "at_least inf .*: no finite value"),
        (lambda: checks.in_range("t/", "x", None, -math.inf), "at_most -inf: no finite value"),
        (lambda: checks.schema("t/", {}), "columns {}: name at least one"),
        (lambda: checks.row_count("t/", 0, missing="allow"), "at_least 0, at_most None and miss"),
        (lambda: checks.row_count("t/", None, missing="allow"), "at_least None, at_most None"),
        (lambda: checks.row_count("t/", 10**400), "give numbers from 0 to 9223372036854775807"),
        (lambda: checks.file_size("t/", 0, missing="allow"), "files_at_most None and missing"),
        (lambda: checks.file_size("t/", None, missing="allow"), "nothing is refused"),
        (lambda: checks.only_within("t/{"), "prefix 't/{' cannot be filled in: Single '{'"),
        (lambda: checks.only_within("t/{}/"), "prefix 't/{}/': give a name in its braces"),
        (lambda: checks.only_within("t/{hour:d}/"), "cannot be filled in: Unknown format code"),
        (lambda: checks.nothing_deleted_outside("t/}"), "prefix 't/}' cannot be filled in"),
        (lambda: checks.row_count("t/", memory=10**30), f"memory 1{'0' * 30}: .* at most"),
        (lambda: checks.row_count("t/", timeout=1e12), "timeout 1000000000000.0: .* at most"),
        (lambda: checks.row_count("t/", timeout=10**400), "timeout 1000.*: .* at most"),
        (lambda: checks.row_count("t/", timeot=3), "'timeot': there is no such option"),
        (lambda: checks.row_count("t/", memory="64M"), "memory '64M'"),
        (lambda: checks.row_count("t/", timeout="60"), "timeout"),
        (lambda: checks.row_count("t/", name=""), "gate name ''"),
        (lambda: Gate("g", HOUR), "check '1h': give a function"),
    ],
)
def test_what_no_check_can_mean_is_refused_when_it_is_made(make, expected):
    with pytest.raises(InvalidInputError, match=expected):
        make()


@pytest.mark.parametrize(
    "gate",
    [
        checks.in_range("t/", "x", 0, math.inf),
        checks.row_count_change("t/", less=None, more=0.5),
        checks.row_count("t/", None, 3, missing="allow"),
        checks.file_size("t/", None, files_at_most=1, missing="allow"),
        checks.row_count("t/", timeout="36500d"),
        checks.row_count("t/", memory=1 << 50),
    ],
)
def test_bounds_that_leave_something_to_refuse_pass(disk, gate):
    with disk.run("hour", gates=[gate]) as run:
        run.put("t/a.parquet", rows(3, x=[0.5, 1.0, 2.0]))
    assert disk.runs.get("hour").verdicts[0].passed


@pytest.mark.parametrize(
    "kind",
    [
        "timestamp[us, tz=Europe/Vienna]",
        "decimal128(38, 9)",
        "list<item: int64>",
        "struct<a: int64, b: list<item: string>>",
        "dictionary<values=string, indices=int32, ordered=0>",
        "fixed_size_binary[16]",
        "fixed_size_list<item: float>[3]",
        "time64[us]",
        "duration[ns]",
        "",
    ],
)
def test_types_that_arrow_has_are_taken(kind):
    check: Any = checks.schema("t/", {"x": kind}).check
    assert check.parameters["columns"] == {"x": kind}


def test_every_plain_type_that_arrow_writes_is_known():
    made = [
        *(
            pa.null(),
            pa.bool_(),
            pa.float16(),
            pa.float32(),
            pa.float64(),
            pa.date32(),
            pa.date64(),
        ),
        *(pa.string(), pa.large_string(), pa.binary(), pa.large_binary(), pa.binary(16)),
        *(pa.time32("s"), pa.time64("ns"), pa.timestamp("ms", "UTC"), pa.duration("s")),
        *(pa.decimal128(9, 2), pa.decimal256(40), pa.list_(pa.int8()), pa.large_list(pa.int8())),
        *(pa.list_(pa.int8(), 3), pa.map_(pa.string(), pa.int8()), pa.struct({"a": pa.int8()})),
        *(pa.dictionary(pa.int8(), pa.string()), pa.month_day_nano_interval()),
        *(getattr(pa, f"{sign}int{bits}")() for sign in ("", "u") for bits in (8, 16, 32, 64)),
    ]
    for kind in made:
        checks.schema("t/", {"x": str(kind)})


MAKE = {
    "schema": lambda **options: checks.schema("t/", {"id": ""}, **options),
    "row_count": lambda **options: checks.row_count("t/", **options),
    "row_count_change": lambda **options: checks.row_count_change("t/", **options),
    "not_null": lambda **options: checks.not_null("t/", "id", **options),
    "unique": lambda **options: checks.unique("t/", "id", **options),
    "in_range": lambda **options: checks.in_range("t/", "id", 0, **options),
    "freshness": lambda **options: checks.freshness("t/", **options),
    "file_format": lambda **options: checks.file_format("t/", **options),
    "file_size": lambda **options: checks.file_size("t/", **options),
    "refers_to": lambda **options: checks.refers_to("t/", "id", "settled", **options),
}


@pytest.mark.parametrize("kind", MAKE)
@pytest.mark.parametrize("scope", ["changes", "all"])
def test_an_empty_prefix_is_refused_unless_allowed(repo, kind, scope):
    options: dict[str, Any] = {} if kind == "row_count_change" else {"scope": scope}
    assert "below 't/'" in said(repo, MAKE[kind](**options), {})
    assert said(repo, MAKE[kind](missing="allow", **options), {}) == ""


@pytest.mark.parametrize("kind", [kind for kind in MAKE if kind not in {"row_count", "freshness"}])
def test_a_run_that_leaves_what_is_there_as_it_is_passes(repo, kind):
    gate = MAKE[kind](**({} if kind == "row_count_change" else {"scope": "changes"}))
    assert said(repo, gate, {}, on_main={"t/a.parquet": rows(3)}) == ""


def test_that_nothing_is_left_below_a_prefix_is_judged_again(repo):
    """The change set is the same, and what is beside it is not."""
    gate = MAKE["schema"]()
    with repo.run("before") as before:
        before.put("t/a.parquet", rows(3))
    run = repo.runs.open("hour")
    run.put("elsewhere", b"1")
    run.commit_staged()
    assert run.judge([gate])[0].passed
    repo.branch("main").delete("t/a.parquet")
    repo.branch("main").commit("gone")
    assert not run.judge([gate])[0].passed


def test_removing_everything_is_no_lack_where_a_branch_was_reset(repo):
    with repo.run("first") as run:
        run.put("t/a.parquet", rows(3))
    repo.gates.require("main", MAKE["schema"](), MAKE["unique"]())
    repo.runs.rollback("first")
    assert not repo.ref("main").exists("t/a.parquet")


@pytest.mark.parametrize("prefix", ["/t/", "./t/", "../t/", "t/*", "t/*.parquet", "t//", "/", "*"])
@pytest.mark.parametrize(
    "make",
    [
        checks.file_format,
        checks.row_count,
        checks.row_count_change,
        checks.freshness,
        checks.only_within,
        checks.nothing_deleted_outside,
        lambda prefix: checks.refers_to("u/", "id", prefix),
        lambda prefix: Gate("g", lambda _: True, prefix=prefix),
        lambda prefix: Gate("g", lambda _: True, also=("t/", prefix)),
    ],
)
def test_a_prefix_that_makes_a_check_see_nothing_is_refused(make, prefix):
    plain = "" if prefix in {"/", "*"} else "t/"
    with pytest.raises(InvalidInputError, match=f"no path begins so; give .* '{plain}', or"):
        make(prefix)
    make("t/")


def test_lengths_of_time_are_taken_as_text():
    assert checks.freshness("t/", "36h").check == checks.freshness("t/", 36 * 3600.0).check
    assert checks.row_count("t/", timeout="2m").seconds == 120


def test_dbt_results_lists_what_failed_first(repo):
    passing = [(f"test.flights.t{number}.f2c2", "pass", None) for number in range(70)]
    twice = [("model.a.m", "success", "OK"), ("model.b.m", "success", "OK")]
    with repo.run("hour 05") as run:
        for path, data in dbt(*twice, *passing, FAILED).items():
            run.put(path, data)
        run.commit("dbt")
        (verdict,) = run.judge(checks.dbt_results("dbt/"))
        assert verdict.facts["tests"] == 71
        assert next(iter(verdict.facts["results"])) == "not_null_departures_flight"
        assert len(verdict.facts["results"]) == 64
        for path, data in dbt(*twice, TEST).items():
            run.put(path, data)
        run.commit("dbt again")
        (verdict,) = run.judge(checks.dbt_results("dbt/"))
        assert [*verdict.facts["results"]] == ["unique_departures_flight", "model.a.m", "model.b.m"]
