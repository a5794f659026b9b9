"""The values that checks read from CSV files, Parquet files, and both together."""

import gzip
import math
from datetime import UTC, datetime, timedelta
from decimal import Decimal

import pyarrow as pa
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


RANGE = checks.in_range("o/", "z", 0, 9)
NOT_NULL = checks.not_null("o/", "z")
UNIQUE = checks.unique("o/", "z")
REFERS = checks.refers_to("o/", "z", "d/")

CASES = {
    # gate, files, and a part of the reason, or "" if it passes
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
