"""The values that checks read from CSV files, Parquet files, and both together."""

import gzip
import io
import json
import math
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from graveler import checks
from tests.gates.parquet import parquet, rows

NAN = math.nan
HALF = pa.array([1.0, NAN], pa.float32()).cast(pa.float16())
NOON = datetime(2013, 1, 1, 12, tzinfo=UTC)


def judged(repo, gate, files):
    """Return the verdict of a gate on a run that writes these files."""
    run = repo.runs.open("hour")
    for path, data in files.items():
        run.put(path, data)
    run.commit_staged()
    return run.judge([gate])[0]


def column(values, kind=None, **options):
    return parquet({"z": pa.array(values, kind)}, **options)


def words(values):
    return parquet({"z": pa.array(values).dictionary_encode()})


def csv(*values):
    return "\n".join(("z,other", *(f"{value},1" for value in values))).encode()


def twice():
    sink = io.BytesIO()
    pq.write_table(pa.table([[1], [2]], names=["z", "z"]), sink)
    return sink.getvalue()


RANGE = checks.in_range("o/", "z", 0, 9)
NOT_NULL = checks.not_null("o/", "z")
UNIQUE = checks.unique("o/", "z")
REFERS = checks.refers_to("o/", "z", "d/")

CASES = {
    # gate, files, and a part of the reason, or "" if it passes
    "times of a CSV, one in another form": (
        checks.in_range("o/", "z", at_most=date(2026, 1, 1)),
        {"o/a.csv": csv("2025-01-01", "2027-06-01", "01/02/2025")},
        "'01/02/2025', which is no ISO 8601 time",
    ),
    "times of a CSV, one with five digits": (
        checks.in_range("o/", "z", at_most="2026-01-01"),
        {"o/a.csv": csv("10000-01-01")},
        "'10000-01-01', which is no ISO 8601 time",
    ),
    "times of a CSV, with zones and without": (
        checks.in_range("o/", "z", at_most=datetime(2026, 1, 2, tzinfo=UTC)),
        {"o/a.csv": csv("2026-01-01T23:30:00-05:00", "2026-01-01")},
        "2026-01-02 04:30:00+00:00, more than",
    ),
    "NaN of a CSV": (RANGE, {"o/a.csv": csv(1.5, "nan")}, "1 values that are NaN"),
    "NaN of a CSV, spelled as pandas reads it": (
        RANGE,
        {"o/a.csv": csv(1, "NaN", "-nan")},
        "2 values that are NaN",
    ),
    "NaN of a packed CSV": (RANGE, {"o/a.csv.gz": gzip.compress(csv("NaN"))}, "are NaN"),
    "NaN of a CSV, allowed": (
        checks.in_range("o/", "z", 0, 9, nan=True),
        {"o/a.csv": csv(1.5, "nan")},
        "",
    ),
    "NaN of half precision": (RANGE, {"o/a.parquet": parquet({"z": HALF})}, "are NaN"),
    "NaN of a dictionary": (RANGE, {"o/a.parquet": words([1.0, NAN])}, "are NaN"),
    "NaN of a CSV is no null": (NOT_NULL, {"o/a.csv": csv(1.5, "NaN")}, ""),
    "NaN of a Parquet file is no null": (NOT_NULL, {"o/a.parquet": column([1.5, NAN])}, ""),
    "nulls of a CSV in every spelling": (
        NOT_NULL,
        {"o/a.csv": csv("x", "", "NA", "N/A", "n/a", "#N/A", "#NA", "NULL", "null", '""')},
        "has 9 nulls in 10 rows",
    ),
    "nulls of a CSV are in range": (RANGE, {"o/a.csv": csv(1, "", "NA", "NULL")}, ""),
    "whole numbers of a CSV beyond 64 bits": (
        checks.in_range("o/", "z", 0, 2**64),
        {"o/a.csv": csv(5, 2**64, "", "1e3")},
        "",
    ),
    "a whole number of a CSV just above its range": (
        checks.in_range("o/", "z", 0, 2**64),
        {"o/a.csv": csv(5, 2**64 + 1, "nan")},
        "has 18446744073709551617, more than 18446744073709551616",
    ),
    "a whole number of a CSV just below its range": (
        checks.in_range("o/", "z", -(10**35)),
        {"o/a.csv.gz": gzip.compress(csv(-(10**35) - 1, "inf"))},
        f"has -1{'0' * 34}1, less than",
    ),
    "infinity of a CSV": (RANGE, {"o/a.csv": csv(1, "inf")}, "has inf, more than 9"),
    "range of texts that are digits in a CSV": (
        checks.in_range("o/", "z", "00501", "99950"),
        {"o/a.csv": csv("00601", "10001")},
        "",
    ),
    "a text of a CSV below its range": (
        checks.in_range("o/", "z", "00501", "99950"),
        {"o/a.csv": csv("00123", "10001")},
        "has 00123, less than 00501",
    ),
    "range of lists": (
        RANGE,
        {"o/a.parquet": column([[1], [2]])},
        "InvalidInputError: column 'z' is list<element: int64>, whose values have no order",
    ),
    "range of times of a CSV": (
        checks.in_range("o/", "z", "2013-01-01", "2013-01-02"),
        {"o/a.csv": csv("2013-01-01", "2013-01-03")},
        "has 2013-01-03, more than",
    ),
    "unique over digits and texts of CSV files": (
        UNIQUE,
        {"o/a.csv": csv(7), "o/b.csv": csv("ab")},
        "",
    ),
    "repeated over digits and texts of CSV files": (
        UNIQUE,
        {"o/a.csv": csv(7), "o/b.csv": csv("ab", 7)},
        "z='7': 2 times",
    ),
    "leading zeros of a CSV are unique": (UNIQUE, {"o/a.csv": csv("007", "7")}, ""),
    "leading zeros of CSV files are unique": (
        UNIQUE,
        {"o/a.csv": csv("007"), "o/b.csv": csv("7")},
        "",
    ),
    "equal numbers of CSV files are repeats": (
        UNIQUE,
        {"o/a.csv": csv(1), "o/b.csv": csv("1.0", "")},
        "z=1.0: 2 times",
    ),
    "long numbers of a CSV are distinct": (
        UNIQUE,
        {"o/a.csv": csv("12345678901234567890", "12345678901234567891", "1.5")},
        "",
    ),
    "both zeros are equal": (UNIQUE, {"o/a.parquet": column([0.0, -0.0])}, "z=0.0: 2 times"),
    "both zeros of a CSV are equal": (UNIQUE, {"o/a.csv": csv("0.0", "-0.0")}, "2 times"),
    "both zeros of single precision are equal": (
        UNIQUE,
        {"o/a.parquet": column([0.0, -0.0], pa.float32())},
        "2 times",
    ),
    "unique over dictionary and string": (
        UNIQUE,
        {"o/a.parquet": words(["a"]), "o/b.parquet": column(["b"])},
        "",
    ),
    "repeated over dictionary and large string": (
        UNIQUE,
        {"o/a.parquet": words(["a"]), "o/b.parquet": column(["a"], pa.large_string())},
        "z='a': 2 times",
    ),
    "repeated over CSV and string": (
        UNIQUE,
        {"o/a.csv": csv(7), "o/b.parquet": column(["7"])},
        "z='7': 2 times",
    ),
    "repeated over CSV and int": (
        UNIQUE,
        {"o/a.csv": csv(7), "o/b.parquet": column([7])},
        "z=7: 2 times",
    ),
    "repeated over CSV of texts and double": (
        UNIQUE,
        {"o/a.csv": csv(7, "ab"), "o/b.parquet": column([7.0])},
        "z='7': 2 times",
    ),
    "repeated over int and string": (
        UNIQUE,
        {"o/a.parquet": column([7]), "o/b.parquet": column(["7"])},
        "z='7': 2 times",
    ),
    "unique over int and string": (
        UNIQUE,
        {"o/a.parquet": column([7]), "o/b.parquet": column(["8"])},
        "",
    ),
    "repeated over int and float": (
        UNIQUE,
        {"o/a.parquet": column([7]), "o/b.parquet": column([7.0], pa.float32())},
        "2 times",
    ),
    "unique over huge int and float": (
        UNIQUE,
        {"o/a.parquet": column([2**53, 2**53 + 1]), "o/b.parquet": column([0.5])},
        "",
    ),
    "repeated over decimals of two scales": (
        UNIQUE,
        {
            "o/a.parquet": column([Decimal("5.10")], pa.decimal128(9, 2)),
            "o/b.parquet": column([Decimal("5.1000")], pa.decimal128(12, 4)),
        },
        "2 times",
    ),
    "repeated over CSV and decimal": (
        UNIQUE,
        {"o/a.csv": csv("5.1"), "o/b.parquet": column([Decimal("5.10")], pa.decimal128(9, 2))},
        "2 times",
    ),
    "repeated over two time zones": (
        UNIQUE,
        {
            "o/a.parquet": column([NOON], pa.timestamp("us", "UTC")),
            "o/b.parquet": column([NOON], pa.timestamp("ms", "America/New_York")),
        },
        "2 times",
    ),
    "repeated over a time with and without a zone": (
        UNIQUE,
        {
            "o/a.parquet": column([NOON], pa.timestamp("us", "UTC")),
            "o/b.parquet": column([NOON.replace(tzinfo=None)], pa.timestamp("us")),
        },
        "2 times",
    ),
    "repeated over a CSV and times": (
        UNIQUE,
        {
            "o/a.csv": csv("2013-01-01T12:00:00Z"),
            "o/b.parquet": column([NOON], pa.timestamp("us", "UTC")),
        },
        "2 times",
    ),
    "unique beside a file without values": (
        UNIQUE,
        {"o/a.parquet": column([None], pa.null()), "o/b.parquet": column(["a"]), "o/c.csv": csv()},
        "",
    ),
    "unique over lists": (
        UNIQUE,
        {"o/a.parquet": column([[1], [2]])},
        "column 'z' is list<element: int64>, which cannot be compared",
    ),
    "a CSV refers to digits beside a text": (
        REFERS,
        {"o/a.csv": csv(7), "d/b.csv": csv(7, "ab")},
        "",
    ),
    "a CSV refers to leading zeros": (
        REFERS,
        {"o/a.csv": csv(7), "d/b.csv": csv("007")},
        "1 values of 'z' below 'o/' are not in 'z' below 'd/': '7'",
    ),
    "a CSV of digits refers to a file of texts": (
        REFERS,
        {"o/a.csv": csv("007"), "d/a.csv": csv("007", "1"), "d/b.csv": csv("ab")},
        "",
    ),
    "a CSV refers to strings": (REFERS, {"o/a.csv": csv(7), "d/b.parquet": column(["7"])}, ""),
    "a CSV refers to ints": (REFERS, {"o/a.csv": csv(7), "d/b.parquet": column([7])}, ""),
    "a CSV of texts refers to ints": (
        REFERS,
        {"o/a.csv": csv(7, "ab"), "d/b.parquet": column([7])},
        "1 values of 'z' below 'o/' are not in 'z' below 'd/': 'ab'",
    ),
    "floats refer to a CSV of texts": (
        REFERS,
        {"o/a.parquet": column([7.0, None]), "d/b.csv": csv(7, "ab")},
        "",
    ),
    "a dictionary refers to strings": (
        REFERS,
        {"o/a.parquet": words(["a", "b"]), "d/b.parquet": column(["a"])},
        "not in 'z' below 'd/': 'b'",
    ),
    "nulls refer to nothing": (REFERS, {"o/a.csv": csv("", "NA"), "d/b.csv": csv(1)}, ""),
    "a fresh time in a CSV": (
        checks.freshness("o/", timedelta(days=2), column="z"),
        {"o/a.csv": csv("2013-01-01T00:00:00Z", "")},
        "",
    ),
    "a column that a CSV names twice": (
        NOT_NULL,
        {"o/a.csv": b"z,z\n1,2\n"},
        "'o/a.csv' has 2 columns 'z'",
    ),
    "repeated over a CSV without a zone and times without one": (
        UNIQUE,
        {
            "o/a.csv": csv("2013-01-01 12:00:00"),
            "o/b.parquet": column([NOON.replace(tzinfo=None)], pa.timestamp("us")),
        },
        "2 times",
    ),
    "repeated over dates of a CSV and midnights": (
        UNIQUE,
        {"o/a.csv": csv("2013-01-01"), "o/b.parquet": column([NOON.replace(hour=0)])},
        "2 times",
    ),
    "repeated over a date and its midnight": (
        UNIQUE,
        {"o/a.parquet": column([date(2013, 1, 1)]), "o/b.parquet": column([NOON.replace(hour=0)])},
        "2 times",
    ),
    "repeated over decimal and int": (
        UNIQUE,
        {"o/a.parquet": column([Decimal("7.00")]), "o/b.parquet": column([7])},
        "2 times",
    ),
    "repeated over decimals and a CSV of finer ones": (
        UNIQUE,
        {"o/a.parquet": column([Decimal("7.00")]), "o/b.csv": csv("7", "7.123")},
        "2 times",
    ),
    "repeated over ints and a CSV of fractions": (
        UNIQUE,
        {"o/a.parquet": column([7]), "o/b.csv": csv("7.0", "7.5")},
        "2 times",
    ),
    "two nulls are no repeat": (UNIQUE, {"o/a.parquet": column([1, None, None])}, ""),
    "two nulls of a CSV are no repeat": (UNIQUE, {"o/a.csv": csv("1", "", "NULL")}, ""),
    "unique over files without rows": (
        UNIQUE,
        {"o/a.parquet": column([], pa.int64()), "o/b.csv": csv()},
        "",
    ),
    "NaN refers to NaN": (
        REFERS,
        {"o/a.parquet": column([1.0, NAN]), "d/b.parquet": column([NAN, 1.0])},
        "",
    ),
    "times in another zone are in range": (
        checks.in_range("o/", "z", "2013-01-01T12:00", "2013-01-01T12:00"),
        {"o/a.parquet": column([NOON], pa.timestamp("us", "America/New_York"))},
        "",
    ),
    "times in another zone are out of range": (
        checks.in_range("o/", "z", at_most="2013-01-01T09:00-05:00"),
        {"o/a.parquet": column([NOON.replace(hour=15, tzinfo=None)], pa.timestamp("us"))},
        "more than",
    ),
    "a decimal at its bound": (
        checks.in_range("o/", "z", Decimal("0.1"), 0.3),
        {"o/a.parquet": column([Decimal("0.1"), Decimal("0.3")])},
        "",
    ),
    "a decimal below its bound": (
        checks.in_range("o/", "z", Decimal("0.11")),
        {"o/a.parquet": column([Decimal("0.10")])},
        "has 0.10, less than 0.11",
    ),
    "columns of folders are unique": (
        checks.unique("o/", "z", "carrier"),
        {f"o/carrier={name}/a.parquet": column([7]) for name in ("UA", "AA")},
        "",
    ),
    "repeated over columns of folders": (
        checks.unique("o/", "z", "carrier"),
        {f"o/carrier=UA/{name}.parquet": column([7]) for name in "ab"},
        "carrier='UA': 2 times",
    ),
    "a column of folders refers to a CSV": (
        checks.refers_to("o/", "day", "d/", "z"),
        {"o/day=7/a.parquet": rows(1), "o/day=8/a.csv": csv(1), "d/b.csv": csv(7)},
        "not in 'z' below 'd/': 8",
    ),
    "a column of folders out of range": (
        checks.in_range("o/", "day", 1, 31),
        {"o/day=32/a.parquet": rows(1)},
        "has 32, more than 31",
    ),
    "a date of folders in range": (
        checks.in_range("o/", "day", "2013-01-01", "2013-01-02"),
        {"o/day=2013-01-01/a.csv": csv(1)},
        "",
    ),
    "the null of folders": (
        checks.not_null("o/", "day"),
        {"o/day=__HIVE_DEFAULT_PARTITION__/a.parquet": rows(3)},
        "has 3 nulls in 3 rows",
    ),
    "line breaks and long fields of a long CSV": (
        checks.not_null("o/", "z"),
        {"o/a.csv": b"z,other\n" + b'"a\nb\n",%s\n' % (b"x" * 300_000) * 10},
        "",
    ),
    "numbers that become fractions late in a CSV": (
        RANGE,
        {"o/a.csv": csv(*[1] * 400_000, 1.5)},
        "",
    ),
    "rows of a CSV with a long field": (
        checks.row_count("o/", at_least=2, at_most=2),
        {"o/a.csv": csv("x" * 200_000, 2)},
        "",
    ),
    "indented JSON that is long": (
        checks.file_format("o/"),
        {"o/a.json": json.dumps([{"a": "b" * 50}] * 3000, indent=2).encode()},
        "",
    ),
    "JSON that is damaged early": (
        checks.file_format("o/"),
        {"o/a.json": b'{\n"a" 1,\n' + b'"b": "%s"}' % (b"x" * 100_000)},
        "cannot be read as JSON",
    ),
    "a time of the future": (
        checks.freshness("o/", column="z"),
        {"o/a.csv": csv("2013-01-01"), "o/b.parquet": column([NOON.replace(year=9999, hour=0)])},
        "'o/b.parquet' has 9999-01-01T00:00:00+00:00, which is more than 1 day, 0:00:00 after now",
    ),
    "one type of Parquet by two libraries": (
        checks.schema("o/", {"z": "string"}, evolution="none"),
        {
            "o/a.parquet": column(["a"], pa.large_string()),
            "o/b.parquet": words(["a"]),
            "o/c.parquet": column(["a"], pa.string_view()),
        },
        "",
    ),
    "lists of large texts": (
        checks.schema("o/", {"z": "list<item: string>"}),
        {"o/a.parquet": column([["a"]], pa.large_list(pa.large_string()))},
        "",
    ),
    "a map as Arrow writes it": (
        checks.schema("o/", {"z": "map<string, list<item: int64>>"}),
        {"o/a.parquet": column([[("a", [1])]], pa.map_(pa.string(), pa.list_(pa.int64())))},
        "",
    ),
    "lists of one length": (
        checks.schema("o/", {"z": "fixed_size_list<item: int64>[2]"}),
        {"o/a.parquet": column([[1, 2]], pa.list_(pa.int64(), 2))},
        "",
    ),
    "an odd character in a row of a CSV": (
        checks.schema("o/", {"z": "string"}),
        {"o/a.csv": b"z\n\x1c\n"},
        "",
    ),
    "a column of folders in the schema": (
        checks.schema("o/", {"id": "int64", "day": "date32[day]"}, evolution="none"),
        {"o/day=2013-01-01/a.parquet": rows(1)},
        "",
    ),
    "two columns of one name in the schema": (
        checks.schema("o/", {"z": "int64"}),
        {"o/a.parquet": twice()},
        "'o/a.parquet' has 2 columns 'z': rename one",
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_a_check_reads_values_of_every_type_of_file(repo, case):
    gate, files, expected = CASES[case]
    verdict = judged(repo, gate, files)
    assert expected in verdict.reason
    assert verdict.passed is not bool(expected)
    assert "CorruptionError" not in verdict.reason


@pytest.mark.parametrize("make", [checks.not_null, checks.unique])
def test_a_sound_file_of_another_type_is_not_damaged(repo, make):
    reason = judged(repo, make("o/", "z"), {"o/a.jsonl": b'{"z": 1}\n'}).reason
    assert "'o/a.jsonl' is neither Parquet nor CSV by its name" in reason
    assert "CorruptionError" not in reason


def test_without_formats_every_known_one_is_accepted(repo):
    gate = checks.file_format("o/")
    sound = {"o/a.parquet": rows(1), "o/b.csv": csv(1), "o/c.jsonl": b"{}\n"}
    assert judged(repo, gate, sound).passed
    reason = judged(repo, gate, {"o/d.txt": b"x", "o/e.json": b"<html>"}).reason
    assert "'o/d.txt' is not named as parquet or csv or json" in reason
    assert "'o/e.json' cannot be read as JSON" in reason
