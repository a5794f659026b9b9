"""Random sets of files, whose checks must say what pandas and DuckDB say of the values.

A set has files of one column in many formats and types. `make fuzz` judges 10,000 sets.
"""

import csv
import gzip
import io
import sys
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from functools import cache
from random import Random
from typing import Any, NamedTuple
from urllib.parse import quote
from zoneinfo import ZoneInfo

import duckdb
import pandas
import pyarrow as pa
import pyarrow.parquet as pq

from graveler import checks
from graveler.errors import GravelerError
from graveler.model import Entry

TEXTS = ("a", "b", "straße", "a b", 'q"x', "l\nb", "k=v")
NUMBERS = (Decimal(0), Decimal(1), Decimal(7), Decimal(-3), Decimal("7.25"), Decimal("0.5"))
TIMES = tuple(datetime(2013, 1, 1, tzinfo=UTC) + timedelta(hours=12 * half) for half in range(4))
NEW_YORK = ZoneInfo("America/New_York")
REPEATED = """
    select count(*) from (select z from o where z is not null group by z having count(*) > 1)
"""
LOST = "select count(distinct z) from o where z not in (select z from d where z is not null)"
NULL = "__HIVE_DEFAULT_PARTITION__"


class Form(NamedTuple):
    """How a file holds the column: the type of Arrow, or a format of text and its spelling."""

    kind: Any
    spell: Callable[[Any], Any] = lambda value: value
    holds: Callable[[Any], bool] = lambda _: True


def is_whole(value):
    return value == value.to_integral_value()


def is_midnight(time):
    return time.hour == 0


FORMS = {
    TEXTS: (
        Form(pa.string()),
        Form(pa.large_string()),
        Form(pa.dictionary(pa.int32(), pa.string())),
        Form("csv"),
        Form("csv.gz"),
        Form("folder", quote),
    ),
    NUMBERS: (
        Form(pa.int64(), int, is_whole),
        Form(pa.int16(), int, is_whole),
        Form(pa.float64(), float),
        Form(pa.float32(), float),
        Form(pa.decimal128(9, 2)),
        Form(pa.decimal128(20, 5)),
        Form("csv", str),
        Form("csv", lambda value: repr(float(value))),
        Form("csv.gz", str),
        Form("folder", str),
    ),
    TIMES: (
        Form(pa.timestamp("us"), lambda time: time.replace(tzinfo=None)),
        Form(pa.timestamp("ms", "UTC")),
        Form(pa.timestamp("us", "America/New_York")),
        Form(pa.date32(), datetime.date, is_midnight),
        Form("csv", lambda time: f"{time:%Y-%m-%d %H:%M:%S}"),
        Form("csv", lambda time: time.astimezone(NEW_YORK).isoformat()),
        Form("csv.gz", lambda time: f"{time:%Y-%m-%dT%H:%M:%SZ}"),
    ),
}


class Candidate:
    """A stand-in for a candidate that adds all of its files."""

    restores = False

    def __init__(self, files):
        self.files = files
        self.facts = {}

    def entries(self, prefix):
        return (
            Entry(path, path, len(data), "") for path, data in self.files.items() if prefix in path
        )

    def changes(self, _prefix):
        return ()

    def get(self, path):
        return self.files[path]

    def open(self, path):
        return io.BytesIO(self.files[path])

    def read_range(self, path, start, length):
        return self.files[path][start : start + length]

    def report(self, **facts):
        self.facts.update(facts)


def written(form, values, name):
    """Return the name and the bytes of a file with these values."""
    cells = [None if value is None else form.spell(value) for value in values]
    sink = io.BytesIO()
    if form.kind == "folder":
        pq.write_table(pa.table({"other": cells}), sink)
        return f"z={NULL if cells[0] is None else cells[0]}/{name}.parquet", sink.getvalue()
    if isinstance(form.kind, str):
        text = io.StringIO()
        lines = csv.writer(text)
        lines.writerow(["z", "other"])
        lines.writerows(["" if cell is None else cell, 1] for cell in cells)
        raw = text.getvalue().encode()
        return f"{name}.{form.kind}", gzip.compress(raw) if form.kind == "csv.gz" else raw
    pq.write_table(pa.table({"z": pa.array(cells, form.kind)}), sink)
    return f"{name}.parquet", sink.getvalue()


def side(chosen, pool, prefix, most):
    """Return files below a prefix, and their values."""
    files, every = {}, []
    for number in range(chosen.randint(1, 4)):
        form = chosen.choice(FORMS[pool])
        some = [value for value in pool if form.holds(value)]
        values = [chosen.choice([*some, None]) for _ in range(chosen.randint(0, most))]
        if form.kind == "folder":
            values = values[:1] * chosen.randint(1, 2)
            if not values:
                continue
        name, data = written(form, values, f"f{number}")
        files[f"{prefix}/{name}"] = data
        every += values
    return files, every


def wrong(seed):
    """Return how a check of a random set differs from DuckDB and pandas, or ""."""
    chosen = Random(seed)
    pool: Any = chosen.choice(list(FORMS))
    files, ours = side(chosen, pool, "o", 3)
    others, theirs = side(chosen, pool, "d", 8)
    if not (files and others):
        return ""
    candidate = Candidate({**files, **others})
    values = pandas.DataFrame({"z": pandas.Series(ours, dtype=object).map(plain)})
    there = pandas.DataFrame({"z": pandas.Series(theirs, dtype=object).map(plain)})
    kind = (
        "timestamp with time zone" if pool is TIMES else "double" if pool is NUMBERS else "varchar"
    )
    db = database()
    db.execute(f"create or replace table o (z {kind}); create or replace table d (z {kind})")
    db.executemany("insert into o values (?)", [[plain(one)] for one in [*ours, None]])
    db.executemany("insert into d values (?)", [[plain(one)] for one in [*theirs, None]])
    repeated, lost = (db.execute(query).fetchall()[0][0] for query in (REPEATED, LOST))
    assert repeated == values.z.dropna()[values.z.dropna().duplicated()].nunique()
    assert lost == len(set(values.z.dropna()) - set(there.z.dropna()))
    least, greatest = chosen.choice(pool), chosen.choice(pool)
    expected: dict[Any, bool] = {
        checks.unique("o/", "z"): repeated == 0,
        checks.refers_to("o/", "z", "d/", scope="all"): lost == 0,
        checks.not_null("o/", "z", scope="all"): not values.z.isna().any(),
    }
    if pool is not TEXTS and least <= greatest:
        inside = values.z.dropna().between(plain(least), plain(greatest)).all()
        expected[checks.in_range("o/", "z", least, greatest, scope="all")] = bool(inside)
    for gate, passes in expected.items():
        try:
            said: object = gate.check(candidate)
        except GravelerError as error:
            said = error
        if (said is None) is not passes:
            forms = "; ".join(f"{path}" for path in candidate.files)
            return (
                f"seed {seed}: {gate.name}: {said!r}, expected {passes}: {forms}: {ours} {theirs}"
            )
    return ""


@cache
def database():
    """Return DuckDB in memory, which all sets use one after the other."""
    db = duckdb.connect()
    db.execute("set timezone = 'UTC'; set threads = 1")
    return db


def plain(value):
    return float(value) if isinstance(value, Decimal) else value


def main(number):
    """Judge sets; print what is wrong, and return whether anything is."""
    found = [text for text in map(wrong, range(number)) if text]
    lines = [*found[:20], f"{number} sets: {len(found) or 'nothing'} wrong"]
    sys.stdout.write("\n".join(lines) + "\n")
    return bool(found)


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1])))
