"""The built-in checks, each with a table of files: what passes, what is refused, and edge cases."""

import gzip
import json
from datetime import date, datetime, timedelta

import pyarrow as pa
import pytest

from graveler import checks
from tests.gates.files import (
    FAILED,
    MODEL,
    TEST,
    File,
    column,
    csv,
    dbt,
    judged,
    packed,
    rows,
    table,
)

FIRST = datetime(2013, 1, 1)  # noqa: DTZ001 - no zone
MIB = 1 << 20
ROWS = checks.row_count("o/")
FRESH = checks.freshness("o/", timedelta(days=2), column="z")
DBT = checks.dbt_results("o/")
CSV = checks.file_format("o/", "csv")
JSON = checks.file_format("o/", "json")
SAME_INT = checks.schema("o/", {"id": "int64"}, evolution="none")


def ids(number, **columns):
    return File(".parquet", rows(number, **columns))


def text(data, end=".csv"):
    return File(end, data.encode() if isinstance(data, str) else data)


DAMAGED = File(".parquet", rows(3)[:-20] + b"\0" * 16 + b"PAR1")
FARE = "struct<amount: int64, tip: int64>"
TRIP = table({"trip": [{"fare": {"amount": 1, "tip": 2}}]})
INDENTED = json.dumps([{"a": "b" * 50}] * 3000, indent=2)

CASES = {
    # gate, a part of the reason, or "" if it passes, and the files
    "rows enough": (checks.row_count("o/", 3), "", ids(3)),
    "rows of all": (checks.row_count("o/", 5, 5), "", ids(3), File(".pq", rows(1)), csv(7)),
    "too few": (checks.row_count("o/", 4), "3 rows in 1 files below 'o/': expected at l", ids(3)),
    "too many": (checks.row_count("o/", 0, 2), "expected at most 2", ids(3)),
    "rows of nothing": (ROWS, "0 rows in 0 files below 'o/': expected at least 1; nothing there"),
    "rows of nothing, allowed": (checks.row_count("o/", missing="allow"), ""),
    "rows of an empty file": (ROWS, "0 rows in 1 files", ids(0)),
    "markers left out": (
        *(checks.row_count("o/", 3, 3), ""),
        *(text("", "/_SUCCESS"), text("x", "/.a.crc"), ids(3)),
    ),
    "rows of a text": (ROWS, "cannot be counted", text("x", ".txt")),
    "lines in quotes": (checks.row_count("o/", 2, 2), "", text('a,b\n1,"x\ny"\n2,z\n\n')),
    "long fields": (checks.row_count("o/", 2, 2), "", csv("x" * 200_000, 2)),
    "rows of damage": (ROWS, "CorruptionError: 'o/0.parquet' cannot be read as Parquet", DAMAGED),
    "rows of another code": (ROWS, "cannot be read as CSV", text(b"a\n\xff\xfe\n")),
    "an open quote": (ROWS, "CSV: a field in quotes does not end", text('a,b\n1,"2\n3,4\n5,6\n')),
    # accepted values
    "accepted": (checks.accepted_values("o/", "z", ["a", "b"]), "", column(["a", None, "b"])),
    "not accepted": (
        checks.accepted_values("o/", "z", ["a"]),
        "'o/0.parquet': column 'z' has 3 rows with other values: 'b' (2), 'c' (1)",
        column(["a", "b", "c", "b"]),
    ),
    "null not accepted": (
        checks.accepted_values("o/", "z", ["a"], nulls=False),
        "has 1 rows with other values: None (1)",
        column(["a", None]),
    ),
    "accepted numbers": (checks.accepted_values("o/", "z", [1, 2]), "3 (1)", csv(1, 2, 3)),
    # schema
    "schema as said": (checks.schema("o/", {"id": "int64"}), "", ids(2, x=["a", "b"])),
    "schema lacks": (checks.schema("o/", {"id": "", "x": ""}), "'o/0.parquet' lacks x", ids(2)),
    "another type": (checks.schema("o/", {"id": "string"}), "id is int64, not string", ids(2)),
    "nothing new": (SAME_INT, "has new columns x", ids(2, x=["a", "b"])),
    "may widen": (checks.schema("o/", {"id": "int32"}, evolution="widen"), "", ids(2)),
    "may not narrow": (
        checks.schema("o/", {"z": "int64"}, evolution="widen"),
        "z is int32, not int64",
        column([1], pa.int32()),
    ),
    "struct": (checks.schema("o/", {"trip": f"struct<fare: {FARE}>"}), "", TRIP),
    "csv header": (
        checks.schema("o/", {"z": "int64", "other": "string"}, evolution="none"),
        "",
        text("\ufeffz,other\n1,2\n"),
    ),
    "csv without header": (checks.schema("o/", {"id": ""}), "no header", text("")),
    "files that differ": (
        checks.schema("o/", evolution="none"),
        "'o/1.parquet' has new columns x",
        *(ids(2), ids(2, x=[1, 2])),
    ),
    # dbt
    "dbt": (DBT, "", dbt(MODEL, TEST)),
    "dbt, failed": (
        DBT,
        "not_null_departures_flight: fail: Got 1 result, not 0",
        dbt(MODEL, TEST, FAILED),
    ),
    "dbt, warns": (DBT, "", dbt((TEST[0], "warn", "Got 1"))),
    "dbt, error": (DBT, "departures: error: Binder", dbt(TEST, (MODEL[0], "error", "Binder"))),
    "dbt, skipped": (DBT, "departures: skipped", dbt(TEST, (MODEL[0], "skipped"))),
    "dbt, no tests": (DBT, "0 tests ran: expected at least 1", dbt(MODEL)),
    "dbt, no tests, allowed": (checks.dbt_results("o/", tests_at_least=0), "", dbt(MODEL)),
    "dbt, nothing": (DBT, "brings no run_results.json below 'o/'"),
    "dbt, other file": (DBT, "brings no run_results.json", text("{}", "/manifest.json")),
    "dbt, nothing, allowed": (checks.dbt_results("o/", missing="allow"), ""),
    "dbt, half": (DBT, "cannot be read as JSON", text('{"results": [', "/run_results.json")),
    "dbt, a list": (DBT, "no list of results", text("[]", "/run_results.json")),
    "dbt, deep": (DBT, "cannot be read as JSON", text("[" * 200_000, "/run_results.json")),
    "dbt, no status": (DBT, "without unique_id and status", dbt(("model.a.b",))),
    # format
    "format": (checks.file_format("o/"), "", ids(1), text("", "/_SUCCESS"), csv(1)),
    "other name": (
        *(checks.file_format("o/", "parquet", "csv"), "'o/0.json' is not named as parquet or csv"),
        text("{}", ".json"),
    ),
    "no name": (
        *(checks.file_format("o/"), "'o/0.txt' is not named as parquet or csv or json"),
        text("x", ".txt"),
    ),
    "a name that lies": (checks.file_format("o/"), "cannot be read as", text("a,b\n", ".parquet")),
    "damaged": (checks.file_format("o/"), "cannot be read as Parquet", DAMAGED),
    "csv": (
        *(CSV, ""),
        *(text("\ufeffid,name\r\n1,Zürich\r\n"), text('"a\nb",c\n1,2\n'), packed(csv(1))),
        text("<DATE>,<HEAD>\n1,2\n\x1a"),
        text(b"id\n" + b"1\n" * (MIB // 2) + "é".encode() * 9),
        packed(text("id\n" + "aé\n" * (MIB // 2))),
    ),
    "csv, binary": (CSV, "'o/0.csv' cannot be read as CSV: 'utf-8'", text(bytes(range(256)))),
    "csv, NUL": (CSV, "'o/0.csv' is no CSV: it holds '\\x00'", text("a,b\n\0\0,1\n")),
    "csv, other code": (CSV, "cannot be read as CSV", text("a,b\nZürich,1\n".encode("latin-1"))),
    "csv, a page": (CSV, "is no CSV: it holds '<!DOCTYPE'", text("<!DOCTYPE html>\n<html>503")),
    "csv, a page below": (CSV, "is no CSV", text("\r\n  <html>")),
    "csv, NUL, packed": (CSV, "is no CSV", packed(text("a,b\n\0"))),
    "csv, cut": (CSV, "its end is missing", text(gzip.compress(b"id\n1\n")[:-9], ".csv.gz")),
    "csv, damaged": (
        *(CSV, "cannot be read as CSV"),
        text(gzip.compress(b"id\n1\n")[:9] + b"\xff" * 20, ".csv.gz"),
    ),
    "json": (
        *(JSON, "", text('{"a":\n1}', ".json"), text('{"a":1}\n{"a":2}\n', ".jsonl")),
        *(text("[1,2]", ".json"), text(INDENTED, ".json")),
    ),
    "no json": (JSON, "cannot be read as JSON", text("<a/>", ".json")),
    "no json, large": (JSON, "does not begin as JSON does", text("x" * 100_000, ".json")),
    "json, damaged early": (
        *(JSON, "cannot be read as JSON"),
        text('{\n"a" 1,\n"b": "' + "x" * 100_000 + '"}', ".json"),
    ),
    # size
    "size": (checks.file_size("o/", 1, 10), "", text("1234567890", "")),
    "empty": (checks.file_size("o/"), "'o/0' has 0 bytes, less than 1", text("", "")),
    "too large": (checks.file_size("o/", at_most=3), "4 bytes, more than 3", text("1234", "")),
    "two files": (checks.file_size("o/", files_at_most=1), "2 files, more", csv(1), csv(2)),
    "many are shown by a few": (checks.file_size("o/"), "; and 4 more", *[text("", "")] * 9),
    # age
    "fresh": (checks.freshness("o/"), "", csv(1)),
    "nothing is fresh": (checks.freshness("o/"), "nothing below 'o/' tells a time"),
    "fresh column": (FRESH, "", column([FIRST])),
    "fresh csv": (FRESH, "", csv("2013-01-01T00:00:00Z", "")),
    "stale column": (
        *(FRESH, "the newest below 'o/' is of 2012-12-02T00:00:00+00:00"),
        column([date(2012, 12, 1), date(2012, 12, 2)]),
    ),
    "no time": (checks.freshness("o/", column="id"), "has int, which is no time", ids(1)),
    "of the future": (
        checks.freshness("o/", column="z"),
        "'o/1.parquet' has 9999-01-01T00:00:00+00:00, which is more than 1 day, 0:00:00 after now",
        *(csv("2013-01-01"), column([FIRST.replace(year=9999)])),
    ),
    # paths
    "within": (checks.only_within("o/", "d/"), "", csv(1), File("", b"1", "d")),
    "outside": (
        *(checks.only_within("o/"), "'d/1' would be added outside of what the run may touch"),
        *(csv(1), File("", b"1", "d")),
    ),
    "no metadata": (checks.only_within("o/{hour}/"), "the run has no 'hour' among its", csv(1)),
}


@pytest.mark.parametrize("case", CASES)
def test_a_check_says(repo, case):
    gate, reason, *files = CASES[case]
    verdict = judged(repo, gate, *files)
    assert reason in verdict.reason
    assert verdict.passed is not bool(reason)
