"""The built-in checks, each with a table of files: what passes, what is refused, and edge cases."""

import gzip
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal

import pyarrow as pa
import pytest

from graveler import checks
from tests.gates.parquet import parquet, rows
from tests.gates.verdicts import FAILED, MODEL, TEST, dbt, said

DAMAGED = rows(3)[:-20] + b"\0" * 16 + b"PAR1"
HUGE = 2**62
NESTED = [{"fare": {"amount": 1, "tip": None}}, {"fare": {"amount": 3, "tip": 2}}]


def nested(values):
    return parquet({"trip": values})


CASES = {
    # gate, files, and the reason, or "" if it passes
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
        "2 values of id occur more than once (id=",
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
    "csv of another code in a column": (
        checks.not_null("t/", "a"),
        {"t/a.csv": "a,b\n1,Zürich\n".encode("latin-1")},
        "'t/a.csv' cannot be read as CSV: 'utf-8'",
    ),
    "csv with a field in quotes that does not end": (
        checks.row_count("t/", at_least=1),
        {"t/a.csv": b'a,b\n1,"2\n3,4\n5,6\n'},
        "'t/a.csv' cannot be read as CSV: a field in quotes does not end",
    ),
    "csv whose last field does not end": (
        checks.not_null("t/", "a"),
        {"t/a.csv": b'a,b\n1,"2\n,4\n'},
        "'t/a.csv' cannot be read as CSV: a field in quotes does not end",
    ),
    "csv with quotes in fields, whose last one does not end": (
        checks.unique("t/", "a"),
        {"t/a.csv": b'a,b\n1,x"y\n1,"3\n'},
        "'t/a.csv' cannot be read as CSV: a field in quotes does not end",
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
