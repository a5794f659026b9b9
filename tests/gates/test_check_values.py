"""The values that checks read from CSV files, Parquet files, and both together.

The oracle compares the same checks with pandas and DuckDB on random files of all types.
"""

import math
from datetime import UTC, date, datetime
from decimal import Decimal

import pyarrow as pa
import pytest

from graveler import checks
from tests.gates.files import File, column, csv, judged, packed, rows, table, there

NAN = math.nan
HUGE = 2**62
NOON = datetime(2013, 1, 1, 12, tzinfo=UTC)
HALF = pa.array([1.0, NAN], pa.float32()).cast(pa.float16())
TRIP = table({"trip": [{"fare": {"amount": 1, "tip": None}}, {"fare": {"amount": 1, "tip": 2}}]})
TWICE = table([[1], [2]], schema=pa.schema([("z", pa.int64()), ("z", pa.int64())]))
STRINGS = (
    column(["a"], pa.large_string()),
    table({"z": pa.array(["a"]).dictionary_encode()}),
    column(["a"], pa.string_view()),
)


def words(values):
    return table({"z": pa.array(values).dictionary_encode()})


def text(data):
    return File(".csv", data if isinstance(data, bytes) else data.encode())


def of_folder(pair, name="a.parquet"):
    return File(f"/{pair}/{name}", rows(3))


def between(least=None, most=None, **options):
    return checks.in_range("o/", options.pop("column", "z"), least, most, **options)


RANGE = between(0, 9)
NOT_NULL = checks.not_null("o/", "z")
UNIQUE = checks.unique("o/", "z")
REFERS = checks.refers_to("o/", "z", "d/")

CASES = {
    # gate, a part of the reason, or "" if it passes, and the files
    "no nulls": (NOT_NULL, "", column([1, 2])),
    "nulls": (
        checks.not_null("o/", "z", "id"),
        "column 'z' has 2 nulls in 4 rows",
        *(table({"id": [1, 2, 3], "z": ["a", None, None]}), table({"id": [1], "z": ["a"]})),
    ),
    "share of nulls": (checks.not_null("o/", "z", share=0.5), "", column([1, None, None, 2])),
    "nulls no footer counts": (
        NOT_NULL,
        "has 1 nulls in 2 rows",
        column([1, None], write_statistics=False),
    ),
    "nulls of row groups": (
        NOT_NULL,
        "has 2 nulls in 5 rows",
        column([5, None, None, 0, 3], row_group_size=1),
    ),
    "nulls of a struct": (
        checks.not_null("o/", "trip.fare.tip"),
        "column 'trip.fare.tip' has 1 nulls in 2 rows",
        TRIP,
    ),
    "no column": (checks.not_null("o/", "x"), "has no column 'x': it has z", column([1])),
    "null in a list": (
        checks.not_null("o/", "z.list.element"),
        "lies within a list",
        column([[1, None]]),
    ),
    "null of a text": (NOT_NULL, "neither Parquet nor CSV by its name", File(".txt", b"x")),
    "nulls of a CSV": (
        NOT_NULL,
        "has 9 nulls in 10 rows",
        csv("x", "", "NA", "N/A", "n/a", "#N/A", "#NA", "NULL", "null", '""'),
    ),
    "NaN of a CSV is no null": (NOT_NULL, "", csv(1.5, "NaN")),
    "NaN is no null": (NOT_NULL, "", column([1.5, NAN])),
    "null of folders": (
        checks.not_null("o/", "day"),
        "has 3 nulls in 3 rows",
        of_folder("day=__HIVE_DEFAULT_PARTITION__"),
    ),
    "two columns of a CSV": (NOT_NULL, "'o/0.csv' has 2 columns 'z'", text("z,z\n1,2\n")),
    "other code": (
        NOT_NULL,
        "'o/0.csv' cannot be read as CSV: 'utf-8'",
        text("z,b\n1,Zürich\n".encode("latin-1")),
    ),
    "open quote": (NOT_NULL, "a field in quotes does not end", text('z,b\n1,"2\n,4\n')),
    "open last quote": (UNIQUE, "a field in quotes does not end", text('z,b\n1,x"y\n1,"3\n')),
    "long fields of a long CSV": (
        NOT_NULL,
        "",
        text(b"z,other\n" + b'"a\nb\n",%s\n' % (b"x" * 300_000) * 10),
    ),
    # types
    "odd character": (checks.schema("o/", {"z": "string"}), "", text("z\n\x1c\n")),
    "strings alike": (checks.schema("o/", {"z": "string"}, evolution="none"), "", *STRINGS),
    "large lists": (
        checks.schema("o/", {"z": "list<item: string>"}),
        "",
        column([["a"]], pa.large_list(pa.large_string())),
    ),
    "map": (
        checks.schema("o/", {"z": "map<string, list<item: int64>>"}),
        "",
        column([[("a", [1])]], pa.map_(pa.string(), pa.list_(pa.int64()))),
    ),
    "lists of one length": (
        checks.schema("o/", {"z": "fixed_size_list<item: int64>[2]"}),
        "",
        column([[1, 2]], pa.list_(pa.int64(), 2)),
    ),
    "column of folders": (
        checks.schema("o/", {"id": "int64", "day": "date32[day]"}, evolution="none"),
        "",
        File("/day=2013-01-01/a.parquet", rows(1)),
    ),
    "two of one name": (checks.schema("o/", {"z": ""}), "'o/0.parquet' has 2 columns 'z'", TWICE),
    # ranges
    "too small": (between(1), "column 'z' has 0, less than 1", column([0, 1])),
    "too large by one": (
        between(most=HUGE),
        f"has {HUGE + 1}, more than {HUGE}",
        column([HUGE, HUGE + 1]),
    ),
    "NaN": (between(0.0), "1 values that are NaN", column([0.5, NAN])),
    "NaN, allowed": (between(0.0, nan=True), "", column([0.5, NAN])),
    "NaN of half precision": (RANGE, "are NaN", table({"z": HALF})),
    "NaN of a dictionary": (RANGE, "are NaN", words([1.0, NAN])),
    "NaN of a CSV": (RANGE, "2 values that are NaN", csv(1, "NaN", "-nan")),
    "NaN of a packed CSV": (RANGE, "are NaN", packed(csv("NaN"))),
    "NaN of a CSV, allowed": (between(0, 9, nan=True), "", csv(1.5, "nan")),
    "infinity": (between(most=9.0), "has inf, more than 9.0", column([math.inf])),
    "infinity of a CSV": (RANGE, "has inf, more than 9", csv(1, "inf")),
    "decimals": (between(1, 2), "has 2.01, more than 2", column([Decimal("2.01")])),
    "dates": (
        between(date(2013, 1, 1), "2013-01-31"),
        "has 2013-02-01, more than 2013-01-31",
        column([date(2013, 1, 1), date(2013, 2, 1)]),
    ),
    "bound of another zone": (
        between(most="2013-01-01T06:00-05:00"),
        "more than",
        column([NOON.replace(tzinfo=None)]),
    ),
    "times of a CSV": (
        between("2013-01-01", "2013-01-02"),
        "has 2013-01-03, more than",
        csv("2013-01-01", "2013-01-03"),
    ),
    "zones of a CSV": (
        between(most=datetime(2026, 1, 2, tzinfo=UTC)),
        "2026-01-02 04:30:00+00:00, more than",
        csv("2026-01-01T23:30:00-05:00", "2026-01-01"),
    ),
    "another form of time": (
        between(most=date(2026, 1, 1)),
        "'01/02/2025', which is no ISO 8601 time",
        csv("2025-01-01", "2027-06-01", "01/02/2025"),
    ),
    "five digits": (between(most="2026-01-01"), "is no ISO 8601 time", csv("10000-01-01")),
    "texts": (between("a", "m"), "has z, more than m", column(["b", "z"])),
    "digits are texts": (between("00501", "99950"), "", csv("00601", "10001")),
    "a text below": (between("00501"), "has 00123, less than 00501", csv("00123", "10001")),
    "another type": (between(1), "cannot be compared with 1", column(["b"])),
    "lists": (RANGE, "whose values have no order", column([[1], [2]])),
    "nulls alone": (between(1), "", column([None, None], pa.int64())),
    "no footer": (between(1), "has 0, less than 1", column([1, 0], write_statistics=False)),
    "row groups": (
        between(1),
        "has 0, less than 1",
        column([5, None, None, 0, 3], row_group_size=1),
    ),
    "an empty file": (between(1), "", column([], pa.int64())),
    "beyond 64 bits": (between(0, 2**64), "", csv(5, 2**64, "", "1e3")),
    "just above": (
        between(0, 2**64),
        "has 18446744073709551617, more than 18446744073709551616",
        csv(5, 2**64 + 1, "nan"),
    ),
    "just below": (
        between(-(10**35)),
        f"has -1{'0' * 34}1, less than",
        packed(csv(-(10**35) - 1, "inf")),
    ),
    "late fractions": (RANGE, "", csv(*[1] * 400_000, 1.5)),
    # unique
    "repeated": (UNIQUE, "2 values of z occur more than once (z=", column([0, 1]), column([1, 0])),
    "unique together": (
        checks.unique("o/", "id", "z"),
        "",
        *(table({"id": [0, 1], "z": [name, name]}) for name in "ab"),
    ),
    "repeated in a struct": (checks.unique("o/", "trip.fare.amount"), "amount=1: 2 times", TRIP),
    "huge numbers": (UNIQUE, "", column([HUGE, HUGE + 1])),
    "huge int and float": (UNIQUE, "", column([2**53, 2**53 + 1]), column([0.5])),
    "long numbers of a CSV": (UNIQUE, "", csv("12345678901234567890", "12345678901234567891", 1.5)),
    "leading zeros": (UNIQUE, "", csv("007"), csv("7")),
    "digits and texts": (UNIQUE, "z='7': 2 times", csv(7), csv("ab", 7)),
    "both zeros": (UNIQUE, "z=0.0: 2 times", column([0.0, -0.0])),
    "both zeros of a CSV": (UNIQUE, "2 times", csv("0.0", "-0.0")),
    "CSV and string": (UNIQUE, "z='7': 2 times", csv(7), column(["7"])),
    "texts and double": (UNIQUE, "z='7': 2 times", csv(7, "ab"), column([7.0])),
    "int and string": (UNIQUE, "z='7': 2 times", column([7]), column(["7"])),
    "other int and string": (UNIQUE, "", column([7]), column(["8"])),
    "decimal and finer CSV": (UNIQUE, "2 times", column([Decimal("7.00")]), csv("7", "7.123")),
    "no values": (UNIQUE, "", column([None], pa.null()), column(["a"]), csv()),
    "no rows": (UNIQUE, "", column([], pa.int64()), csv()),
    "unique over lists": (
        UNIQUE,
        "column 'z' is list<element: int64>, which cannot be compared",
        column([[1], [2]]),
    ),
    "repeated over folders": (
        checks.unique("o/", "id", "carrier"),
        "carrier='UA': 2 times",
        *(of_folder("carrier=UA", f"{name}.parquet") for name in "ab"),
    ),
    # references
    "digits beside a text": (REFERS, "", csv(7), there(csv(7, "ab"))),
    "refers to leading zeros": (
        REFERS,
        "1 values of 'z' below 'o/' are not in 'z' below 'd/': '7'",
        *(csv(7), there(csv("007"))),
    ),
    "digits to texts": (REFERS, "", csv("007"), there(csv("007", "1")), there(csv("ab"))),
    "CSV to strings": (REFERS, "", csv(7), there(column(["7"]))),
    "texts to ints": (REFERS, "are not in 'z' below 'd/': 'ab'", csv(7, "ab"), there(column([7]))),
    "floats to a CSV": (REFERS, "", column([7.0, None]), there(csv(7, "ab"))),
    "nulls to nothing": (REFERS, "", csv("", "NA"), there(csv(1))),
    "NaN to NaN": (REFERS, "", column([1.0, NAN]), there(column([NAN, 1.0]))),
    "folders to a CSV": (
        checks.refers_to("o/", "day", "d/", "z"),
        "not in 'z' below 'd/': 8",
        *(of_folder("day=7"), File("/day=8/a.csv", b"z\n1\n"), there(csv(7))),
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_a_check_reads_values_of_every_type_of_file(repo, case):
    gate, reason, *files = CASES[case]
    verdict = judged(repo, gate, *files)
    assert reason in verdict.reason
    assert verdict.passed is not bool(reason)
    assert ("CorruptionError" in verdict.reason) is ("quote" in case or "code" in case)
