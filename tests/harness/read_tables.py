"""Cases of tables with what a read of each gives, the same for the frames of every library."""

from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from decimal import Decimal
from io import BytesIO
from math import nan
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet


def parquet(**columns: Any) -> bytes:
    """Return a Parquet file of columns."""
    sink = BytesIO()
    pyarrow.parquet.write_table(pa.table(columns), sink)
    return sink.getvalue()


def arrow(**columns: Any) -> bytes:
    """Return an Arrow file of columns."""
    sink = BytesIO()
    pyarrow.feather.write_feather(pa.table(columns), sink)
    return sink.getvalue()


@dataclass(frozen=True)
class Case:
    """Files of the table ``t/``, the arguments of a read, and the rows or the words of the error."""

    name: str
    files: dict[str, bytes]
    rows: list[dict[str, Any]] | str
    terms: dict[str, Any] = field(default_factory=dict)
    spark: bool = True


def _noon(day: int) -> datetime:
    return datetime(2013, 1, day, 12, tzinfo=UTC)


def _day(day: int) -> datetime:
    return _noon(day).replace(hour=0, tzinfo=None)


N = {"a.parquet": parquet(n=[1, 2, None, 4])}
F = {"a.parquet": parquet(f=[1.0, nan, None, 2.5])}
ONE = {"a.parquet": parquet(n=[1, 2], f=[1.0, nan])}
SINGLE = {"a.parquet": parquet(n=[1, 2], f=pa.array([0.1, 0.5], pa.float32()))}
S = {"a.parquet": parquet(s=["a", "é", None])}
D = {"a.parquet": parquet(d=pa.array([Decimal("1.50"), None, Decimal("2.25")]))}
T = {"a.parquet": parquet(t=pa.array([_noon(1), None, _noon(3)], pa.timestamp("us", "UTC")))}
Z = {"a.parquet": parquet(t=pa.array([_noon(1), None], pa.timestamp("us", "America/New_York")))}
W = {"a.parquet": parquet(t=[_day(1), _day(2)])}
DAYS = {
    f"day={day}/a.parquet": parquet(n=[number])
    for number, day in enumerate(("01", "10", "2", "__HIVE_DEFAULT_PARTITION__"))
}
HOURS = {f"hour={hour:02}%3A00/ä b.parquet": parquet(n=[hour]) for hour in (5, 6)}
CSV = b'n,s,d\n1,a,2013-01-01\n2,"b\nc",2013-01-02\n'
JSON = b'{"n": 1, "s": "a"}\n{"n": 2, "x": 0.5}\n'


def _where(name: str, files: dict[str, bytes], where: Any, *values: Any) -> Case:
    column = next(iter(pyarrow.parquet.read_table(BytesIO(next(iter(files.values())))).schema)).name
    rows = [{column: value} for value in values]
    return Case(f"{name}: {where}", files, rows, {"where": where, "columns": [column]})


CASES = [
    Case("an empty folder", {"_SUCCESS": b""}, "nothing to read"),
    Case(
        "hidden files", {**N, "_x/b.parquet": b"", ".c": b""}, [{"n": n} for n in (1, 2, None, 4)]
    ),
    Case("two formats", {**N, "b.csv": CSV}, "files of several formats"),
    Case(
        "one of two formats",
        {**N, "b.csv": CSV},
        [{"n": 1}, {"n": 2}],
        {"where": [("n", "<=", 2)], "format": "parquet"},
    ),
    Case("no suffix", {"part-0": parquet(n=[1])}, [{"n": 1}]),
    Case("a suffix in capitals", {"A.PARQUET": parquet(n=[1])}, [{"n": 1}]),
    Case(
        "other columns",
        {"a.parquet": parquet(n=[1], s=["x"]), "b.parquet": parquet(x=[0.5], n=[2])},
        [{"n": 1, "s": "x", "x": None}, {"n": 2, "s": None, "x": 0.5}],
        {"columns": ["n", "s", "x"]},
        spark=False,  # Spark takes the columns of one file unless entries keep them
    ),
    Case(
        "wider types",
        {"a.parquet": parquet(n=pa.array([1], pa.int32())), "b.parquet": parquet(n=[1 << 40])},
        [{"n": 1}, {"n": 1 << 40}],
        spark=False,
    ),
    Case(
        "a column that some files lack",
        {"a.parquet": parquet(n=[1], s=["x"]), "b.parquet": parquet(n=[2])},
        [{"n": 2}],
        {"where": {"s": None}, "columns": ["n"]},
        spark=False,
    ),
    Case(
        "types that do not go together",
        {"a.parquet": parquet(n=[1]), "b.parquet": parquet(n=["x"])},
        "not read as one",
        spark=False,
    ),
    Case("CSV", {"a.csv": CSV}, [{"n": 1, "s": "a"}], {"where": {"n": 1}, "columns": ["n", "s"]}),
    Case(
        "empty texts in CSV",
        {"a.csv": b'n,s\n1,a\n2,""\n3,\n'},
        [{"n": 2, "s": None}, {"n": 3, "s": None}],
        {"where": {"s": None}, "columns": ["n", "s"]},
    ),
    Case(
        "a date in CSV",
        {"a.csv": CSV},
        [{"n": 1}],
        {"where": {"d": date(2013, 1, 1)}, "columns": ["n"]},
    ),
    Case(
        "JSON lines",
        {"a.jsonl": JSON},
        [{"n": 2, "s": None, "x": 0.5}],
        {"where": {"s": None}, "columns": ["n", "s", "x"]},
    ),
    Case(
        "JSON lines of no row",
        {"a.jsonl": b"", "b.jsonl": b'{"n": 1}\n', "c.jsonl": b"\n"},
        [{"n": 1}],
    ),
    Case(
        "Arrow",
        {"a.arrow": arrow(n=[1, 2], s=["a", "b"])},
        [{"s": "b"}],
        {"where": {"n": 2}, "columns": ["s"]},
        spark=False,
    ),
    Case("not a table", {"a.parquet": b"PAR1 and no more"}, "not a Parquet file", spark=False),
    Case(
        "partitions",
        DAYS,
        [{"n": n, "day": day} for n, day in enumerate(["01", "10", "2", None])],
        spark=False,
    ),
    Case("a partition by its number", DAYS, [{"n": 0}], {"where": {"day": 1}, "columns": ["n"]}),
    Case("a partition by its text", DAYS, [], {"where": {"day": "1"}, "columns": ["n"]}),
    Case(
        "partitions by order",
        DAYS,
        [{"n": 1}, {"n": 2}],
        {"where": [("day", ">", 1)], "columns": ["n"]},
    ),
    Case(
        "partitions without one",
        DAYS,
        [{"n": 0}, {"n": 1}],
        {"where": [("day", "!=", 2)], "columns": ["n"]},
    ),
    Case("the partition of nulls", DAYS, [{"n": 3}], {"where": {"day": None}, "columns": ["n"]}),
    Case(
        "partitions and rows",
        DAYS,
        [{"n": 2}],
        {"where": {"day": [1, 2], "n": [1, 2]}, "columns": ["n"]},
    ),
    Case("no such partition", DAYS, [], {"where": {"day": 99}, "columns": ["n"]}),
    Case(
        "a partition that is escaped",
        HOURS,
        [{"n": 6}],
        {"where": {"hour": "06:00"}, "columns": ["n"]},
    ),
    Case(
        "partitions of other columns",
        {**DAYS, "x=1/a.parquet": parquet(n=[1])},
        "different columns",
    ),
    Case(
        "only the folder",
        {**N, "old/b.parquet": parquet(n=[9])},
        [{"n": 1}],
        {"nested": False, "where": [("n", "=", 1)]},
    ),
    _where("a value", N, {"n": 2}, 2),
    _where("values and null", N, {"n": [1, None]}, 1, None),
    _where("none of a list", N, {"n": []}),
    _where("not a value", N, [("n", "!=", 2)], 1, 4),
    _where("not null", N, [("n", "!=", None)], 1, 2, 4),
    _where("not in", N, [("n", "not in", [1, 2])], 4),
    _where("a fraction", N, [("n", ">", 1.5)], 2, 4),
    _where("a fraction below", N, [("n", "<", Decimal("2.5"))], 1, 2),
    _where("no fraction", N, {"n": [1.5, 2.0]}, 2),
    _where("several conditions", N, [("n", ">=", 2), ("n", "<", 4)], 2),
    _where("NaN is not greater", F, [("f", ">", 1)], 2.5),
    _where("a float", F, {"f": [1, 2.5]}, 1.0, 2.5),
    _where("NaN beside one value", ONE, [("f", "!=", 1.0)], 2),
    _where("NaN by itself", ONE, {"f": nan}, 2),
    _where("NaN in a list", ONE, {"f": [nan, 7.0]}, 2),
    _where("NaN is not in a list", ONE, [("f", "not in", [1.0, 2.0])], 2),
    _where("NaN or a value", ONE, {"f": [1.0, nan, None]}, 1, 2),
    _where("neither NaN nor a value", ONE, [("f", "not in", [1.0, nan])]),
    _where("above NaN", ONE, [("f", "<", nan)]),
    _where("a float with nulls", F, {"f": [1.0, None]}, 1.0, None),
    _where("single precision", SINGLE, [("f", "<=", 0.1)]),
    _where("no number of 64 bits", N, [("n", "not in", [1 << 70, 1.0])], 2, 4),
    Case(
        "in order with no number of 64 bits",
        N,
        "column 'n' is int64, and cannot be compared with",
        {"where": [("n", "<", 1 << 63)]},
        spark=False,
    ),
    _where("null of pandas", N, {"n": [pd.NA, 4]}, None, 4),
    _where("no time of pandas", W, {"t": pd.NaT}),
    _where("a time of numpy", W, [("t", ">", np.datetime64("2013-01-01", "ns"))], _day(2)),
    _where("a large decimal", D, [("d", "<", Decimal("1e30"))], Decimal("1.50"), Decimal("2.25")),
    Case(
        "a time of nanoseconds",
        {"a.parquet": parquet(t=pa.array([1, 2], pa.timestamp("ns")))},
        "give a time of whole microseconds",
        {"where": {"t": pd.Timestamp(1)}},
        spark=False,  # which cannot read them
    ),
    _where("text", S, {"s": "é"}, "é"),
    _where("text in order", S, [("s", "<=", "b")], "a"),
    _where("a decimal", D, {"d": 1.5}, Decimal("1.50")),
    _where("decimals", D, [("d", ">", 2)], Decimal("2.25")),
    _where("a time without zone", W, {"t": _day(1)}, _day(1)),
    _where("a time", T, {"t": _noon(1)}, _noon(1)),
    _where("times", T, [("t", ">", date(2013, 1, 2))], _noon(3)),
    _where("times of a list", T, {"t": [_noon(3), _noon(2)]}, _noon(3)),
    _where("a time in another zone", Z, {"t": _noon(1)}, _noon(1)),
]
